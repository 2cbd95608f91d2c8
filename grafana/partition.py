"""Partition: where its log is, who leads it next, and what became of its replicas."""

from __future__ import annotations

from typing import Final

from grafana.layout import Dashboard, band, row
from grafana.panels import (
    BLUE,
    NEVER,
    NOBODY,
    YES_NO,
    Column,
    Look,
    Mapping,
    Query,
    bars,
    lines,
    stat,
    states,
    table,
)
from grafana.queries import RULES, Scope
from grafana.variables import Json, cluster, datasource, partition, topic

_HERE: Final = Scope(one=("cluster", "topic", "partition"))

_WARM: Final[Mapping] = {"1": ("enough", "green"), "0": ("thin", "orange")}
_LEADER: Final = Look("none", BLUE, NOBODY)
_OFFSET: Final = Look("locale")
_RECORDS: Final = Look("locale", lowest=0)

_ON_PARTITION: Final = "on (cluster, topic, partition) group_right ()"
"""Joins a number of the partition, on the left, to each of its replicas."""


def _of(name: str) -> str:
    return _HERE.latest(f"partition_{name}")


def _each(name: str) -> str:
    """A replica's number, by broker."""
    return _HERE.latest(f"replica_{name}", "broker")


def _now() -> tuple[Json, ...]:
    def next_leader(rule: str) -> Json:
        return stat(
            f"Next leader: {RULES[rule]}", "Who leads once the leader is lost.",
            _HERE.latest("partition_next_leader", rule=rule), _LEADER,
        )  # fmt: skip

    return (
        stat("Leader", "Broker id.", _of("leader"), _LEADER),
        next_leader("kafka"),
        next_leader("kip1303"),
        stat("In sync", "Replicas in the ISR.", _of("isr_size"),
             Look(steps=((None, "red"), (1, "green")))),
        stat("Replicas", "Assigned.", _of("replicas"), Look()),
        stat("Leader epoch", "Grows with each election.", _of("leader_epoch"), Look("none")),
        stat("Written", "Records a second, a moving average.",
             _of("appended_records_per_second"), Look("suffix:rec/s", decimals=1),
             empty="not known yet"),
        stat("Not uploaded", "Records its leader has not uploaded.", _of("upload_lag_records"),
             Look("locale"), empty="not known"),
    )  # fmt: skip


def _risks() -> Json:
    return table(
        "Its risks", "What each means is in docs/metrics.md.", ("risk", "severity"),
        [Column("", _HERE.latest("partition_at_risk", "risk", "severity"))],
        key_looks={"severity": Look(mapping={
            "page": ("page", "red"), "warn": ("warn", "orange"), "info": ("info", "blue"),
        })},
        empty="It has no risk",
    )  # fmt: skip


# ------------------------------------------------------------ log geometry


def _uploaded_on_disk() -> str:
    """[replica] offsets on its disk below the first that is not uploaded: they are in both tiers.

    The overlap of [local start, log end) and what is below the pending upload; none where the
    leader names no pending upload.
    """
    pending = f"{_of('pending_upload_offset')}"
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
        "Offsets of each replica from where the longest log begins: deleted from its disk and "
        "only in remote storage; on its disk and in remote storage; on its disk and not uploaded "
        "yet.",
        "broker",
        [
            Column("Before its start", f"{log_start} - {first}", _OFFSET),
            Column("Remote only", f"clamp_min({local_start} - {log_start}, 0)",
                   Look("locale", ((None, "blue"),))),
            Column("Local and remote", uploaded, Look("locale", ((None, "green"),))),
            Column("Local, not uploaded", f"{end} - {local_start} - {uploaded}",
                   Look("locale", ((None, "orange"),))),
        ],
        along="horizontal", stacked=True, unseen="Before its start",
    )  # fmt: skip


def _offsets() -> Json:
    names = {
        "log_end_offset": "log end",
        "pending_upload_offset": "pending upload",
        "last_tiered_offset": "last tiered",
        "highest_remote_offset": "last in remote storage, of its lineage",
        "local_log_start_offset": "local log start",
        "log_start_offset": "log start",
    }
    return lines(
        "Offsets", "As its leader tells; that of its lineage as its remote segments tell.",
        [Query(_of(name), legend) for name, legend in names.items()], _OFFSET,
        empty="Nobody knows an offset",
    )  # fmt: skip


def _remote() -> Json:
    return lines(
        "In remote storage", "Finished copies. Orphans belong to its log no more.",
        [Query(_of("remote_log_bytes"), "all"), Query(_of("orphan_bytes"), "orphans")],
        Look("bytes", lowest=0), empty="Its segments are not known",
    )  # fmt: skip


