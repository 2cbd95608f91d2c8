"""Compares the settings of the bus topics with those that the twin gives them.

A topic that somebody else has created, or a policy has changed, works in most cases; what it costs
otherwise stands in one table here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from kafka.errors import for_code
from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from streaming.bus import bus_topics
from streaming.bus.connection import BusError
from streaming.checks.cluster_rights import first_answer
from streaming.checks.finding import CheckResult, SourceResult
from streaming.collector.outcome import ReadOutcome
from streaming.collector.wire.config_requests import TOPIC
from streaming.collector.wire.connections import CollectorError
from streaming.runtime.config import Config
from streaming.runtime.kafka.clients import TOPIC_NOT_ALLOWED
from twin.arrays.plain import counted
from twin.declarations.table import UNKNOWN

MIN_ISR: Final = "min.insync.replicas"
_UNLIMITED: Final = -1

_DESCRIBED: Final = 1
"""Version of DescribeConfigs: Kafka 1.1 and later have it."""


def _is_less(own: str, needed: str) -> bool:
    """Less than needed, where -1 is without a limit."""
    return int(own) != _UNLIMITED and int(own) < int(needed)


def _is_more(own: str, needed: str) -> bool:
    """More than needed, where -1 is without a limit."""
    return int(own) == _UNLIMITED or int(own) > int(needed)


def _lacks_policy(own: str, needed: str) -> bool:
    return {policy.strip() for policy in own.split(",")} != {needed}


def _is_higher_ratio(own: str, needed: str) -> bool:
    return float(own) > float(needed)


@dataclass(frozen=True, slots=True)
class _Cost:
    """When a value is worse than the one needed, and what it costs."""

    is_worse: Callable[[str, str], bool]
    without: str


_OLD_SNAPSHOTS: Final = (
    "a quick start: a program that starts reads snapshots that newer ones have replaced"
)

_COSTS: Final[Mapping[tuple[str, str], _Cost]] = {
    ("*", "max.message.bytes"): _Cost(
        _is_less, "large frames: the broker refuses those of clusters with many replicas"
    ),
    ("observations", "cleanup.policy"): _Cost(
        _lacks_policy,
        "the history from which a lost checkpoint is rebuilt, or an end to its growth",
    ),
    ("observations", "retention.ms"): _Cost(
        _is_less, "cycles that the query has not read after an outage of that time"
    ),
    ("observations", "segment.ms"): _Cost(
        _is_more, "the limit on its disk space: only closed segments expire"
    ),
    ("snapshots", "cleanup.policy"): _Cost(
        _lacks_policy,
        "compaction, or snapshots that last: a program that starts reads every snapshot ever "
        "written, or misses those of shards that have expired",
    ),
    ("snapshots", "segment.ms"): _Cost(_is_more, _OLD_SNAPSHOTS),
    ("snapshots", "segment.bytes"): _Cost(_is_more, _OLD_SNAPSHOTS),
    ("snapshots", "min.cleanable.dirty.ratio"): _Cost(_is_higher_ratio, _OLD_SNAPSHOTS),
    ("snapshots", "max.compaction.lag.ms"): _Cost(_is_more, _OLD_SNAPSHOTS),
    ("snapshots", "delete.retention.ms"): _Cost(
        _is_less, "tombstones for readers that were away: they keep what is deleted"
    ),
    ("events", "cleanup.policy"): _Cost(
        _lacks_policy, "events that last as long as they should: Kafka deletes or merges them"
    ),
    ("events", "retention.ms"): _Cost(
        _is_less, "older events, for the console and for an archive that was away"
    ),
}
"""What a worse value costs, by topic and setting. Topics have no prefix, and "*" means all of them.

