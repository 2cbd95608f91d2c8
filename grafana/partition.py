"""Partition: the place of its log, its next leader, the state of its replicas."""

from __future__ import annotations

from typing import Final

from grafana.layout import Dashboard, band, bands, row
from grafana.links import lose_broker
from grafana.panels import (
    BLUE,
    NEVER,
    NOBODY,
    YES_NO,
    Look,
    Mapping,
    PanelQuery,
    TableColumn,
    bars,
    lines,
    stat,
    states,
    table,
)
from grafana.queries import ELECTION_POLICIES, Scope
from grafana.variables import Json, cluster, console, datasource, partition, topic

_HERE: Final = Scope(one=("cluster", "topic", "partition"))

_WARM: Final[Mapping] = {"1": ("warm", "green"), "0": ("cold", "orange")}
_LEADER: Final = Look("none", BLUE, NOBODY)

_COLORS: Final = ("blue", "green", "orange", "purple", "yellow", "light-blue", "light-green",
                  "light-orange", "light-purple", "light-yellow")  # fmt: skip
_BY_ID: Final[Mapping] = {
    str(id_): (str(id_), _COLORS[id_ % len(_COLORS)]) for id_ in range(30)
} | NOBODY
"""Colours of brokers. Without them every id has the same one, and a move cannot be seen."""
_OFFSET: Final = Look("locale")
_RECORDS: Final = Look("locale", lowest=0)


def _latest(name: str) -> str:
    return _HERE.latest(f"partition_{name}")


def _answering(expr: str) -> str:
    """The values of replicas whose broker answers; what a dead one said last is not so now."""
    answered = Scope().latest("broker_answered", "broker")
    return f"({expr} and on (broker) {answered} == 1)"


def _each(name: str) -> str:
    """A replica's number, by broker."""
    return _HERE.latest(f"replica_{name}", "broker")


def _now() -> tuple[Json, ...]:
    def next_leader(rule: str) -> Json:
        return stat(
            f"Next leader: {ELECTION_POLICIES[rule]}",
            "Broker id of the leader once this one is lost.",
            _HERE.latest("partition_next_leader", rule=rule),
            _LEADER,
        )

    return (
        stat(
            "Leader",
            "Broker id of the leader.",
            _latest("leader"),
            _LEADER,
            links=(lose_broker("${__value.raw}"),),
        ),
        next_leader("kafka"),
        next_leader("kip1303"),
        stat(
            "Out of sync",
            "Assigned replicas that are not in the ISR.",
            f"{_latest('replicas')} - {_latest('isr_size')}",
            Look(steps=((None, "green"), (1, "orange"))),
        ),
        stat("Replicas", "Assigned replicas.", _latest("replicas"), Look()),
        stat(
            "Written",
            "Records appended a second, a moving average; none while nobody leads.",
            f"{_latest('appended_records_per_second')} and {_latest('leader')} >= 0",
            Look("suffix:rec/s", decimals=1),
            empty="not known",
        ),
        stat(
            "Not uploaded",
            "Records that the leader has not uploaded.",
            _latest("upload_lag_records"),
            Look("locale"),
            empty="not known",
        ),
    )


def _risks() -> Json:
    return table(
        "Its risks",
        "Open risks of the partition; docs/runbook.md explains each.",
        ("risk", "severity"),
        [TableColumn("", _HERE.latest("partition_at_risk", "risk", "severity"))],
        key_looks={
            "severity": Look(
                mapping={
                    "page": ("page", "red"),
                    "warn": ("warn", "orange"),
                    "info": ("info", "blue"),
                }
            )
        },
        empty="It has no risk",
    )


# ------------------------------------------------------------ log geometry


def _uploaded_on_disk() -> str:
    """The number of offsets of each replica that are both on its disk and in remote storage.

    They lie between its local log start and the leader's pending upload offset; 0 if the leader
    returns no such offset.
    """
    pending = f"{_latest('pending_upload_offset')}"
    start, end = _each("local_log_start_offset"), _each("log_end_offset")
    above_start = f"clamp_min(scalar({pending}) - {start}, 0)"
    above_end = f"clamp_min(scalar({pending}) - {end}, 0)"
    return f"({above_start} - {above_end} >= 0 or {start} * 0)"


