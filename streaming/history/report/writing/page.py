"""A report as a page of HTML that stands alone: no script, and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from streaming.history.moment import time_text
from streaming.history.report.writing.parts import Document, Item, Section, TextTable
from streaming.history.report.writing.style import STYLE

_DEEPEST: Final = 4


def page(document: Document, console: str, pictures: str) -> str:
    """The document as HTML.

    Args:
        document: its texts are escaped here.
        console: the URL of the console, with a slash at its end; it may be relative.
        pictures: SVG, which is made of numbers and of words of our own.
    """
    first, *others = document.sections
    title = escape(document.title)
    body = "".join(_section(each, console) for each in others)
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body><main>"
        f'<header><h1>{title}</h1><p class="muted">{escape(document.subtitle)}</p></header>\n'
        f"{_section(first, console)}{pictures}\n{body}</main></body>\n</html>\n"
    )


def _link(console: str, at_ms: int) -> str:
    text = time_text(at_ms)
    href = escape(f"{console}?at={text}#/")
    return f'<a class="time" href="{href}"><time datetime="{text}">{text[11:19]}</time></a>'


def _section(section: Section, console: str) -> str:
    sentences = "".join(f'<p class="muted">{escape(each)}</p>' for each in section.sentences)
    items = "".join(_item(each, console) for each in section.items)
    table = "" if section.table is None else _table(section.table, console, section.title)
    return (
        f"<section><h2>{escape(section.title)}</h2>{sentences}"
        f"{f'<ul>{items}</ul>' if items else ''}{table}</section>\n"
    )


def _item(item: Item, console: str) -> str:
    if item.at_ms is None:
        return f'<li class="plain">{escape(item.text)}</li>'
    names = f" <small>{escape(', '.join(item.names))}</small>" if item.names else ""
    note = f' <span class="sure {item.note}">{item.note}</span>' if item.note else ""
    number = f'<span class="number">{item.number}</span>' if item.number else ""
    kind = (
        f' class="cause" id="cause-{item.number}"'
        if item.number
        else (f' class="d{min(item.depth, _DEEPEST)}"' if item.depth else "")
    )
    return (
        f"<li{kind}>{_link(console, item.at_ms)}<span>{number}{escape(item.text)}{names}{note}"
        "</span></li>"
    )


def _table(table: TextTable, console: str, title: str) -> str:
    moments = table.header_at_ms or [None] * len(table.header)
    heads = ['<th scope="col">when</th>'] if table.row_at_ms else []
    heads += [
        f'<th scope="col">{escape(text)}{"" if at_ms is None else f" {_link(console, at_ms)}"}</th>'
        if text
        else "<td></td>"
        for text, at_ms in zip(table.header, moments, strict=True)
    ]
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(title)}"><table><thead>'
        f"<tr>{''.join(heads)}</tr></thead><tbody>{''.join(_rows(table, console))}</tbody>"
        "</table></div>"
    )


def _rows(table: TextTable, console: str) -> Iterator[str]:
    moments = table.row_at_ms or [None] * len(table.rows)
    for (first, *cells), at_ms in zip(table.rows, moments, strict=True):
        when = "" if at_ms is None else f"<td>{_link(console, at_ms)}</td>"
        rest = "".join(
            f"<td{' class=unknown' if each == 'unknown' else ''}>{escape(each)}</td>"
            for each in cells
        )
        yield f'<tr>{when}<th scope="row">{escape(first)}</th>{rest}</tr>'
