"""The one configuration of all programs, by sections; every key with its default and its range.

Keys are documented in docs/config.toml. ``configuration.loading`` reads it from a file and the
environment, and ``configuration.checks`` has what no range can say.
"""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from typing import Annotated, Any, Final, Literal

import msgspec

from streaming.runtime.configuration.ranges import (
    InheritedThreshold,
    Limit,
    Memory,
    NotEmpty,
    NotNegative,
    Port,
    Threshold,
    at_least,
    between,
    like,
)
from streaming.runtime.configuration.secret_keys import masked
from streaming.runtime.errors import UserError
from streaming.runtime.kafka import topic_settings

_BUS_PARTITIONS_AT_LEAST: Final = 4
"""Topics keep their partitions when the query gets more cores later."""

SHARDS_BY_SIZE: Final = 0
"""In place of a number: the collector chooses one that fits the cluster (``bus.shards``)."""

MAX_MESSAGE_BYTES: Final = 1_048_588
"""Of the bus: Kafka's default; set on the topics, since the cluster may have a lower default."""

_INHERITED: Final = -2
OF_CAPACITY: Final = ("bytes_in_per_s", "bytes_out_per_s", "peak_percent", "disk_bytes")

_TOPIC: Final = "[a-zA-Z0-9._-]{1,229}"
_HTTP: Final = r"(https?://[^/\s]+(/\S*)?)?"
_TERMS: Final = r"([a-z_0-9]+=[a-z0-9]+(&|\Z))*"
_LABELS: Final = r"[,\s]*([\w./-]+=[\w.-]*(\s*,[,\s]*|\s*\Z))*"


class ConfigError(UserError, ValueError):
    """The configuration cannot be used; the message is for the person who wrote it."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section, in which unknown keys and wrong types are errors."""


class ClusterConfig(_Section, frozen=True):
    """The cluster that is watched, and how to reach it."""

    name: Annotated[str, like("[^/]+", "be a text without '/': it labels every series")] = "kafka"
    bootstrap: NotEmpty = "127.0.0.1:9092"
    one_replica_topics: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    client: dict[str, str | int | bool | float] = msgspec.field(default_factory=dict)


class BusConfig(_Section, frozen=True):
    """The topics between the programs; on the watched cluster unless ``bootstrap`` is set."""

    bootstrap: str = ""
    client: dict[str, str | int | bool | float] = msgspec.field(default_factory=dict)
    prefix: Annotated[str, like("[a-zA-Z0-9._-]{1,229}", "be letters, digits, '.', '_' or '-'")] = (
        "kafka-twin"
    )
    shards: Annotated[int, between(0, 4_096, "; 0: one that fits the cluster's size")] = 16
    partitions: Annotated[int, between(0, 1_024, "; 0: one for each core of query.master")] = 0
    replication_factor: Annotated[int, at_least(-1, "; -1: the broker's default")] = -1
    observations_retention_ms: Annotated[
        int, at_least(60_000, ": a lost checkpoint is rebuilt from what is kept")
    ] = 3_600_000
    topics: topic_settings.BusTopicSettings = topic_settings.BusTopicSettings()


class CollectorConfig(_Section, frozen=True):
    """How often brokers are polled, and how long a poll may take."""

    interval_ms: Annotated[int, at_least(200)] = 5_000
    deadline_ms: Annotated[int, at_least(50)] = 3_000
    config_interval_ms: Annotated[int, at_least(1_000)] = 60_000
    timestamps: bool = True
    include_topics: str = ".*"
    exclude_topics: str = ""
    metrics_url: str = ""
    metrics_interval_ms: Annotated[int, at_least(200)] = 15_000
    metrics_urls: dict[str, str] = msgspec.field(default_factory=dict)
    metrics_user: str = ""
    metrics_password: str = ""
    metrics_password_file: str = ""
    metrics_token: str = ""
    metrics_token_file: str = ""
    metrics_ca: str = ""
    metrics_certificate: str = ""
    metrics_key: str = ""
    groups_interval_ms: Annotated[int, at_least(0, "; 0: no groups")] = 30_000
    include_groups: str = ".*"
    exclude_groups: str = ""
    max_group_offsets: Annotated[int, at_least(1)] = 200_000
    group_in_use_ms: NotNegative = 86_400_000


class TopicThreshold(_Section, frozen=True):
    """KIP-1303 thresholds of the topics whose whole name is ``name`` or matches ``pattern``."""

    name: str = ""
    pattern: str = ""
    local_log_ms: InheritedThreshold = -2
    local_log_bytes: InheritedThreshold = -2


