"""Consumers: who is behind, who reads remote storage, and whom the loss of a broker would hurt."""

from __future__ import annotations

from typing import Final

from grafana.layout import Dashboard, band, row
from grafana.panels import (
    BLUE,
    NONE_OR_ORANGE,
    NONE_OR_RED,
    Look,
    PanelQuery,
    TableColumn,
    above_zero,
    bars,
    lines,
    stat,
    table,
)
from grafana.queries import ELECTION_POLICIES, Scope
from grafana.variables import Json, broker, cluster, console, datasource, groups, rack, topics

_HERE: Final = Scope(many=("group", "topic", "broker", "rack"))

_RECORDS: Final = Look("locale", lowest=0)
_BYTES: Final = Look("bytes", lowest=0)
_NEVER: Final = {"Infinity": ("never", "green")}
_UNTIL: Final = Look("s", ((None, "red"), (900, "orange"), (3_600, "transparent")), _NEVER)
_UNTIL_REMOTE: Final = Look("s", ((None, "blue"), (900, "transparent")), _NEVER)
"""Blue as the risk, which is for information: what is read remotely is not lost."""

_NO_GROUPS: Final = "No group has committed an offset"
_KAFKA: Final = ELECTION_POLICIES["kafka"]
_KIP1303: Final = ELECTION_POLICIES["kip1303"]


def _now() -> tuple[Json, ...]:
    def at_risk(title: str, risk: str, text: str, look: Look) -> Json:
        return stat(title, text, _HERE.latest("partitions_at_risk", risk=risk), look)

    return (
        stat(
            "Groups",
            "Groups of consumers that the twin knows, whatever the variables say.",
            _HERE.latest("groups"),
            Look(),
        ),
        at_risk(
            "Lose records",
            "consumer_loses_records",
            "Partitions of which a group loses records that it has not read, within an hour or "
            "already.",
            Look(steps=NONE_OR_RED),
        ),
        at_risk(
            "Fall off the local log",
            "consumer_falls_off_local_log",
            "Partitions that a group reads from remote storage within 15 minutes.",
            Look(steps=NONE_OR_ORANGE),
        ),
        at_risk(
            "Read from remote storage",
            "consumer_reads_remote",
            "Partitions that a group reads from remote storage now.",
            Look(steps=above_zero("blue")),
        ),
    )


def _groups() -> Json:
    def expr(name: str, **label_values: str) -> str:
        return _HERE.latest(f"group_{name}", "group", **label_values)

    return table(
        "Groups of consumers",
        "Times are the earliest of the group's partitions. The last two columns are the bytes that "
        "it would read from remote storage if all its leaders were lost, by election rule.",
        ("group",),
        [
            TableColumn("Lag", expr("lag_records"), _RECORDS),
            TableColumn("Lag, time", expr("lag_seconds"), Look("s")),
            TableColumn("Remote", expr("remote_records"), _RECORDS),
            TableColumn("Until remote", expr("until_remote_seconds"), _UNTIL_REMOTE),
            TableColumn("Until loss", expr("until_loss_seconds"), _UNTIL),
            *(
                TableColumn(
                    f"Remote if lost, {title}",
                    expr("if_leader_lost_remote_bytes", rule=rule),
                    _BYTES,
                )
                for rule, title in (("kafka", "Kafka"), ("kip1303", "KIP-1303"))
            ),
        ],
        sort="Lag",
        empty=_NO_GROUPS,
    )


def _over_time() -> tuple[Json, ...]:
    def expr(name: str) -> str:
        return f"topk(20, {_HERE.latest(f'group_{name}', 'group')})"

    return (
        lines(
            "Lag",
            "Records that the 20 groups with the most of them have not read.",
            [PanelQuery(expr("lag_records"), "{{group}}")],
            _RECORDS,
            empty=_NO_GROUPS,
        ),
        lines(
            "Lag, time",
            "Seconds in which these records were appended, for the partition that is furthest "
            "behind.",
            [PanelQuery(expr("lag_seconds"), "{{group}}")],
            Look("s", lowest=0),
            empty=_NO_GROUPS,
        ),
        lines(
            "Records to read from remote storage",
            "Records that groups read from remote storage before they read from a disk.",
            [PanelQuery(expr("remote_records"), "{{group}}")],
            _RECORDS,
            empty=_NO_GROUPS,
        ),
    )


def _losses() -> Json:
    def expr(rule: str) -> str:
        return _HERE.latest("broker_loss_remote_read_bytes", "broker", rule=rule)

    return bars(
        "If a broker were lost now: reads from remote storage",
        "Estimated bytes that groups would read from remote storage, and do not now.",
        "broker",
        [
            TableColumn(_KAFKA, expr("kafka"), Look("bytes", ((None, "orange"),))),
            TableColumn(_KIP1303, expr("kip1303"), Look("bytes", BLUE)),
        ],
        empty="No broker is chosen",
    )


def _topics() -> Json:
    by = ("group", "topic")
    return table(
        "Groups and topics",
        "The 100 pairs with the most lag.",
        by,
        [
            TableColumn(
                "Lag", f"topk(100, {_HERE.latest('group_topic_lag_records', *by)})", _RECORDS
            ),
        ],
        sort="Lag",
        empty="Topics are exported at granularity topic or partition",
    )


def _partitions() -> Json:
    by = ("group", "topic", "partition")

    def expr(name: str, **label_values: str) -> str:
        return f"{_HERE.latest(f'group_partition_{name}', *by, **label_values)} and {most}"

    most = f"topk(100, {_HERE.latest('group_partition_lag_records', *by)} > 0)"
    return table(
        "Partitions that groups are behind in",
        "The 100 with the most lag, of those exported.",
        ("topic", "partition", "group"),
        [
            TableColumn("Lag", most, _RECORDS),
            TableColumn("Remote", expr("remote_records"), _RECORDS),
            TableColumn("Until remote", expr("until_remote_seconds"), _UNTIL_REMOTE),
            TableColumn("Until loss", expr("until_loss_seconds"), _UNTIL),
            TableColumn(
                "If its leader is lost",
                expr("if_leader_lost_remote_records", rule="kafka"),
                _RECORDS,
            ),
        ],
        sort="Lag",
        empty="No group is behind in a partition that is exported",
    )


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-consumers",
    title="Kafka twin / Consumers",
    text="Groups of consumers: who is behind, who reads remote storage, and whom the loss of a "
    "broker would hurt. The variables do not narrow numbers of the whole cluster.",
    console_view="consumers",
    variables=(datasource(), cluster(), groups(), rack(), broker(), topics(), console()),
    rows=(
        row("Now", band(4, *_now()), band(10, _groups())),
        row("Over time", band(8, *_over_time())),
        row("Where", band(9, _topics(), _losses()), band(10, _partitions())),
    ),
    marked=("Lag",),
)
