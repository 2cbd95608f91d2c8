"""Tiered storage: local and remote log, uploads, and the cost of new replicas (KIP-1023)."""

from __future__ import annotations

from typing import Final

from grafana import stable_offsets
from grafana.layout import Dashboard, band, bands, row
from grafana.links import SERIES_PARTITION
from grafana.panels import (
    BLUE,
    NEVER,
    NONE_OR_ORANGE,
    NONE_OR_RED,
    Look,
    PanelQuery,
    TableColumn,
    above_zero,
    bars,
    gauges,
    lines,
    stat,
    table,
)
from grafana.queries import Scope
from grafana.variables import Json, broker, cluster, console, datasource, rack, topics

_HERE: Final = Scope(many=("rack", "broker", "topic"))

_ON: Final = "KIP-1023 on"
_OFF: Final = "KIP-1023 off"
_RECORDS: Final = Look("locale", lowest=0)
_BYTES: Final = Look("bytes", lowest=0)
_NO_JMX: Final = "Not measured: set collector.metrics_url"


def _stored() -> tuple[Json, ...]:
    with_known_segments = _HERE.latest("partitions_with_known_segments")

    def count(title: str, name: str, text: str, look: Look) -> Json:
        """A number of segments; no value while no segment is known, since 0 would mislead."""
        expr = f"{_HERE.latest(name)} and {with_known_segments} > 0"
        return stat(title, text, expr, look, empty="not known")

    orange = Look(steps=NONE_OR_ORANGE)
    return (
        stat(
            "Segments known",
            "Partitions whose remote segments are known; the numbers beside it are about these.",
            f"{with_known_segments} > 0",
            Look("locale"),
            empty="none",
        ),
        stat(
            "Local log",
            "Size on the disks of the chosen brokers, of replicas whose size is known.",
            _HERE.total("broker_local_log_bytes"),
            _BYTES,
        ),
        count(
            "Remote log", "remote_log_bytes", "Size of finished copies in remote storage.", _BYTES
        ),
        count(
            "Orphan segments",
            "orphan_bytes",
            "Size of finished copies that belong to no log.",
            Look("bytes", NONE_OR_ORANGE),
        ),
        count(
            "Tier gaps",
            "tier_gaps",
            "Partitions with offsets in no copy and on no live replica.",
            Look(steps=NONE_OR_RED),
        ),
        count(
            "Overlaps",
            "tier_overlaps",
            "Remote segments that begin inside another segment of their log: normal after leaders "
            "moved.",
            Look(),
        ),
        count(
            "Duplicates",
            "tier_duplicates",
            "Remote segments whose offsets are all in another segment of their log.",
            orange,
        ),
        count(
            "Dangling uploads",
            "dangling_uploads",
            "Uploads that were started and not finished.",
            orange,
        ),
        count(
            "Invalid transitions",
            "segment_transitions_refused",
            "Changes of a remote segment's state that Kafka does not allow.",
            orange,
        ),
    )


def _by_topic() -> Json:
    def expr(name: str) -> str:
        return _HERE.latest(f"topic_{name}", "topic")

    return table(
        "Topics",
        "Cold reads: offsets that consumers read from remote storage though a replica has "
        "them on disk.",
        ("topic",),
        [
            TableColumn("Partitions", expr("partitions"), _RECORDS),
            TableColumn("Local", expr("local_log_bytes"), _BYTES),
            TableColumn("Cold reads", expr("cold_read_records"), _RECORDS),
            TableColumn("At risk", expr("partitions_at_risk"), Look(steps=above_zero("orange"))),
        ],
        sort="Local",
        empty="Topics are exported at granularity topic or partition",
    )


def _by_partition() -> Json:
    by = ("topic", "partition")
    most = f"topk(100, {_HERE.latest('partition_orphan_bytes', *by)} > 0)"
    return table(
        "Most orphan segments",
        "The 100 partitions with most bytes in orphan segments, of those exported.",
        by,
        [
            TableColumn("Orphans", most, Look("bytes", ((None, "orange"),))),
            TableColumn(
                "Remote", f"{_HERE.latest('partition_remote_log_bytes', *by)} and {most}", _BYTES
            ),
        ],
        sort="Orphans",
        empty="No orphan segment is known",
    )


