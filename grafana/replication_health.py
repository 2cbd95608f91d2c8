"""Replication health: who leaves the ISR, whose fault it is, what KIP-501 would have done."""

from __future__ import annotations

from typing import Final

from grafana.layout import ROW_PARTITION, SERIES_PARTITION, Dashboard, band, row
from grafana.panels import (
    BLUE,
    NONE_OR_ORANGE,
    NONE_OR_RED,
    Column,
    Look,
    Query,
    Steps,
    gauges,
    lines,
    stat,
    table,
)
from grafana.queries import Scope
from grafana.variables import Json, broker, cluster, datasource, rack, topics

_HERE: Final = Scope(many=("rack", "broker", "topic"))

_WINDOW: Final = "Of the last 10 minutes."
_NAME: Final = "{{topic}}-{{partition}} on {{broker}}"


def _now() -> tuple[Json, ...]:
    def count(title: str, text: str, expr: str, steps: Steps = NONE_OR_ORANGE) -> Json:
        return stat(title, text, expr, Look(steps=steps))

    def at_risk(risk: str) -> str:
        return _HERE.latest("partitions_at_risk", risk=risk)

    return (
        count("Under-replicated", "Fewer replicas in sync than assigned, not counting those being "
              "added.", _HERE.latest("partitions_under_replicated")),
        count("Under min ISR", "Producers with acks=all are refused.",
              _HERE.latest("partitions_under_min_isr"), NONE_OR_RED),
        count("Left an ISR", f"Replicas. {_WINDOW}", _HERE.total("isr_shrinks_recent")),
        count("Came back", f"Those of them that are in the ISR again. {_WINDOW}",
              _HERE.latest("isr_flaps")),
        count("Slow leader suspected", "Partitions whose followers left because the leader was "
              "slow.", at_risk("slow_leader")),
        count("ISR thrashing", "Partitions whose replicas leave and come back, again and again.",
              at_risk("isr_thrash")),
    )  # fmt: skip


def _verdicts() -> tuple[Json, ...]:
    return (
        lines("Why replicas left an ISR", f"By the twin's verdict. {_WINDOW}",
              [Query(_HERE.latest("isr_shrinks_recent", "verdict"), "{{verdict}}")],
              Look(lowest=0), stacked=True),
        gauges("ISR shrinks by leader",
               "Several followers of one leader point at the leader, not at them. " + _WINDOW,
               Query(f"sort_desc({_HERE.latest('broker_isr_shrinks_recent', 'broker')})",
                     "led by {{broker}}"),
               Look(steps=((None, "green"), (1, "orange"), (10, "red")), lowest=0)),
    )  # fmt: skip


def _kip501() -> tuple[Json, ...]:
    kept = _HERE.total("isr_shrinks_preventable", kept="yes")
    known = _HERE.total("isr_shrinks_preventable", kept=("yes", "no"))
    return (
        stat("Would have stayed under KIP-501", "Share of the replicas that left of which it is "
             "known. Solution 1: a pending fetch keeps a replica in sync.",
             f"{kept} / ({known} > 0)", Look("percentunit", BLUE, decimals=0),
             empty="none left"),
        lines("Shrinks KIP-501 would have prevented", f"Solution 1 would have kept them. {_WINDOW}",
              [Query(_HERE.latest("isr_shrinks_preventable", "kept"), "{{kept}}")],
              Look(lowest=0), stacked=True),
    )  # fmt: skip


def _thrash() -> tuple[Json, ...]:
    by = ("topic", "partition")
    return (
        table("Partitions that shrink most", f"The hundred with most. {_WINDOW}", by,
              [
                  Column("Left its ISR",
                         f"topk(100, {_HERE.latest('partition_isr_shrinks_recent', *by)})",
                         Look(steps=((None, "transparent"), (3, "orange"), (10, "red")))),
              ],
              link=ROW_PARTITION, sort="Left its ISR", empty="No replica left an ISR"),
        lines("Slow leaders and thrashing over time", "Partitions with the risk.",
              [
                  Query(_HERE.latest("partitions_at_risk", "risk",
                                     risk=("slow_leader", "isr_thrash")), "{{risk}}"),
                  Query(_HERE.latest("isr_flaps"), "flaps"),
              ],
              Look(lowest=0)),
    )  # fmt: skip


def _isr() -> Json:
    names = {
        "partitions_under_replicated": "under-replicated",
        "partitions_at_min_isr": "at min ISR",
        "partitions_under_min_isr": "under min ISR",
        "partitions_offline": "offline",
    }
    return lines(
        "Partitions short of replicas", "Of the whole cluster.",
        [Query(_HERE.latest(name), legend) for name, legend in names.items()], Look(lowest=0),
    )  # fmt: skip


def _laggards() -> tuple[Json, ...]:
    by = ("topic", "partition", "broker")

    def most(name: str) -> Query:
        return Query(f"sort_desc(topk(10, {_HERE.latest(name, *by)}))", _NAME)

    return (
        gauges("Furthest behind their leader", "The ten replicas with most records to fetch, of "
               "those exported.", most("replica_lag_records"), Look("locale", BLUE, lowest=0),
               link=SERIES_PARTITION, empty="No partition is exported"),
        gauges("Longest not caught up", "The ten replicas; Kafka takes one out at "
               "replica.lag.time.max.ms, 30 s by default.", most("replica_caught_up_age_seconds"),
               Look("s", ((None, "green"), (15, "orange"), (30, "red")), lowest=0),
               link=SERIES_PARTITION, empty="No partition is exported"),
    )  # fmt: skip


def _measured() -> tuple[Json, ...]:
    """What brokers measure themselves, and where the twin's own numbers can be checked."""

    def of(name: str, legend: str) -> Query:
        return Query(_HERE.latest(f"broker_{name}", "broker"), legend)

    return (
        lines("Slowest hundredth of followers' fetches", "Waiting included: up to half a second "
              "is idle time. Worked on: the leader's own time.",
              [of("fetch_follower_p99_seconds", "{{broker}}: in all"),
               of("fetch_follower_local_p99_seconds", "{{broker}}: worked on")],
              Look("s", lowest=0), empty="No broker tells: collector.metrics_url"),
        lines("Caught-up times against the leaders' own", "The largest difference of the last 10 "
              "minutes; a leader states it as it throws a follower out, and a tap reads it.",
              [Query(_HERE.latest("caught_up_error_seconds"), "difference")],
              Look("s", lowest=0), empty="No tap has told of a departure"),
    )  # fmt: skip


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-replication-health",
    title="Kafka twin / Replication health",
    text="Is it the leader or the follower? Numbers of the whole cluster are not narrowed by "
    "broker, rack or topic.",
    variables=(datasource(), cluster(), rack(), broker(), topics()),
    rows=(
        row("Now", band(4, *_now())),
        row("Slow leader or slow follower", band(8, *_verdicts(), widths=(14, 10)),
            band(8, *_laggards())),
        row("ISR thrash", band(8, *_thrash(), widths=(10, 14)), band(8, _isr())),
        row("What brokers measure and state", band(8, *_measured())),
        row("What KIP-501 would have done", band(8, *_kip501(), widths=(6, 18))),
    ),
)  # fmt: skip