class EligibilityConfig(_Section, frozen=True):
    """leader.election.eligible.local.log.ms/.bytes of KIP-1303, where Kafka lacks them; -1: off."""

    local_log_ms: Threshold = -1
    local_log_bytes: Threshold = -1
    topics: list[TopicThreshold] = msgspec.field(default_factory=list)


class BrokerCapacity(_Section, frozen=True):
    """What one broker can carry; -2: as the others, -1: not judged."""

    bytes_in_per_s: int = -2
    bytes_out_per_s: int = -2
    peak_percent: int = -2
    disk_bytes: int = -2


class CapacityConfig(_Section, frozen=True):
    """Bytes a second that a broker can take from producers and serve to consumers; -1: off.

    ``peak_percent`` counts where no bytes are set: of the most that it carried in the last 7 days.
    ``disk_bytes`` is the size of its log volumes, where the broker does not say it.
    """

    bytes_in_per_s: Limit = -1
    bytes_out_per_s: Limit = -1
    peak_percent: Limit = -1
    disk_bytes: Limit = -1
    brokers: dict[str, BrokerCapacity] = msgspec.field(default_factory=dict)

    def of_broker(self, broker: int) -> dict[str, int]:
        """The settings of that broker; -1 where it is off."""
        own = self.brokers.get(str(broker), BrokerCapacity())
        each = {name: getattr(own, name) for name in OF_CAPACITY}
        return {
            name: getattr(self, name) if value == _INHERITED else value
            for name, value in each.items()
        }


class DiskConfig(_Section, frozen=True):
    """How long before a disk is full somebody is warned, and is paged; 0: never."""

    warn_before_ms: NotNegative = 86_400_000
    page_before_ms: NotNegative = 14_400_000


class ProposalsConfig(_Section, frozen=True):
    """Kafka improvement proposals that no Kafka has yet; off costs nothing."""

    kip1303: bool = True
    kip501: bool = True
    kip501_fetch_processing_max_ms: Annotated[
        int, at_least(-1, "; -1: replica.lag.time.max.ms")
    ] = -1


class QueryConfig(_Section, frozen=True):
    """The Spark query."""

    checkpoint: str = ".kafka-twin/checkpoint"
    checkpoint_shared: bool = False
    master: str = "local[2]"
    trigger_ms: Annotated[int, at_least(100)] = 1_000
    state_partitions: Annotated[int, at_least(0, "; 0: one for each core")] = 0
    driver_memory: Memory = "1g"
    max_offsets_per_trigger: int = 1_000
    remote_log_metadata: bool = True


class ArchiveConfig(_Section, frozen=True):
    """The tables of the past that ``kafka-twin archive`` writes; empty ``path``: no archive."""

    path: str = ""
    measurements_ms: Annotated[
        int, between(1_000, 3_600_000, ": each hour begins with whole states")
    ] = 60_000
    retention_ms: Annotated[int, at_least(7_200_000, ": hours are dropped as a whole")] = (
        2_592_000_000
    )
    trigger_ms: Annotated[int, at_least(1_000)] = 60_000
    checkpoint: str = ""
    driver_memory: Memory = "512m"


class ExporterConfig(_Section, frozen=True):
    """The HTTP port of the exporter, and the granularity of its metrics."""

    host: str = "127.0.0.1"
    port: Port = 9410
    granularity: Literal["cluster", "topic", "partition"] = "partition"
    max_series: NotNegative = 500_000
    max_series_at_risk: NotNegative = 1_000_000
    compatibility: Literal["", "kafka_exporter"] = ""
    mcp: Literal["auto"] | bool = "auto"
    mcp_token: str = ""
    mcp_hosts: str = ""

    @property
    def is_on_loopback(self) -> bool:
        """Whether only this machine reaches the port."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def mcp_host_names(self) -> list[str]:
        """Names of this server under which /mcp answers, beside those of loopback."""
        return listed(self.mcp_hosts)


class AccessConfig(_Section, frozen=True):
    """Who may ask the exporter, and its certificate; all empty: everybody, and no TLS."""

    token: str = ""
    operator_token: str = ""
    proxies: str = ""
    operators: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def proxy_networks(self) -> list[str]:
        """Addresses and networks of the proxies that are believed."""
        return listed(self.proxies)

    @property
    def operator_names(self) -> list[str]:
        """Users who are operators."""
        return listed(self.operators)


class AdmissionConfig(_Section, frozen=True):
    """The webhook that lets broker pods go or stay."""

    host: str = "::"
    port: Port = 9443
    certificate: str = ""
    key: str = ""
    exporter: str = "http://127.0.0.1:9410"
    terms: Annotated[str, like(_TERMS, "be parameters like margin=1&allow_rf1=true")] = ""
    when_unknown: Literal["refuse", "admit"] = "refuse"
    deadline_ms: Annotated[int, between(100, 29_000, ": the API server waits for 30 s at most")] = (
        20_000
    )
    selector: Annotated[str, like(_LABELS, "be labels like app=kafka, comma-separated")] = ""
    first_broker: int = 0
    kubernetes: str = ""
    account: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the pods of brokers, beside those of Strimzi."""
        pairs = (part.partition("=") for part in listed(self.selector))
        return {name: value for name, _, value in pairs}

    @property
    def gate_terms(self) -> dict[str, str]:
        """Parameters of the gate."""
        pairs = (part.partition("=") for part in self.terms.split("&") if part)
        return {name: value for name, _, value in pairs}


