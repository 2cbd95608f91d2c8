"""The files of the console, as they are in ``console/``: nothing is built, nothing is loaded from
elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streaming.exporter.answers import error_answer

FOLDER: Final = Path(__file__).parent / "console"

MEDIA_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
}
"""Types of files that are served; licences and checksums are only in the package."""


@dataclass(frozen=True, slots=True)
class File:
    """A file and its entity tag, which changes when the content does."""

    content: bytes
    media_type: str

    @property
    def etag(self) -> str:
        """Of the content alone."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    def answer(self, request: Request) -> Response:
        """The file, or 304 if the browser has it: after an upgrade nobody has an old one."""
        headers = {"Cache-Control": "no-cache", "ETag": self.etag}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def console_files() -> dict[str, File]:
    """Every file by its path below the folder, read once."""
    return {
        path.relative_to(FOLDER).as_posix(): File(path.read_bytes(), MEDIA_TYPES[path.suffix])
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in MEDIA_TYPES
    }


def console_route() -> Route:
    """``/console/...``. They are no part of the API, so its description does not list them."""
    files = console_files()
    return Route("/console/{name:path}", _responder(files))


def _responder(files: dict[str, File]) -> Callable[[Request], Response]:
    async def respond(request: Request) -> Response:
        file = files.get(request.path_params["name"])
        return file.answer(request) if file else error_answer("there is no such file", 404)

    return respond  # type: ignore[return-value]
