"""A report in Markdown, as CommonMark and GitHub read it, with a link to each moment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streaming.history.moment import time_text
from streaming.history.report.writing.parts import Document, Item, Section, TextTable


def markdown(document: Document, console: str) -> str:
    """The document. ``console`` is the URL of the console, with a slash at its end."""
    lines = [f"# {escaped(document.title)}", "", escaped(document.subtitle), ""]
    for section in document.sections:
        lines += [*section_lines(section, console), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is: no name becomes a link, a heading or HTML."""
    line = re.sub(r"([\\`*_{}\[\]<>#|~&$^])", r"\\\1", text.replace("\n", " "))
    line = line.replace("://", "\\://").replace("www.", "www\\.")
    return re.sub(r"^\s*([-+=]|\d+(?=[.)]))", _not_a_list, line)


def _not_a_list(match: re.Match[str]) -> str:
    """What would begin a list, with a character before it that shows nothing."""
    return f"&#8203;{match[1]}"


def link(console: str, at_ms: int) -> str:
    """The time of a moment, which leads to it in the console."""
    text = time_text(at_ms)
    return f"[{text[11:19]}](<{console}?at={text}#/>)"


def section_lines(section: Section, console: str) -> Iterator[str]:
    """The lines of a section."""
    yield f"## {escaped(section.title)}"
    yield ""
    moments = f"{console}{section.path}"
    for sentence in section.sentences:
        yield escaped(sentence)
        yield ""
    yield from (_item(each, moments, console) for each in section.items)
    if section.table is not None:
        yield from _table(section.table, moments)


def _item(item: Item, moments: str, console: str) -> str:
    parts = [] if item.at_ms is None else [link(moments, item.at_ms)]
    text = f"**{escaped(item.text)}**" if item.number else escaped(item.text)
    parts.append(f"[{text}](<{console}{item.path}>)" if item.path else text)
    if item.names:
        parts.append(f"({', '.join(map(escaped, item.names))})")
    if item.note:
        parts.append(f"*({item.note})*")
    return f"{'  ' * item.depth}* {' '.join(parts)}"


def _table(table: TextTable, console: str) -> Iterator[str]:
    heads = [
        f"{escaped(text)} {link(console, at_ms)}" if at_ms is not None else escaped(text)
        for text, at_ms in zip(
            table.header, table.header_at_ms or [None] * len(table.header), strict=True
        )
    ]
    moments = table.row_at_ms or [None] * len(table.rows)
    when = ["when"] if table.row_at_ms else []
    yield _row([*when, *heads])
    yield _row(["---"] * (len(heads) + len(when)))
    for cells, at_ms in zip(table.rows, moments, strict=True):
        first = [] if at_ms is None else [link(console, at_ms)]
        yield _row([*first, *map(escaped, cells)])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
