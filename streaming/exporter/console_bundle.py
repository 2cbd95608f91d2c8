"""Bundles the modules of the console: a browser loads one file instead of fifty.

The package contains plain ES modules. The exporter joins them when it starts: each module becomes a
function, placed after the modules that it imports. Nothing else is changed. Only the few forms of
import and export that the console uses are accepted.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

_IMPORT: Final = re.compile(r'^import (\w+|\{[^}]*\}) from "(\.[^"]+)";$', re.M)
_EXPORTED: Final = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.M)
_EXPORT_LIST: Final = re.compile(r"(?:^|(?<=;))export ?\{([^}]*)\};?", re.M)
_DEFAULT: Final = re.compile(r"(?:^|(?<=;))export default ", re.M)
_LEFT: Final = re.compile(r"(?:^|;)\s*(?:import|export)\b.*", re.M)
_SOURCE_MAP: Final = re.compile(r"^//# sourceMappingURL=.*$", re.M)


class BundleError(ValueError):
    """A module has an unknown form of import or export, or a circular import."""


def bundled(modules: Mapping[str, str], first: str) -> str:
    """One module that has the effect of importing ``first``.

    Args:
        modules: the text of each by its path; imports are relative.
        first: the path of the module that starts everything.

    Raises:
        BundleError: with the path of the module, and what is wrong with it.
    """
    order: list[str] = []
    _visit(first, modules, order, ())
    names = {path: f"module{number}" for number, path in enumerate(order)}
    scopes = ((path, _scoped(path, modules[path], names)) for path in order)
    return "".join(
        f"// {path}\nconst {names[path]} = (() => {{\n{scope}\n}})();\n" for path, scope in scopes
    )


def _visit(path: str, modules: Mapping[str, str], order: list[str], above: tuple[str, ...]) -> None:
    """Append the module after all modules that it imports."""
    if path in above:
        raise BundleError(f"{path} imports itself: {' → '.join((*above, path))}")
    if path in order:
        return
    if path not in modules:
        raise BundleError(f"{path} is imported by {above[-1] if above else 'nobody'}, and missing")
    for _, target in _IMPORT.findall(modules[path]):
        _visit(_resolved(path, target), modules, order, (*above, path))
    order.append(path)


def _resolved(path: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _scoped(path: str, text: str, names: Mapping[str, str]) -> str:
    """The body of a function that returns what the module exports."""
    exported = {name: name for _, name in _EXPORTED.findall(text)}
    for each in _EXPORT_LIST.findall(text):
        for item in each.split(","):
            inner, _, outer = item.strip().partition(" as ")
            exported[outer or inner] = inner
    if _DEFAULT.search(text):
        exported["default"] = "defaultExport"

    def imported(match: re.Match[str]) -> str:
        what, module = match[1], names[_resolved(path, match[2])]
        target = what.replace(" as ", ": ") if what.startswith("{") else f"{{ default: {what} }}"
        return f"const {target} = {module};"

    text = _IMPORT.sub(imported, text)
    text = _EXPORTED.sub(r"\1 \2", text)
    text = _DEFAULT.sub("const defaultExport = ", _EXPORT_LIST.sub("", text))
    text = _SOURCE_MAP.sub("", text)
    if left := _LEFT.search(text):
        raise BundleError(f"{path}: {left[0].strip()[:60]!r} is not a form that is known")
    given = ", ".join(f"{outer}: {inner}" for outer, inner in exported.items())
    return f"{text.rstrip()}\nreturn {{ {given} }};"
