"""Tiered storage: what is where, what is not uploaded, what a new replica costs (KIP-1023)."""

from __future__ import annotations

from typing import Final

from grafana.layout import ROW_PARTITION, SERIES_PARTITION, Dashboard, band, row
from grafana.panels import (
    BLUE,
    NEVER,
    NONE_OR_ORANGE,
    NONE_OR_RED,
    Column,
    Look,
    Query,
    above_zero,
    bars,
    gauges,
    lines,
    stat,
    table,
)
from grafana.queries import Scope
from grafana.variables import Json, broker, cluster, datasource, rack, topics

_HERE: Final = Scope(many=("rack", "broker", "topic"))

_ON: Final = "KIP-1023 on"
_OFF: Final = "KIP-1023 off"
_RECORDS: Final = Look("locale", lowest=0)
_BYTES: Final = Look("bytes", lowest=0)
_NO_JMX: Final = "No broker tells: collector.metrics_url"


def _stored() -> tuple[Json, ...]:
    known, all_of_them = _HERE.latest("partitions_with_known_segments"), _HERE.latest("partitions")

    def count(title: str, name: str, text: str, look: Look) -> Json:
        """A 0 of partitions whose segments nobody told of would look like good news."""
        expr = f"{_HERE.latest(name)} and {known} > 0"
        return stat(title, text, expr, look, empty="not known")

    seen = Look(steps=NONE_OR_ORANGE)
    return (
        stat("Segments known", "Share of partitions whose remote segments the twin knows; the "
             "numbers beside are of those.",
             f"{known} / ({all_of_them} > 0)", Look("percentunit", decimals=0),
             empty="not known"),
        stat("Local log", "On the disks of the chosen brokers, of replicas whose size is known.",
             _HERE.total("broker_local_log_bytes"), _BYTES),
        count("Remote log", "remote_log_bytes", "Finished copies in remote storage.", _BYTES),
        count("Of it orphans", "orphan_bytes", "Finished copies that belong to no log any more.",
              Look("bytes", NONE_OR_ORANGE)),
        count("Gaps", "tier_gaps",
              "Partitions with offsets in no copy and on no live replica.",
              Look(steps=NONE_OR_RED)),
        count("Overlaps", "tier_overlaps", "Copies that begin inside another of the same log.",
              seen),
        count("Dangling uploads", "dangling_uploads", "Copies that were started and not finished.",
              seen),
        count("Changes refused", "segment_transitions_refused",
              "Changes of a segment's state that Kafka forbids.", seen),
    )  # fmt: skip


def _by_topic() -> Json:
    def of(name: str) -> str:
        return _HERE.latest(f"topic_{name}", "topic")

    return table(
        "Topics", "Read cold: from remote storage though a replica has it on disk.", ("topic",),
        [
            Column("Partitions", of("partitions"), _RECORDS),
            Column("Local", of("local_log_bytes"), _BYTES),
            Column("Records read cold", of("cold_read_records"), _RECORDS),
            Column("At risk", of("partitions_at_risk"),
                   Look(steps=above_zero("orange"))),
        ],
        sort="Local", empty="Topics are exported at granularity topic or partition",
    )  # fmt: skip


def _by_partition() -> Json:
    by = ("topic", "partition")
    most = f"topk(100, {_HERE.latest('partition_orphan_bytes', *by)} > 0)"
    return table(
        "Most orphans", "The hundred partitions with most, of those exported.", by,
        [
            Column("Orphans", most, Look("bytes", ((None, "orange"),))),
            Column("Remote", f"{_HERE.latest('partition_remote_log_bytes', *by)} and {most}",
                   _BYTES),
        ],
        link=ROW_PARTITION, sort="Orphans", empty="No orphan is known",
    )  # fmt: skip


def _upload() -> tuple[Json, ...]:
    by = ("topic", "partition")
    name = "{{topic}}-{{partition}}"
    held = _HERE.latest("partitions_at_risk", risk="upload_lag_vs_local_retention")
    return (
        gauges("Least uploaded partitions, records", "The ten with most; of those exported.",
               Query(f"sort_desc(topk(10, {_HERE.latest('partition_upload_lag_records', *by)}))",
                     name),
               Look("locale", BLUE, lowest=0), link=SERIES_PARTITION,
               empty="No partition is exported"),
        gauges("Least uploaded partitions, bytes", "The ten with most, estimated; of those "
               "exported.",
               Query(f"sort_desc(topk(10, {_HERE.latest('partition_upload_lag_bytes', *by)}))",
                     name),
               Look("bytes", BLUE, lowest=0), link=SERIES_PARTITION,
               empty="No partition is exported"),
        lines("Local retention waits for uploads",
              "Partitions whose disk fills because nothing may be deleted before it is uploaded.",
              [Query(held, "partitions")], Look(steps=NONE_OR_ORANGE, lowest=0)),
    )  # fmt: skip