def _upload() -> tuple[Json, ...]:
    by = ("topic", "partition")
    name = "{{topic}}-{{partition}}"
    at_risk = _HERE.latest("partitions_at_risk", risk="upload_lag_vs_local_retention")
    return (
        gauges(
            "Highest upload lag, records",
            "The eight partitions with most records to upload, of those exported.",
            PanelQuery(
                f"sort_desc(topk(8, {_HERE.latest('partition_upload_lag_records', *by)} > 0))",
                name,
            ),
            Look("locale", BLUE, lowest=0),
            links=SERIES_PARTITION,
            empty="Nothing waits for its upload",
        ),
        gauges(
            "Highest upload lag, bytes",
            "The eight partitions with most bytes to upload, estimated, of those exported.",
            PanelQuery(
                f"sort_desc(topk(8, {_HERE.latest('partition_upload_lag_bytes', *by)} > 0))", name
            ),
            Look("bytes", BLUE, lowest=0),
            links=SERIES_PARTITION,
            empty="Nothing waits for its upload",
        ),
        lines(
            "Upload lag vs local retention",
            "Partitions whose local log grows because nothing is deleted before it is uploaded.",
            [PanelQuery(f"{at_risk} > 0", "partitions")],
            Look(steps=NONE_OR_ORANGE, lowest=0),
            empty="Uploads keep up",
        ),
    )


def _bootstrap() -> tuple[Json, ...]:
    on, off = (_HERE.latest("bootstrap_bytes", feature=feature) for feature in ("on", "off"))
    return (
        stat(
            "Saved by KIP-1023",
            "Share of the bytes that empty followers of all partitions need not copy.",
            f"1 - {on} / ({off} > 0)",
            Look("percentunit", BLUE, decimals=0),
            empty="not known",
        ),
        lines(
            "What empty followers of all partitions would copy",
            "Estimated bytes, of partitions whose sizes are known.",
            [PanelQuery(on, _ON), PanelQuery(off, _OFF)],
            _BYTES,
        ),
        bars(
            "Where an empty follower would start",
            "Partitions by path, with KIP-1023 on and off.",
            "path",
            [
                TableColumn(
                    title,
                    _HERE.latest("partitions_by_bootstrap_path", "path", feature=feature),
                    Look(steps=((None, color),)),
                )
                for feature, title, color in (("on", _ON, "green"), ("off", _OFF, "blue"))
            ],
            along="horizontal",
        ),
    )


def _catching_up() -> tuple[Json, ...]:
    keys = ("topic", "partition", "broker")

    def expr(name: str) -> str:
        return _HERE.latest(f"replica_catch_up_{name}", *keys)

    return (
        lines(
            "Replicas that catch up",
            "Replicas on their way into the ISR, by where they started.",
            [PanelQuery(f"{_HERE.latest('replicas_catching_up', 'path')} > 0", "{{path}}")],
            Look(lowest=0),
            stacked=True,
            empty="No replica is catching up",
        ),
        lines(
            "Bootstrap stuck",
            "Replicas that should catch up and do not move, by reason.",
            [PanelQuery(f"{_HERE.latest('replicas_stuck', 'reason')} > 0", "{{reason}}")],
            Look(lowest=0),
            stacked=True,
            empty="No replica is stuck",
        ),
        table(
            "Slowest to catch up",
            "The 100 replicas with most time left, of those whose time left is known.",
            keys,
            [
                TableColumn(
                    "Left", f"topk(100, {expr('time_left_seconds')})", Look("s", mapping=NEVER)
                ),
                TableColumn(
                    "Copied", expr("progress_ratio"), Look("percentunit", lowest=0, highest=1)
                ),
                TableColumn("Rate", expr("records_per_second"), Look("suffix:rec/s", decimals=1)),
            ],
            sort="Left",
            empty="No replica is catching up",
        ),
    )


def _cold() -> tuple[Json, ...]:
    def line(name: str, legend: str) -> PanelQuery:
        return PanelQuery(_HERE.latest(name), legend)

    return (
        gauges(
            "Cold replicas by broker",
            "Replicas with too little local log to lead (KIP-1303).",
            PanelQuery(_HERE.latest("broker_cold_replicas", "broker"), "broker {{broker}}"),
            Look(steps=((None, "green"), (1, "yellow")), lowest=0),
        ),
        lines(
            "What KIP-1303 would change",
            "Kept: the first replica in its order cannot lead. No-op: "
            "leader balancing visits the partition and moves nothing, since replica 0 is cold.",
            [
                line("partitions_leader_cold", "led by a cold replica"),
                line("partitions_cold_leader_kept", "cold leader kept"),
                line("partitions_balancer_noop", "balancing is a no-op"),
            ],
            Look(lowest=0),
        ),
    )


