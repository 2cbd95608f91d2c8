"""The compose file's brokers and taps agree about logs. Nothing is started."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
import yaml

from tests.deploy.test_kubernetes import ROOT

LOGGING: Final = (ROOT / "deploy" / "docker" / "kafka-log4j2-files.properties").read_text()
SERVICES: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())[
    "services"
]
BROKERS: Final = sorted(name for name in SERVICES if name.startswith("kafka-"))


@pytest.mark.parametrize("broker", BROKERS)
def test_a_tap_reads_every_log_that_its_broker_writes(broker: str) -> None:
    environment = SERVICES[broker]["environment"]
    folder, node = environment["LOGS"], environment["NODE_ID"]
    assert f"{broker}-logs:{folder}" in SERVICES[broker]["volumes"]
    tap = SERVICES[f"tap-{node}"]
    assert f"{broker}-logs:{folder}:ro" in tap["volumes"]
    written = re.findall(r"^appender\.\w+\.fileName = (.+)$", LOGGING, re.MULTILINE)
    assert len(written) == 2
    read = {f"{node}={path.replace('${env:LOGS}', folder)}" for path in written}
    assert tap["command"][:2] == ["tap", "follow"]
    assert set(tap["command"][2:]) == read


def test_no_log_grows_without_end() -> None:
    appenders = re.findall(r"^appender\.(\w+)\.type = (\w+)$", LOGGING, re.MULTILINE)
    assert appenders
    for name, kind in appenders:
        assert kind == "RollingFile"
        assert re.search(rf"^appender\.{name}\.policy\.size = \d+MB$", LOGGING, re.MULTILINE)
        assert re.search(rf"^appender\.{name}\.strategy\.max = 1$", LOGGING, re.MULTILINE)
