"""The settings that may differ between brokers, read from every broker by DescribeConfigs.

Only a broker itself knows its static settings. The requests go out with those for offsets, so a
silent broker does not cost a second deadline. The values of a silent broker are kept, and read
again as soon as it is back: static settings change at a restart.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from streaming.collector.problem import Problem, from_code
from streaming.collector.reading import Answers, Reading
from streaming.collector.settings.config_values import BROKER_OWN_KEYS, broker_columns
from streaming.collector.source import EveryBrokerSource, Setup
from streaming.collector.sources.configs import BROKER_CONFIGS
from streaming.collector.wire.config_requests import BROKER, describe_configs
from streaming.collector.wire.connections import EncodedRequest, Versions, negotiate_version
from streaming.runtime.config import CapacityConfig
from twin.tables.broker_columns import BROKER_CONFIGS as COLUMNS


@dataclass(frozen=True, slots=True, eq=False)
class BrokerConfigs(Reading):
    """The settings of each broker, by column; none of a broker that never answered."""

    by_broker: Mapping[int, Mapping[str, int]]

    @property
    def broker_columns(self) -> Mapping[str, Mapping[int, int]]:
        """The settings by column, then by broker."""
        return {
            name: {b: own[name] for b, own in self.by_broker.items() if name in own}
            for name in COLUMNS
        }


class BrokerConfigSource(EveryBrokerSource):
    """Remembers the settings of every broker."""

    about = (BROKER_CONFIGS,)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """Read at an interval, and when a broker comes back."""
        interval_ms = setup.config.collector.config_interval_ms
        return cls(setup.client_id, interval_ms, setup.config.capacity)

    def __init__(
        self, client_id: str, interval_ms: int, capacity: CapacityConfig = CapacityConfig()
    ) -> None:
        self._client_id = client_id
        self._capacity = capacity
        self._asked: set[int] = set()
        self._interval_s = interval_ms / 1_000
        self._values: dict[int, dict[str, int]] = {}
        self._read_at_s: dict[int, float] = {}
        self._versions: dict[int, int] = {}  # of the last request to each broker
        self._problems: dict[int, Problem] = {}  # of the last time each broker was read

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of brokers whose settings are unknown, from their last responses."""
        return tuple(self._problems.values())

    def requests(self, broker: int, versions: Versions) -> list[EncodedRequest]:
        """One request to a broker whose settings are unknown or old."""
        self._asked.add(broker)
        version = negotiate_version(versions, DescribeConfigsRequest)
        read_at_s = self._read_at_s.get(broker)
        is_recent = read_at_s is not None and time.monotonic() - read_at_s < self._interval_s
        if version is None or is_recent:
            return []
        self._versions[broker] = version
        resources = [(BROKER, str(broker), BROKER_OWN_KEYS)]
        return [describe_configs(resources, version, self._client_id)]

    def read(self, answers: Answers) -> BrokerConfigs:
        """The settings of all brokers, once these have answered."""
        for broker in self._read_at_s.keys() - answers.keys():
            del self._read_at_s[broker]  # it is silent, and may be restarting
        for broker, bodies in answers.items():
            for body in bodies:
                if body is None:
                    self._read_at_s.pop(broker, None)
                else:
                    self._read(broker, body)
                    self._read_at_s[broker] = time.monotonic()
        return BrokerConfigs(
            {b: self._values.get(b, {}) | self._configured(b) for b in sorted(self._asked)}
        )

    def _configured(self, broker: int) -> dict[str, int]:
        """What the twin's configuration says of a broker, whether it answers or not."""
        return {f"capacity_{name}": v for name, v in self._capacity.of_broker(broker).items()}

    def _read(self, broker: int, body: bytes) -> None:
        self._problems.pop(broker, None)
        response = DescribeConfigsResponse.decode(body, version=self._versions[broker])
        for result in response.results:
            if result.error_code:
                text = "its own settings stay unknown"
                self._values.pop(broker, None)
                self._problems[broker] = from_code(
                    BROKER_CONFIGS.name, result.error_code, text, broker
                )
            else:
                self._values[broker] = broker_columns({c.name: c.value for c in result.configs})

    def forget(self, brokers: Collection[int]) -> None:
        """Drop all brokers except these."""
        self._asked &= set(brokers)
        for broker in self._versions.keys() - set(brokers):
            for kept in (self._versions, self._values, self._read_at_s, self._problems):
                kept.pop(broker, None)
