"""Replication health: which replicas leave the ISR and why, and what KIP-501 would change."""

from __future__ import annotations

from typing import Final

from grafana.layout import Dashboard, band, bands, row
from grafana.links import SERIES_BROKER, SERIES_PARTITION
from grafana.panels import (
    BLUE,
    NONE_OR_ORANGE,
    NONE_OR_RED,
    Look,
    PanelQuery,
    Steps,
    TableColumn,
    gauges,
    lines,
    stat,
    table,
)
from grafana.queries import Scope
from grafana.variables import Json, broker, cluster, console, datasource, rack, topics

_HERE: Final = Scope(many=("rack", "broker", "topic"))

_WINDOW: Final = "In the last 10 minutes."
_NAME: Final = "{{topic}}-{{partition}} on {{broker}}"


def _now() -> tuple[Json, ...]:
    def count(title: str, text: str, expr: str, steps: Steps = NONE_OR_ORANGE) -> Json:
        return stat(title, text, expr, Look(steps=steps))

    def at_risk(risk: str) -> str:
        return _HERE.latest("partitions_at_risk", risk=risk)

    return (
        count(
            "Under-replicated",
            "Partitions with fewer replicas in sync than assigned, not counting those being added.",
            _HERE.latest("partitions_under_replicated"),
        ),
        count(
            "Under min ISR",
            "Partitions that refuse producers with acks=all.",
            _HERE.latest("partitions_under_min_isr"),
            NONE_OR_RED,
        ),
        count(
            "Left an ISR (10 min)",
            f"Replicas that left an ISR. {_WINDOW}",
            _HERE.total("isr_shrinks_recent"),
        ),
        count(
            "Rejoined (10 min)",
            f"Replicas that left an ISR and rejoined it. {_WINDOW}",
            _HERE.latest("isr_flaps"),
        ),
        count(
            "About to leave",
            "Replicas in an ISR that have not caught up for more than half of "
            "replica.lag.time.max.ms.",
            _HERE.total("broker_replicas_near_isr_shrink"),
        ),
        count(
            "Slow leader",
            "Partitions whose followers left the ISR because the leader was slow.",
            at_risk("slow_leader"),
        ),
        count(
            "ISR thrash",
            "Partitions whose replicas leave the ISR and rejoin it, again and again.",
            at_risk("isr_thrash"),
        ),
    )


def _verdicts() -> tuple[Json, ...]:
    return (
        lines(
            "Why replicas left an ISR",
            f"Replicas that left an ISR, by verdict. {_WINDOW}",
            [PanelQuery(_HERE.latest("isr_shrinks_recent", "verdict"), "{{verdict}}")],
            Look(lowest=0),
            stacked=True,
            colors={
                "slow_leader": "orange",
                "frozen_leader": "dark-orange",
                "slow_follower": "yellow",
                "dead_follower": "red",
                "unexplained": "purple",
            },
        ),
        gauges(
            "ISR shrinks by leader",
            "Replicas that left the ISR of partitions that a broker leads, but for dead ones: "
            "several followers of one leader point at the leader. " + _WINDOW,
            PanelQuery(
                f"sort_desc({_HERE.latest('broker_isr_shrinks_recent', 'broker')} > 0)",
                "led by {{broker}}",
            ),
            Look(steps=((None, "green"), (1, "orange"), (10, "red")), lowest=0),
            links=SERIES_BROKER,
            empty="No follower that is alive left an ISR",
        ),
    )


