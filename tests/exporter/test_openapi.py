"""The description of the API holds for the application: schemathesis asks what it allows."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from streaming.bus.view import SnapshotStore
from streaming.exporter.openapi import NEEDS_ONE_OF, described_path
from streaming.exporter.routes.events import LAST_EVENT_ID
from streaming.exporter.web_application import endpoints
from tests.examples import ARE_FEW
from tests.exporter.test_exporter import a_client, a_full_store
from twin.builtin import CATALOG

UP: Final = a_client(a_full_store())
STARTED: Final = a_client(SnapshotStore(CATALOG, "c", 2))
"""Before the first snapshot."""


@cache
def described() -> dict[str, Any]:
    """The description that the exporter serves: each of 3 000 answers is compared with it."""
    answer = UP.get("/api/v1/openapi.json")
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


def strict(schema: Any) -> Any:
    """The same, but objects have no other fields than those that are described."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(each) for name, each in schema.items()}
    if "object" in schema.get("type", ()) and "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed


def api_of(client: TestClient) -> schemathesis.BaseSchema:
    api = schemathesis.openapi.from_dict(strict(described()))
    api.app = client.app
    api.validate()  # against the rules of OpenAPI
    return api


def ask(case: schemathesis.Case) -> None:
    """Ask, and hold the answer to the description in all that it can say."""
    answer = case.call()
    operation = case.operation.definition.raw
    but_for: list[CheckFunction] = []
    needed = operation.get(NEEDS_ONE_OF, ())
    if needed and all((case.query or {}).get(name) in (None, []) for name in needed):
        assert answer.status_code in (400, 405)
        but_for.append(positive_data_acceptance)
    if is_no_id((case.headers or {}).get(LAST_EVENT_ID)):
        # schemathesis puts letters and digits alone into headers, whatever their pattern.
        assert answer.status_code in (400, 405)
        but_for.append(positive_data_acceptance)
    if answer.status_code == 503 and "503" in operation["responses"]:
        but_for.append(not_a_server_error)  # it says that it cannot answer yet
    case.validate_response(answer, excluded_checks=but_for)


def is_no_id(sent: Any) -> bool:
    parameters = described()["paths"]["/api/v1/events"]["get"]["parameters"]
    [pattern] = [each["schema"]["pattern"] for each in parameters if each["name"] == LAST_EVENT_ID]
    return sent is not None and not re.fullmatch(pattern, str(sent))


def asked(most: int) -> settings:
    """Always the same questions: of random ones, some runs would ask none that matters."""
    return settings(
        max_examples=most // 3 if ARE_FEW else most, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@api_of(UP).parametrize()
@asked(30)
def test_schemathesis_finds_nothing(case: schemathesis.Case) -> None:
    ask(case)


@api_of(STARTED).parametrize()
@asked(10)
def test_schemathesis_finds_nothing_before_the_first_snapshot(case: schemathesis.Case) -> None:
    ask(case)


def test_every_path_is_described_once():
    paths = [described_path(each) for each in endpoints(CATALOG)]
    assert list(described()["paths"]) == paths
    assert len(paths) == len(set(paths)) > 15
    operations = [each["get"] for each in described()["paths"].values()]
    names = [each["operationId"] for each in operations]
    assert len(names) == len(set(names))


def test_fields_that_a_rule_declares_are_described_with_their_meaning():
    partition = described()["components"]["schemas"]["Partition"]["properties"]
    for field in CATALOG.api_fields:
        assert partition[field.name]["description"] == field.meaning
    assert partition["caught_up_uncertainty_seconds"]["anyOf"] == [
        {"type": "number"},
        {"type": "null"},
    ]
    by_rule = partition["next_leaders"]["properties"]
    assert list(by_rule) == ["kafka", "kip1303", "kip501"]
    assert by_rule["kafka"]["properties"]["outcome"]["enum"][0] == "clean"
