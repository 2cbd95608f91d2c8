"""Writes manifests with template expressions.

A manifest is read, changed and written as data, so the chart has what the manifest has. Template
expressions are not YAML, so the data has a mark in place of each. Writing replaces the marks.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

_MARK: Final = re.compile(r"XTPL(\d+)X")
_LINE: Final = re.compile(r"^( *)(- )?XTPL(\d+)X(?:: null)?$")
_VALUE: Final = re.compile(r"^( *)(.*: )XTPL(\d+)X$")


class Marks:
    """Marks of one template, and what they stand for."""

    def __init__(self) -> None:
        self._inline: dict[int, str] = {}
        self._blocks: dict[int, str] = {}
        self._optional: dict[int, str] = {}

    def value(self, expression: str) -> str:
        """A value, or a part of one."""
        return self._mark(self._inline, expression)

    def block(self, expression: str) -> str:
        """A value that is a map or a list."""
        return self._mark(self._blocks, expression)

    def lines(self, expression: str) -> str:
        """Lines of YAML, or none: a key without a value, or an item of a list."""
        return self._mark(self._optional, expression)

    def written(self, manifest: Any) -> str:
        """The manifest as a template."""
        text = yaml.dump(manifest, sort_keys=False, width=10_000, allow_unicode=True)
        return "".join(f"{self._line(line)}\n" for line in text.splitlines())

    def _mark(self, kind: dict[int, str], expression: str) -> str:
        number = len(self._inline) + len(self._blocks) + len(self._optional)
        kind[number] = expression
        return f"XTPL{number}X"

    def _line(self, line: str) -> str:
        if (found := _LINE.match(line)) and (number := int(found[3])) in self._optional:
            content = f"{{{{ . | trim | indent {len(found[1])} }}}}"
            return f"{{{{- with {self._optional[number]} }}}}\n{content}\n{{{{- end }}}}"
        if (found := _VALUE.match(line)) and (number := int(found[3])) in self._blocks:
            indent = len(found[1]) + 2
            return (
                f"{found[1]}{found[2]}{{{{- toYaml {self._blocks[number]} | nindent {indent} }}}}"
            )
        return _MARK.sub(lambda mark: f"{{{{ {self._inline[int(mark[1])]} }}}}", line)