``test_every_setting_has_a_cost`` compares this with ``topic_configs``.
"""


def cost_of(topic: str, setting: str) -> _Cost | None:
    """The row of the table for a topic without its prefix; None if there is none."""
    return _COSTS.get((topic, setting)) or _COSTS.get(("*", setting))


def of_settings(
    config: Config, described: Mapping[str, Mapping[str, Any]]
) -> Iterator[CheckResult]:
    """One result for each difference that costs something, or one that there is none.

    Args:
        config: says what the settings should be, and where the bus is.
        described: the bus topics, as brokers describe them, by name.

    Raises:
        BusError: the bus cannot be reached.
    """
    existing = [name for name, topic in described.items() if not topic["error_code"]]
    own, unread = _actual(config, existing)
    differs = False
    for name, needed in bus_topics.topic_configs(config).items():
        settings = own.get(name)
        if settings is None:
            continue
        for result in _of_topic(config, name, needed, settings, described[name]):
            differs = True
            yield result
    for why, topics in groupby(sorted(unread, key=unread.__getitem__), unread.__getitem__):
        yield SourceResult(f"settings of bus topics: {why} on topics {', '.join(topics)}")
    if own and not unread and not differs:
        yield CheckResult("bus topics have the settings that the programs need")


def _of_topic(
    config: Config,
    name: str,
    needed: Mapping[str, str],
    settings: Mapping[str, str],
    topic: Mapping[str, Any],
) -> Iterator[CheckResult]:
    short = name.removeprefix(f"{config.bus.prefix}.")
    for setting, wanted in needed.items():
        cost, value = cost_of(short, setting), settings.get(setting)
        if cost is not None and value is not None and cost.is_worse(value, wanted):
            yield CheckResult(
                f"bus topic {name}: {setting} = {value}, not {wanted}",
                cost.without,
                mend=_alter(config, name, f"{setting}={wanted}"),
            )
    replicas = min((len(p["replica_nodes"]) for p in topic["partitions"]), default=0)
    min_isr = int(settings.get(MIN_ISR, UNKNOWN))
    if replicas and min_isr > replicas:
        yield CheckResult(
            f"bus topic {name}: {MIN_ISR} = {min_isr}, but its partitions have "
            f"{counted(replicas, 'replica')}",
            "all writes: brokers refuse each of them",
            essential=True,
            mend=_alter(config, name, f"{MIN_ISR}={max(1, replicas - 1)}"),
        )
    elif replicas > 1 and min_isr == replicas:
        yield CheckResult(
            f"bus topic {name}: {MIN_ISR} = {min_isr} equals the number of replicas",
            "writes while a broker is away, also while it is restarted",
            mend=_alter(config, name, f"{MIN_ISR}={replicas - 1}"),
        )


def _alter(config: Config, topic: str, setting: str) -> str:
    """The call of Kafka's own tool that sets it."""
    words = ["kafka-configs.sh", "--bootstrap-server", config.bus_bootstrap]
    words += ["--command-config", "admin.properties", "--alter"]
    return shlex.join([*words, "--topic", topic, "--add-config", setting])


def _actual(
    config: Config, names: Sequence[str]
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """The settings of these topics by name, and of the others why they are not known.

    Raises:
        BusError: no broker can be reached.
    """
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
            for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    try:
        body = first_answer(config, request, _DESCRIBED, "bus")
    except CollectorError as error:
        raise BusError(str(error)) from None
    if body is None:
        why = f"{ReadOutcome.FAILED.value}: no broker has answered DescribeConfigs"
        return {}, dict.fromkeys(names, why)
    results = DescribeConfigsResponse.decode(body, version=_DESCRIBED).results
    own = {
        result.resource_name: {c.name: c.value for c in result.configs if c.value is not None}
        for result in results
        if not result.error_code
    }
    unread = {r.resource_name: _why_not(r.error_code) for r in results if r.error_code}
    return own, unread


def _why_not(code: int) -> str:
    if code == TOPIC_NOT_ALLOWED:
        return f"{ReadOutcome.REFUSED.value}: DESCRIBE_CONFIGS"
    return f"{ReadOutcome.FAILED.value}: {for_code(code).__name__}"