def _replicas() -> Json:
    def of(name: str) -> str:
        return _HERE.latest(f"replica_{name}", "broker", "rack")

    return table(
        "Each replica", "Enough local log: by KIP-1303's thresholds of the topic or the broker.",
        ("broker", "rack"),
        [
            Column("In ISR", of("in_isr"), Look(mapping=YES_NO)),
            Column("Caught up", of("in_sync"), Look(mapping=YES_NO)),
            Column("Local log to lead", of("election_eligible"), Look(mapping=_WARM)),
            Column("Enough in", of("eligible_in_seconds"), Look("s", mapping=NEVER)),
            Column("Local log", of("local_log_bytes"), Look("bytes")),
            Column("Spans", of("local_log_span_seconds"), Look("s")),
            Column("Behind leader", of("lag_records"), _RECORDS),
            Column("Log start", of("log_start_offset"), _OFFSET),
            Column("Local log start", of("local_log_start_offset"), _OFFSET),
            Column("Log end", of("log_end_offset"), _OFFSET),
        ],
        empty="Not exported: set granularity to partition",
    )  # fmt: skip


# ------------------------------------------------------------ history


def _by_broker(title: str, text: str, name: str, look: Look, *more: Query) -> Json:
    queries = [Query(_each(name), "broker {{broker}}"), *more]
    return lines(title, text, queries, look, empty="Not known of any replica")


def _bands_by_broker(title: str, text: str, name: str, mapping: Mapping) -> Json:
    return states(title, text, [Query(_each(name), "broker {{broker}}")], Look(mapping=mapping))


def _leaders() -> Json:
    queries = [Query(_of("leader"), "leads")]
    queries += [
        Query(_HERE.latest("partition_next_leader", rule=rule), f"next: {title}")
        for rule, title in RULES.items()
    ]
    return states("Leader and next leader", "Broker ids.", queries, _LEADER)


def _coverage() -> tuple[Json, ...]:
    return (
        _by_broker("Span of local log", "Time from the first local record until now.",
                   "local_log_span_seconds", Look("s", lowest=0),
                   Query(_HERE.latest("topic_eligible_local_log_seconds"), "threshold")),
        _by_broker("Size of local log", "As log directories tell, or estimated.",
                   "local_log_bytes", Look("bytes", lowest=0),
                   Query(_HERE.latest("topic_eligible_local_log_bytes"), "threshold")),
        _bands_by_broker("Enough local log to lead",
                         "Thin: known to span less and hold less than KIP-1303's thresholds ask.",
                         "election_eligible", _WARM),
    )  # fmt: skip


def _replication() -> tuple[Json, ...]:
    return (
        _bands_by_broker("ISR", "Replicas the controller has in the ISR.", "in_isr", YES_NO),
        _bands_by_broker("Caught up", "What the twin sees by Kafka's rule.", "in_sync", YES_NO),
        _by_broker("Time since caught up", "Kafka takes a follower out at replica.lag.time.max.ms.",
                   "caught_up_age_seconds", Look("s", lowest=0)),
        _by_broker("Behind the leader", "Records.", "lag_records", _RECORDS),
    )  # fmt: skip


# ------------------------------------------------------------ joining


def _join_cost() -> Json:
    def of(name: str) -> str:
        return _HERE.latest(f"partition_join_{name}", "feature")

    return table(
        "An empty follower that joined now",
        "Where it would start and what it would copy, with "
        "follower.fetch.last.tiered.offset.enable (KIP-1023) on and off.",
        ("feature",),
        [
            Column("First offset", of("start_offset"), _OFFSET),
            Column("Records to copy", of("records"), _RECORDS),
        ],
        empty="Nobody can tell",
    )  # fmt: skip


def _joining() -> Json:
    def of(name: str) -> str:
        return _HERE.latest(f"replica_join_{name}", "broker", "rack")

    return table(
        "Replicas that are joining", "Stuck: it does not move.", ("broker", "rack"),
        [
            Column("Copied", of("progress_ratio"), Look("percentunit", lowest=0, highest=1)),
            Column("Rate", of("records_per_second"), Look("suffix:rec/s", decimals=1)),
            Column("Left", of("seconds_left"), Look("s", mapping=NEVER)),
            Column("May lead in", of("seconds_to_lead"), Look("s", mapping=NEVER)),
            Column("Stuck", of("stuck"), Look(mapping={"1": ("yes", "red")})),
        ],
        empty="No replica is joining",
    )  # fmt: skip


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-partition",
    title="Kafka twin / Partition",
    text="One partition. Those at risk are always exported, the others at granularity partition.",
    variables=(datasource(), cluster(), topic(), partition()),
    marked_by=("topic:$topic",),
    rows=(
        row("Now", band(4, *_now(), widths=(3, 4, 4, 2, 2, 3, 3, 3))),
        row("Its log", band(8, _geometry(), _risks(), widths=(17, 7)), band(6, _replicas()),
            band(8, _offsets(), _remote(), widths=(16, 8))),
        row("Who may lead", band(5, _leaders()), band(8, *_coverage())),
        row("Replication", band(8, *_replication())),
        row("Joining", band(5, _join_cost(), _joining())),
    ),
)  # fmt: skip