def _geometry() -> Json:
    log_start, end = _each("log_start_offset"), _each("log_end_offset")
    local_start = _each("local_log_start_offset")
    first = f"scalar(min({log_start}))"
    uploaded = _uploaded_on_disk()
    return bars(
        "Where the log is",
        "Offsets of each replica, from the lowest log start on: only in remote storage, on its "
        "disk and in remote storage, on its disk and not uploaded yet.",
        "broker",
        [
            TableColumn("Before its start", f"{log_start} - {first}", _OFFSET),
            TableColumn(
                "Remote only",
                f"clamp_min({local_start} - {log_start}, 0)",
                Look("locale", ((None, "blue"),)),
            ),
            TableColumn("Local and remote", uploaded, Look("locale", ((None, "green"),))),
            TableColumn(
                "Local, not uploaded",
                f"{end} - {local_start} - {uploaded}",
                Look("locale", ((None, "purple"),)),
            ),
        ],
        along="horizontal",
        stacked=True,
        unseen="Before its start",
    )


def _offsets() -> Json:
    names = {
        "log_end_offset": "log end",
        "high_watermark_offset": "high watermark",
        "pending_upload_offset": "pending upload",
        "last_stable_offset": "last stable",
        "last_tiered_offset": "last tiered",
        "highest_remote_offset": "last of its lineage in remote storage",
        "local_log_start_offset": "local log start",
        "log_start_offset": "log start",
    }
    return lines(
        "Offsets",
        "Offsets as the leader reports them. The high watermark is an estimate without a tap; the "
        "last one of the lineage comes from the metadata of remote segments.",
        [PanelQuery(_latest(name), legend) for name, legend in names.items()],
        _OFFSET,
        width=2,
        fill=0,
        empty="No offset is known",
    )


def _remote() -> Json:
    return lines(
        "In remote storage",
        "Size of finished copies. Orphans no longer belong to the log.",
        [
            PanelQuery(_latest("remote_log_bytes"), "all"),
            PanelQuery(_latest("orphan_bytes"), "orphans"),
        ],
        Look("bytes", lowest=0),
        empty="It is not tiered, or its segments are not known",
    )


def _replicas() -> Json:
    def expr(name: str) -> str:
        return _HERE.latest(f"replica_{name}", "broker", "rack")

    return table(
        "Each replica",
        "Local log to lead: by the thresholds of KIP-1303 that hold for the topic; no value where "
        "none is set.",
        ("broker", "rack"),
        [
            TableColumn("In ISR", expr("in_isr"), Look(mapping=YES_NO)),
            TableColumn("Caught up", _answering(expr("in_sync")), Look(mapping=YES_NO)),
            TableColumn("Local log to lead", expr("election_eligible"), Look(mapping=_WARM)),
            TableColumn("Warm in", expr("warm_in_seconds"), Look("s", mapping=NEVER)),
            TableColumn("Local log", expr("local_log_bytes"), Look("bytes")),
            TableColumn("Spans", expr("local_log_span_seconds"), Look("s")),
            TableColumn("Lag", expr("lag_records"), _RECORDS),
            TableColumn("Local log start", expr("local_log_start_offset"), _OFFSET),
            TableColumn("Log end", expr("log_end_offset"), _OFFSET),
        ],
        empty="Not exported: set granularity to partition",
    )


# ------------------------------------------------------------ history


def _by_broker(title: str, text: str, name: str, look: Look, *more: PanelQuery) -> Json:
    queries = [PanelQuery(_each(name), "broker {{broker}}"), *more]
    return lines(title, text, queries, look, empty="Not known of any replica")


def _bands_by_broker(title: str, text: str, name: str, mapping: Mapping) -> Json:
    return states(
        title, text, [PanelQuery(_each(name), "broker {{broker}}")], Look(mapping=mapping)
    )


