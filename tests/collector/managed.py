"""Fake brokers that offer the requests that managed services do, as public sources show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.collector.fake_broker import REQUESTS, FakeBroker, FakeCluster

_FILE: Final = Path(__file__).parent / "managed_versions.json"
_SERVICES: Final = json.loads(_FILE.read_text())["services"]

SERVICES: Final = tuple(_SERVICES)


def offered(service: str) -> dict[int, tuple[int, int]]:
    """Lowest and highest version by API key."""
    apis: dict[str, list[int]] = _SERVICES[service]["apis"]
    return {int(key): (low, high) for key, (low, high) in apis.items()}


def all_be(service: str, cluster: FakeCluster) -> None:
    """Every broker offers what that service does, on connections made from now on."""
    for broker in cluster.brokers.values():
        _be(service, broker)


def _be(service: str, broker: FakeBroker) -> None:
    versions = offered(service)
    broker.lowest = {key: low for key, (low, _) in versions.items()}
    broker.highest = {
        key: min(versions[key][1], request.max_version) if key in versions else None
        for key, request in REQUESTS.items()
    }