def _join_cost() -> tuple[Json, ...]:
    on, off = (_HERE.latest("join_bytes", feature=feature) for feature in ("on", "off"))
    return (
        stat("Saved by KIP-1023", "Share of what empty followers of all partitions need not copy.",
             f"1 - {on} / ({off} > 0)", Look("percentunit", BLUE, decimals=0),
             empty="not known"),
        lines("What empty followers of all partitions would copy", "Estimated, where sizes are "
              "known.",
              [Query(on, _ON), Query(off, _OFF)], _BYTES),
        bars("Where an empty follower would start", "Partitions by path, with KIP-1023 on and off.",
             "path",
             [
                 Column(title, _HERE.latest("partitions_by_join_path", "path", feature=feature),
                        Look(steps=((None, color),)))
                 for feature, title, color in (("on", _ON, "green"), ("off", _OFF, "blue"))
             ],
             along="horizontal"),
    )  # fmt: skip


def _joining() -> tuple[Json, ...]:
    keys = ("topic", "partition", "broker")

    def of(name: str) -> str:
        return _HERE.latest(f"replica_join_{name}", *keys)

    return (
        lines("Joining replicas", "By the path they took.",
              [Query(_HERE.latest("replicas_joining", "path"), "{{path}}")], Look(lowest=0),
              stacked=True),
        lines("Stuck ones", "Joining replicas that do not move, by reason.",
              [Query(_HERE.latest("replicas_joining_stuck", "reason"), "{{reason}}")],
              Look(lowest=0), stacked=True),
        table("Slowest joins", "The hundred with most time left; those of unknown end are not "
              "shown.", keys,
              [
                  Column("Left", f"topk(100, {of('seconds_left')})", Look("s", mapping=NEVER)),
                  Column("Copied", of("progress_ratio"),
                         Look("percentunit", lowest=0, highest=1)),
                  Column("Rate", of("records_per_second"), Look("suffix:rec/s", decimals=1)),
              ],
              link=ROW_PARTITION, sort="Left", empty="No replica is joining"),
    )  # fmt: skip


def _thin() -> tuple[Json, ...]:
    def line(name: str, legend: str) -> Query:
        return Query(_HERE.latest(name), legend)

    return (
        gauges("Thin replicas by broker", "With too little local log to lead (KIP-1303).",
               Query(_HERE.latest("broker_thin_replicas", "broker"), "broker {{broker}}"),
               Look(steps=((None, "green"), (1, "yellow")), lowest=0)),
        lines("What KIP-1303 would change", "Kept: the first in its order cannot lead. Visited "
              "for nothing: balancing finds a thin replica 0.",
              [
                  line("partitions_leader_thin", "led by a thin replica"),
                  line("partitions_thin_leader_kept", "thin leader kept"),
                  line("partitions_balancer_noop", "visited for nothing"),
              ],
              Look(lowest=0)),
        lines("What the twin takes on trust", "Replicas whose numbers are unknown or odd.",
              [
                  line("replicas_coverage_assumed", "taken as eligible"),
                  line("replicas_local_log_unknown", "size unknown"),
                  line("replicas_timestamp_suspect", "dated before it was written"),
              ],
              Look(lowest=0)),
        lines("AlterPartition requests KIP-1303 would add", "By what is reported.",
              [Query(_HERE.latest("kip1303_reports_per_second", "report"), "{{report}}")],
              Look("reqps", lowest=0)),
    )  # fmt: skip


def _consumers() -> tuple[Json, ...]:
    return (
        gauges("Cold reads by broker",
               "Partitions for which consumers are sent to it to read from remote storage what "
               "another replica has on disk (KIP-392, KIP-1023).",
               Query(_HERE.latest("broker_cold_read_partitions", "broker"), "broker {{broker}}"),
               Look(steps=((None, "green"), (1, "orange")), lowest=0)),
        lines("Followers that refuse offsets", "Followers that cannot serve a window of offsets, "
              "by KIP-392's cases.",
              [Query(_HERE.latest("replicas_out_of_range_window", "case"), "{{case}}")],
              Look(lowest=0), stacked=True),
    )  # fmt: skip


def _measured() -> tuple[Json, ...]:
    """What brokers measure themselves."""

    def of(name: str, legend: str = "broker {{broker}}") -> Query:
        return Query(_HERE.latest(f"broker_{name}", "broker"), legend)

    return (
        lines("Reads from remote storage", "For consumers, a second.",
              [of("remote_fetch_requests_per_second")], Look("ops", lowest=0), empty=_NO_JMX),
        lines("Reads that wait for a thread", "More than a few: old records are read slowly.",
              [of("remote_reader_queue_size")], Look(lowest=0), empty=_NO_JMX),
        lines("Upload lag, by the twin and by the broker", "The broker leaves open segments out.",
              [of("upload_lag_bytes", "{{broker}}: twin"),
               of("remote_copy_lag_bytes", "{{broker}}: broker")], _BYTES),
    )  # fmt: skip


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-tiered-storage",
    title="Kafka twin / Tiered storage",
    text="What is local and what is remote. Numbers of the whole cluster are not narrowed by "
    "broker, rack or topic.",
    variables=(datasource(), cluster(), rack(), broker(), topics()),
    rows=(
        row("Stored", band(4, *_stored()), band(9, _by_topic(), _by_partition())),
        row("Upload", band(8, *_upload())),
        row("New replicas (KIP-1023)", band(8, *_join_cost(), widths=(4, 10, 10)),
            band(8, *_joining(), widths=(7, 7, 10))),
        row("Local log to lead (KIP-1303)", band(8, *_thin())),
        row("Consumers (KIP-392)", band(8, *_consumers())),
        row("What brokers measure", band(8, *_measured())),
    ),
)  # fmt: skip