class GrafanaConfig(_Section, frozen=True):
    """The Grafana for dashboards and annotations; empty ``url``: none."""

    url: Annotated[str, like(_HTTP, "be like https://grafana.example.org")] = ""
    token: str = ""
    user: str = ""
    password: str = ""
    folder: NotEmpty = "kafka-twin"
    annotations: bool = True
    timeout_ms: Annotated[int, at_least(100)] = 5_000


class FleetConfig(_Section, frozen=True):
    """Where clusters are configured beside ``[clusters.NAME]``, and whether collectors divide them.

    ``folder`` has a file of each cluster. ``collector_group`` names a consumer group, and a topic.
    """

    folder: str = ""
    collector_group: Annotated[
        str, like("[a-zA-Z0-9._-]{0,249}", "be letters, digits, '.', '_' or '-'; empty: none")
    ] = ""


class HealthConfig(_Section, frozen=True):
    """The folder of liveness files; empty: none are written."""

    folder: str = ""


class GateConfig(_Section, frozen=True):
    """What is kept of the questions that the gate answered."""

    record: bool = False


class MetricsConfig(_Section, frozen=True):
    """Ports at which programs serve metrics about themselves; 0: at none."""

    host: str = "127.0.0.1"
    collector_port: Port = 0
    query_port: Port = 0
    tap_port: Port = 0
    archive_port: Port = 0
    admission_port: Port = 0


class Config(_Section, frozen=True):
    """The whole configuration."""

    cluster: ClusterConfig = ClusterConfig()
    bus: BusConfig = BusConfig()
    collector: CollectorConfig = CollectorConfig()
    eligibility: EligibilityConfig = EligibilityConfig()
    capacity: CapacityConfig = CapacityConfig()
    disk: DiskConfig = DiskConfig()
    proposals: ProposalsConfig = ProposalsConfig()
    query: QueryConfig = QueryConfig()
    archive: ArchiveConfig = ArchiveConfig()
    exporter: ExporterConfig = ExporterConfig()
    access: AccessConfig = AccessConfig()
    gate: GateConfig = GateConfig()
    admission: AdmissionConfig = AdmissionConfig()
    metrics: MetricsConfig = MetricsConfig()
    grafana: GrafanaConfig = GrafanaConfig()
    health: HealthConfig = HealthConfig()
    fleet: FleetConfig = FleetConfig()

    @property
    def bus_bootstrap(self) -> str:
        """The bootstrap of the bus: its own, else the watched cluster's."""
        return self.bus.bootstrap or self.cluster.bootstrap

    @property
    def bus_partitions(self) -> int:
        """Partitions that the bus topics are created with."""
        return self.bus.partitions or max(_BUS_PARTITIONS_AT_LEAST, _cores(self.query.master))

    @property
    def bus_client(self) -> dict[str, Any]:
        """Client settings for the bus; the watched cluster's where it is the same cluster."""
        return dict(self.bus.client if self.bus.bootstrap else self.cluster.client)

    def shown(self) -> dict[str, Any]:
        """The configuration as plain data with every secret masked."""
        return masked(msgspec.to_builtins(self))


def _cores(master: str) -> int:
    """Cores of a local master of Spark; 0 if it is none."""
    local = re.match(r"local\[(\d+|\*)", master)
    if local is None:
        return 1 if master == "local" else 0
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])


def listed(text: str) -> list[str]:
    """The parts of a text between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
