"""A Grafana that answers as the real ones do (10 to 12), or as a test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, bytes]


@dataclass
class Stub:
    """The requests that it got, what it stores, and its next answers."""

    port: int = 0
    asked: list[tuple[str, str, Any, str]] = field(default_factory=list)  # method, path, body, auth
    folders: dict[str, str] = field(default_factory=dict)
    dashboards: dict[str, Any] = field(default_factory=dict)
    annotations: list[Any] = field(default_factory=list)
    provisioned: set[str] = field(default_factory=set)
    next_answers: list[Answer | Callable[[], Answer]] = field(default_factory=list)
    existing_folder_code: int = 412

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/under/a/path"

    def answer(self, path: str, body: Any, auth: str) -> Answer:
        if self.next_answers:
            given = self.next_answers.pop(0)
            return given() if callable(given) else given
        if auth not in ("Bearer secret", "Basic YWRtaW46cHc="):
            return 401, b'{"message":"Invalid API key"}'
        match path.removeprefix("/under/a/path/api"):
            case asked if asked.startswith("/dashboards/uid/"):
                saved = self.dashboards.get(asked.rpartition("/")[2])
                if saved is None:
                    return 404, b'{"message":"Dashboard not found"}'
                return 200, json.dumps({"dashboard": saved["dashboard"], "meta": {}}).encode()
            case "/folders":
                if body["uid"] in self.folders:
                    text = b'{"message":"the folder has been changed by someone else"}'
                    return self.existing_folder_code, text
                self.folders[body["uid"]] = body["title"]
                return 200, json.dumps({"id": 7, **body}).encode()
            case "/dashboards/db":
                uid = body["dashboard"]["uid"]
                if uid in self.provisioned:
                    return 400, b'{"message":"Cannot save provisioned dashboard"}'
                if uid in self.dashboards and not body["overwrite"]:
                    return 412, b'{"message":"The dashboard has been changed","status":"version"}'
                self.dashboards[uid] = body
                return 200, json.dumps({"uid": uid, "url": f"/d/{uid}/x", "version": 1}).encode()
            case "/annotations":
                self.annotations.append(body)
                return 200, b'{"message":"Annotation added","id":1}'
        return 404, b'{"message":"Not found"}'


@contextmanager
def a_grafana() -> Iterator[Stub]:
    """A stub on a free port."""
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length) or b"null")
            auth = self.headers.get("Authorization", "")
            stub.asked.append((self.command, self.path, body, auth))
            status, answer = stub.answer(self.path, body, auth)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            with suppress(BrokenPipeError):  # who asked has given up
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def slow(seconds: float, status: int = 200, body: bytes = b"{}") -> Callable[[], Answer]:
    """An answer that takes its time."""

    def answer() -> Answer:
        time.sleep(seconds)
        return status, body

    return answer
