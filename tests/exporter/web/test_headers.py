"""The headers of every answer, which limit what browsers do with it."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from streaming.exporter.console_files import console_files
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application, endpoints
from tests.builders import NOW_MS
from tests.exporter.test_exporter import a_busy_store, a_client
from twin.builtin import CATALOG

PLACES = {"{topic}": "warm", "{partition:int}": "0", "{broker:int}": "1", "{group:path}": "g"}
SOURCE = ViewSource(CATALOG, "c", Exposition, lambda: NOW_MS)


def example(path: str) -> str:
    for place, value in PLACES.items():
        path = path.replace(place, value)
    return path


def policy(client: TestClient, method: str, path: str) -> dict[str, list[str]]:
    """The content security policy of an answer, whose other headers are checked."""
    headers = client.request(method, path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    directives = (each.split() for each in headers["content-security-policy"].split(";"))
    return {name: values for name, *values in directives}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return a_client(a_busy_store())


CONSOLE = [f"/console/{name}" for name in console_files()]


@pytest.mark.parametrize("path", [*(example(each.path) for each in endpoints(CATALOG)), *CONSOLE])
def test_nothing_may_frame_an_answer_or_add_to_it(client: TestClient, path: str):
    allowed = policy(client, "GET", path)
    assert allowed["default-src"] == allowed["frame-ancestors"] == ["'none'"]
    assert {value for values in allowed.values() for value in values} == {"'none'", "'self'"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/console/../api.py", 404),
        ("GET", "/api/v1/partitions?colour=red", 400),
        ("GET", "/api/v1/whatif/lose?broker=9", 404),
        ("POST", "/api/v1/summary", 405),
        ("GET", "/api/v1/brokers/", 307),
    ],
)
def test_errors_have_the_headers_too(client: TestClient, method: str, path: str, status: int):
    client.follow_redirects = False
    assert client.request(method, path).status_code == status
    assert policy(client, method, path)["default-src"] == ["'none'"]


def test_an_error_is_one_line_of_json(client: TestClient):
    assert client.get("/nowhere").json() == {"error": "there is nothing at /nowhere"}
    refused = client.post("/api/v1/summary")
    assert refused.json() == {"error": "Method Not Allowed"}
    assert "GET" in refused.headers["allow"]


def test_a_failure_has_the_headers_and_tells_nothing_of_the_inside():
    def broken() -> Exposition:
        raise RuntimeError("a bug")

    client = TestClient(
        application(ViewSource(CATALOG, "c", broken)), raise_server_exceptions=False
    )
    failed = client.get("/api/v1/summary")
    assert failed.status_code == 500
    assert failed.json() == {"error": "the exporter failed to answer; its log says why"}
    assert policy(client, "GET", "/api/v1/summary")["default-src"] == ["'none'"]