def _kip501() -> tuple[Json, ...]:
    name = "isr_shrinks_preventable"
    stayed = _HERE.total(name, would_have_stayed="yes")
    judged = _HERE.total(name, would_have_stayed=("yes", "no"))
    return (
        stat(
            "Would have stayed (KIP-501)",
            "Share of the replicas that left an ISR, where the answer is known. Solution 1: a "
            "replica stays in sync while the leader works on its fetch.",
            f"{stayed} / ({judged} > 0)",
            Look("percentunit", BLUE, decimals=0),
            empty="none left",
        ),
        stat(
            "Would hand over now",
            "Partitions whose leader would hand over now by solution 2: it processed a fetch of "
            "the last minute for too long.",
            _HERE.latest("partitions_kip501_would_hand_over"),
            Look(steps=BLUE),
            empty="not switched on",
        ),
        stat(
            "Handovers under KIP-501",
            "Times that a leader would have handed over in the selected time: it processed a fetch "
            "for longer than the limit of solution 2.",
            f"sum(increase({_HERE.series('kip501_handovers_total')}[$__range]))",
            Look(steps=BLUE, decimals=0),
            empty="not switched on",
        ),
        lines(
            "Would they have stayed under KIP-501?",
            f"Replicas that left an ISR, by whether solution 1 would have kept them. {_WINDOW}",
            [PanelQuery(_HERE.latest(name, "would_have_stayed"), "{{would_have_stayed}}")],
            Look(lowest=0),
            stacked=True,
            colors={"yes": "green", "no": "orange", "unknown": "text"},
        ),
    )


def _thrash() -> tuple[Json, ...]:
    by = ("topic", "partition")
    return (
        table(
            "Most ISR shrinks",
            f"The 100 partitions whose ISR lost most replicas. {_WINDOW}",
            by,
            [
                TableColumn(
                    "Left its ISR",
                    f"topk(100, {_HERE.latest('partition_isr_shrinks_recent', *by)})",
                    Look(steps=((None, "transparent"), (3, "orange"), (10, "red"))),
                ),
            ],
            sort="Left its ISR",
            empty="No replica left an ISR",
        ),
        lines(
            "Slow leader and ISR thrash over time",
            "Partitions with each risk, and replicas that left an ISR and rejoined it (flaps).",
            [
                PanelQuery(
                    _HERE.latest("partitions_at_risk", "risk", risk=("slow_leader", "isr_thrash")),
                    "{{risk}}",
                ),
                PanelQuery(_HERE.latest("isr_flaps"), "flaps"),
            ],
            Look(lowest=0),
        ),
    )


def _isr() -> Json:
    names = {
        "partitions_under_replicated": "under-replicated",
        "partitions_at_min_isr": "at min ISR",
        "partitions_under_min_isr": "under min ISR",
        "partitions_offline": "offline",
    }
    return lines(
        "Partitions that lack replicas",
        "Partitions of the whole cluster.",
        [PanelQuery(_HERE.latest(name), legend) for name, legend in names.items()],
        Look(lowest=0),
        colors={
            "under-replicated": "yellow",
            "at min ISR": "orange",
            "under min ISR": "red",
            "offline": "dark-red",
        },
    )


def _elections() -> Json:
    names = {
        "records_lost_recent": "lost",
        "records_truncated_recent": "only the old leader had them",
        "unclean_elections_recent": "unclean elections",
    }
    return lines(
        "Records lost in leader elections",
        "In the last hour, lower bounds. Where a replica took over that was in sync by all that is "
        "known, what only the old leader had was acknowledged by acks=1, but by acks=all only if "
        "the ISR had shrunk unseen. Unclean elections, lossy or not.",
        [PanelQuery(_HERE.latest(name), legend) for name, legend in names.items()],
        Look("locale", lowest=0),
        colors={
            "lost": "red",
            "only the old leader had them": "yellow",
            "unclean elections": "orange",
        },
    )


def _records_lost() -> Json:
    by = ("topic", "partition")
    return table(
        "Records lost",
        "Partitions whose leader, elected in the last hour, lacks records of the leader before: it "
        "came from outside the ISR, or came back with less than it had. Lower bounds.",
        by,
        [TableColumn("Records", _HERE.latest("partition_records_lost", *by), Look("locale"))],
        sort="Records",
        empty="No leader lacks records",
    )


