"""The files of the console. There is no build step, and nothing is loaded from other hosts."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streaming.exporter.answers import accepts_gzip, error_answer
from streaming.exporter.console_bundle import bundled
from streaming.history.moment import AT_NAME

FOLDER: Final = Path(__file__).parent / "console"
BUNDLES: Final = {"console.js": "main.js", "fleet.js": "fleet/main.js"}
"""The scripts of one cluster and of all clusters, each with the module that starts it."""

STYLES: Final = ("theme", "layout", "matrix", "disks", "log", "plans", "past", "start", "fleet")
"""Files of ``style/``, in the order in which they apply."""

ALL_CLUSTERS: Final = "../../"
"""From the page of one of several clusters; relative, so that a proxy may put all into a folder."""

_MOST_OF_MOMENT: Final = 40
"""Characters of a moment in a URL."""


@dataclass(frozen=True, slots=True)
class File:
    """A file, and the same compressed with gzip."""

    content: bytes
    media_type: str
    gzipped: bytes
    tag: str  # changes when the content does

    def answer(self, request: Request) -> Response:
        """The file, or 304 if the browser has this version of it."""
        is_compressed = accepts_gzip(request)
        tag = f'"{self.tag}-gzip"' if is_compressed else f'"{self.tag}"'
        headers = {"Cache-Control": "no-cache", "ETag": tag, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if is_compressed:
            headers["Content-Encoding"] = "gzip"
        body = self.gzipped if is_compressed else self.content
        return Response(body, media_type=self.media_type, headers=headers)


@cache
def console_files() -> Mapping[str, File]:
    """Every file that is served, by its path below ``console/``."""
    return {
        "index.html": _file(_text("index.html"), "text/html"),
        "fleet.html": _file(_text("fleet.html"), "text/html"),
        **{
            name: _file(bundled(modules(), first), "text/javascript")
            for name, first in BUNDLES.items()
        },
        "console.css": _file("".join(map(_text, styles())), "text/css"),
        "icon.svg": _file(_text("icon.svg"), "image/svg+xml"),
    }


def index_of(at: str, *, in_fleet: bool = False) -> File:
    """The page at a past moment: what it asks for first is about that moment.

    The moment is written as the script writes it, so that the browser uses what it has asked for.
    In a fleet the page knows the way to all clusters, relative to its own path.
    """
    text = _text("index.html")
    if at:
        moment = quote(at[:_MOST_OF_MOMENT], safe="*-._")
        text = re.sub(r'(rel="preload" href="[^"]*)"', rf'\1?at={moment}"', text)
    if in_fleet:
        text = text.replace("<html ", f'<html data-fleet="{ALL_CLUSTERS}" ', 1)
    return _file(text, "text/html")


def index_in_fleet() -> Route:
    """The page of one of several clusters, instead of that of the only one."""

    async def respond(request: Request) -> Response:
        at = request.query_params.get(AT_NAME, "")
        return index_of(at, in_fleet=True).answer(request)

    return Route("/", respond)


def modules() -> dict[str, str]:
    """The text of every module by its path below the folder."""
    paths = (path for suffix in ("*.js", "*.mjs") for path in sorted(FOLDER.rglob(suffix)))
    return {path.relative_to(FOLDER).as_posix(): path.read_text("utf-8") for path in paths}


def styles() -> list[str]:
    """The paths of the style sheets."""
    return [f"style/{name}.css" for name in STYLES]


def console_route() -> Route:
    """``/console/...``. They are not part of the API, so its description does not list them."""
    files = console_files()
    return Route("/console/{name:path}", _responder(files))


def _text(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def _file(text: str, media_type: str) -> File:
    content = text.encode()
    tag = hashlib.sha256(content).hexdigest()[:32]
    return File(content, media_type, gzip.compress(content, mtime=0), tag)


def _responder(files: Mapping[str, File]) -> Callable[[Request], Response]:
    async def respond(request: Request) -> Response:
        file = files.get(request.path_params["name"])
        return file.answer(request) if file else error_answer("there is no such file", 404)

    return respond  # type: ignore[return-value]