def _leaders() -> Json:
    queries = [PanelQuery(_latest("leader"), "leads")]
    queries += [
        PanelQuery(_HERE.latest("partition_next_leader", rule=rule), f"next: {title}")
        for rule, title in ELECTION_POLICIES.items()
    ]
    look = Look("none", mapping=_BY_ID)
    return states("Leader and next leader", "Broker ids over time.", queries, look)


def _coverage() -> tuple[Json, ...]:
    return (
        _by_broker(
            "Span of local log",
            "Time from the first local record until now.",
            "local_log_span_seconds",
            Look("s", lowest=0),
            PanelQuery(_HERE.latest("topic_eligible_local_log_seconds"), "threshold"),
        ),
        _by_broker(
            "Size of local log",
            "Size that the broker reports, or an estimate.",
            "local_log_bytes",
            Look("bytes", lowest=0),
            PanelQuery(_HERE.latest("topic_eligible_local_log_bytes"), "threshold"),
        ),
        _bands_by_broker(
            "Enough local log to lead",
            "Cold: known to miss every threshold of KIP-1303 that is set. No value where none is.",
            "election_eligible",
            _WARM,
        ),
    )


def _replication() -> tuple[Json, ...]:
    return (
        _bands_by_broker("ISR", "Replicas that the controller has in the ISR.", "in_isr", YES_NO),
        _bands_by_broker(
            "Caught up",
            "Replicas that are in sync by Kafka's rule, as the twin computes it.",
            "in_sync",
            YES_NO,
        ),
        _by_broker(
            "Time since caught up",
            "Kafka removes a follower from the ISR at replica.lag.time.max.ms.",
            "caught_up_age_seconds",
            Look("s", lowest=0),
        ),
    )


# ------------------------------------------------------------ new replicas


def _bootstrap() -> Json:
    def expr(name: str) -> str:
        return _HERE.latest(f"partition_bootstrap_{name}", "feature")

    return table(
        "An empty follower that joined now",
        "Where an empty follower would start and what it would copy, with "
        "follower.fetch.last.tiered.offset.enable (KIP-1023) on and off.",
        ("feature",),
        [
            TableColumn("First offset", expr("start_offset"), _OFFSET),
            TableColumn("Records to copy", expr("records"), _RECORDS),
        ],
        empty="Not known",
    )


def _catching_up() -> Json:
    def expr(name: str) -> str:
        return _HERE.latest(f"replica_catch_up_{name}", "broker", "rack")

    return table(
        "Replicas that catch up",
        "Stuck: the replica does not move.",
        ("broker", "rack"),
        [
            TableColumn("Copied", expr("progress_ratio"), Look("percentunit", lowest=0, highest=1)),
            TableColumn("Rate", expr("records_per_second"), Look("suffix:rec/s", decimals=1)),
            TableColumn("Left", expr("time_left_seconds"), Look("s", mapping=NEVER)),
            TableColumn("May lead in", expr("time_to_lead_seconds"), Look("s", mapping=NEVER)),
            TableColumn("Stuck", expr("stuck"), Look(mapping={"1": ("yes", "red")})),
        ],
        empty="No replica is catching up",
    )


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-partition",
    title="Kafka twin / Partition",
    text="One partition. Partitions at risk are always exported, others with granularity "
    "partition.",
    variables=(datasource(), cluster(), topic(), partition(), console()),
    console_view="partitions/$topic/$partition",
    marked_by=("topic:$topic",),
    rows=(
        row("Now", *bands(3, _now(), across=4)),
        row(
            "Its log",
            band(8, _geometry(), _risks(), widths=(17, 7)),
            band(6, _replicas()),
            band(8, _offsets(), _remote(), widths=(16, 8)),
        ),
        row("Who may lead", band(5, _leaders()), band(8, *_coverage())),
        row("Replication", band(8, *_replication())),
        row("New replicas (KIP-1023)", band(5, _bootstrap(), _catching_up()), is_collapsed=True),
    ),
    marked=("Leader and next leader", "Offsets", "ISR"),
)