def _laggards() -> tuple[Json, ...]:
    by = ("topic", "partition", "broker")

    def most(name: str) -> PanelQuery:
        return PanelQuery(f"sort_desc(topk(8, {_HERE.latest(name, *by)} > 0))", _NAME)

    return (
        gauges(
            "Highest lag",
            "The eight replicas that are most records behind their leader, of those exported.",
            most("replica_lag_records"),
            Look("locale", BLUE, lowest=0),
            links=SERIES_PARTITION,
            empty="No replica that is exported lags",
        ),
        gauges(
            "Longest not caught up",
            "The eight replicas that were last caught up longest ago. Kafka "
            "removes one from the ISR at replica.lag.time.max.ms, 30 s by default.",
            most("replica_caught_up_age_seconds"),
            Look("s", ((None, "green"), (15, "orange"), (30, "red")), lowest=0),
            links=SERIES_PARTITION,
            empty="All that are exported are caught up",
        ),
    )


def _measured() -> tuple[Json, ...]:
    """Panels of the brokers' own metrics, to be compared with the twin's numbers."""

    def query(name: str, legend: str) -> PanelQuery:
        return PanelQuery(_HERE.latest(f"broker_{name}", "broker"), legend)

    return (
        lines(
            "Fetches of followers, 99th percentile",
            "Total: with the time that a fetch waits for "
            "records, up to half a second. Local: the time that the leader works on it.",
            [
                query("fetch_follower_p99_seconds", "{{broker}}: total"),
                query("fetch_follower_local_p99_seconds", "{{broker}}: local"),
            ],
            Look("s", lowest=0),
            empty="Not measured: set collector.metrics_url",
        ),
        lines(
            "Request queue of the leader, 99th percentile",
            "Time that fetches of followers wait for a request handler. A leader whose queue is "
            "long is slow; KIP-501's solution 1 does not keep a follower whose fetch is in it.",
            [query("fetch_follower_queue_p99_seconds", "{{broker}}")],
            Look("s", lowest=0),
            empty="Not measured: set collector.metrics_url",
        ),
        lines(
            "Requests that wait for a handler",
            "Length of the request queue, of producers, consumers and followers.",
            [query("request_queue_size", "{{broker}}")],
            Look(lowest=0),
            empty="Not measured: set collector.metrics_url",
        ),
        lines(
            "Idle request handlers",
            "Share of time in which request handlers are idle; at 0 requests queue.",
            [query("request_handlers_idle_ratio", "{{broker}}")],
            Look("percentunit", ((None, "red"), (0.3, "transparent")), lowest=0, highest=1),
            empty="Not measured: set collector.metrics_url",
        ),
        lines(
            "Error of caught-up times",
            "Largest difference between the twin's caught-up time and "
            f"the one that a leader logs when it removes a follower from the ISR. {_WINDOW}",
            [PanelQuery(_HERE.latest("caught_up_error_seconds"), "difference")],
            Look("s", lowest=0),
            empty="No tap has read an ISR shrink in the last 10 minutes",
        ),
    )


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-replication-health",
    title="Kafka twin / Replication health",
    text="Which replicas leave the ISR, and why. The variables broker, rack and topic do not "
    "narrow numbers of the whole cluster.",
    variables=(datasource(), cluster(), rack(), broker(), topics(), console()),
    console_view="timeline",
    rows=(
        row("Now", *bands(3, _now(), across=4)),
        row(
            "Slow leader or slow follower",
            band(8, *_verdicts(), widths=(14, 10)),
            band(8, *_laggards()),
        ),
        row(
            "ISR thrash",
            band(8, *_thrash(), widths=(10, 14)),
            band(8, _isr()),
        ),
        row("Records lost", band(8, _elections(), _records_lost()), is_collapsed=True),
        row(
            "What brokers measure and log",
            *bands(8, _measured(), across=3),
            is_collapsed=True,
        ),
        row(
            "What KIP-501 would change",
            band(8, *_kip501(), widths=(6, 6, 5, 7)),
            is_collapsed=True,
        ),
    ),
    marked=("Why replicas left an ISR", "Partitions that lack replicas"),
)
