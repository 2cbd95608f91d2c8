"""A report as a page of HTML that stands alone: no script, and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import MutableMapping
from html import escape
from itertools import count
from typing import Any, Final

from markdown_it import MarkdownIt

from streaming.history.report.writing.markdown import section_lines
from streaming.history.report.writing.parts import Document, Section
from streaming.history.report.writing.style import STYLE

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")
_TABLE: Final = '<div class="wide" tabindex="0" role="region" aria-label="Table"><table>'


def page(document: Document, console: str, pictures: str) -> str:
    """The document as HTML.

    Args:
        document: its texts are escaped here.
        console: the URL of the console, with a slash at its end; it may be relative.
        pictures: SVG, which is made of numbers and of words of our own.
    """
    causes = count(1)
    first, *others = (_section(each, console, causes) for each in document.sections)
    title = escape(document.title)
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body><main>"
        f"<header><h1>{title}</h1><p>{escape(document.subtitle)}</p></header>\n"
        f"{first}{pictures}\n{''.join(others)}</main></body>\n</html>\n"
    )


def _section(section: Section, console: str, causes: count[int]) -> str:
    """The section, with an id for each cause: what is bold is one."""
    env: MutableMapping[str, Any] = {}
    tokens = _MARKDOWN.parse("\n".join(section_lines(section, console)), env)
    for token in (inner for each in tokens for inner in each.children or ()):
        if token.type == "strong_open":
            token.attrSet("id", f"cause-{next(causes)}")
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, env)
    html = html.replace("<table>", _TABLE).replace("</table>", "</table></div>")
    return f"<section>{html}</section>\n"