def _consumers() -> tuple[Json, ...]:
    return (
        gauges(
            "Cold reads by broker",
            "Partitions for which consumers are sent to the broker and read from remote storage "
            "what another replica has on disk (KIP-392, KIP-1023).",
            PanelQuery(_HERE.latest("broker_cold_read_partitions", "broker"), "broker {{broker}}"),
            Look(steps=((None, "green"), (1, "orange")), lowest=0),
        ),
    )


def _measured() -> tuple[Json, ...]:
    """Panels of the brokers' own metrics."""

    def query(name: str, legend: str = "broker {{broker}}") -> PanelQuery:
        return PanelQuery(_HERE.latest(f"broker_{name}", "broker"), legend)

    return (
        lines(
            "Reads from remote storage",
            "Reads for consumers a second.",
            [query("remote_fetch_requests_per_second")],
            Look("ops", lowest=0),
            empty=_NO_JMX,
        ),
        lines(
            "Bytes read from remote storage",
            "Bytes for consumers a second.",
            [query("remote_fetch_bytes_per_second")],
            Look("Bps", lowest=0),
            empty=_NO_JMX,
        ),
        lines(
            "Failures of remote storage",
            "Reads for consumers, uploads and deletions that failed, a second.",
            [
                query("remote_fetch_errors_per_second", "{{broker}}: reads"),
                query("remote_copy_errors_per_second", "{{broker}}: uploads"),
                query("remote_delete_errors_per_second", "{{broker}}: deletions"),
            ],
            Look("ops", lowest=0),
            empty=_NO_JMX,
        ),
        lines(
            "Remote reads queue",
            "Reads from remote storage that wait for a reader thread.",
            [query("remote_reader_queue_size")],
            Look(lowest=0),
            empty=_NO_JMX,
        ),
        lines(
            "Idle remote readers",
            "Share of time in which the threads that read from remote storage are idle; at 0 reads "
            "queue.",
            [query("remote_reader_idle_ratio")],
            Look("percentunit", ((None, "red"), (0.3, "transparent")), lowest=0, highest=1),
            empty=_NO_JMX,
        ),
        lines(
            "State that followers build from remote storage",
            "Attempts a second of followers to build their leader epochs and producer states "
            "from remote storage, and failed ones: a follower that cannot tries again each second.",
            [
                query("aux_state_builds_per_second", "{{broker}}: attempts"),
                query("aux_state_errors_per_second", "{{broker}}: failed"),
            ],
            Look("ops", lowest=0),
            empty=_NO_JMX,
        ),
        lines(
            "Remote storage takes no uploads",
            "Time since the broker's last upload, while uploads that are due do not come.",
            [PanelQuery(_HERE.latest("uploads_stopped_seconds", "broker"), "broker {{broker}}")],
            Look("s", lowest=0),
            empty="No upload is due",
        ),
        lines(
            "Upload lag, by the twin and by the broker",
            "Bytes that are not uploaded; the broker leaves open segments out.",
            [
                query("upload_lag_bytes", "{{broker}}: twin"),
                query("remote_copy_lag_bytes", "{{broker}}: broker"),
            ],
            _BYTES,
            empty="Nothing is tiered, or Kafka is older than 3.9",
        ),
        table(
            "Metrics of brokers that offsets contradict",
            "Believe the twin's number: what offsets show cannot be more or less than that.",
            ("broker", "metric", "error"),
            [
                TableColumn(
                    "Contradicted",
                    _HERE.latest("broker_metric_contradicted", "broker", "metric", "error"),
                    Look(mapping={"1": ("yes", "orange")}),
                )
            ],
            empty="None, or no metrics of brokers are scraped",
        ),
    )


DASHBOARD: Final = Dashboard(
    uid="kafka-twin-tiered-storage",
    title="Kafka twin / Tiered storage",
    text="What is on disk and what is in remote storage. The variables broker, rack and topic do "
    "not narrow numbers of the whole cluster.",
    variables=(datasource(), cluster(), rack(), broker(), topics(), console()),
    console_view="partitions",
    rows=(
        row(
            "Stored",
            *bands(3, _stored(), across=5),
            band(9, _by_topic(), _by_partition()),
        ),
        row("Upload", band(8, *_upload()), band(8, *stable_offsets.panels(_HERE))),
        row("Replicas that catch up", band(8, *_catching_up(), widths=(7, 7, 10))),
        row("Cold replicas (KIP-1303)", band(8, *_cold(), *_consumers())),
        row(
            "What brokers measure",
            *bands(8, _measured(), across=3),
            is_collapsed=True,
        ),
        row(
            "What KIP-1023 would change",
            band(8, *_bootstrap(), widths=(4, 10, 10)),
            is_collapsed=True,
        ),
    ),
    marked=("Upload lag vs local retention",),
)
