"""The one configuration of all programs: a TOML file, every key overridable by the environment.

``load`` returns a ``Config`` or raises ``ConfigError`` with one line: which file or variable, which
key, what is wrong. Keys are documented in docs/config.toml. Secrets come from the environment or
from the file and are never shown: ``Config.shown`` masks them.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from streaming.runtime.errors import UserError, keep_secret, without_secrets
from streaming.runtime.kafka import iam, kerberos, topic_settings
from streaming.runtime.kafka.oauth import MECHANISM, OAuthError, oauth_of

_BUS_PARTITIONS_AT_LEAST: Final = 4
"""Topics keep their partitions when the query gets more cores later."""

SHARDS_BY_SIZE: Final = 0
"""In place of a number: the collector chooses one that fits the cluster (``bus.shards``)."""

MAX_MESSAGE_BYTES: Final = 1_048_588
"""Of the bus: Kafka's default; set on the topics, since the cluster may have a lower default."""

_INHERITED: Final = -2
_OF_CAPACITY: Final = ("bytes_in_per_s", "bytes_out_per_s", "peak_percent", "disk_bytes")

PREFIX: Final = "KAFKA_TWIN_"
_SECRET = re.compile(r"password|secret|token|oauth_", re.IGNORECASE)
_NO_SECRET = re.compile(r"_(?:file|url)$")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class ConfigError(UserError, ValueError):
    """The configuration cannot be used; the message is for the person who wrote it."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section, in which unknown keys and wrong types are errors."""


class ClusterConfig(_Section, frozen=True):
    """The cluster that is watched, and how to reach it."""

    name: str = "kafka"
    bootstrap: str = "127.0.0.1:9092"
    one_replica_topics: str = ""
    client: dict[str, str | int | bool | float] = msgspec.field(default_factory=dict)


class BusConfig(_Section, frozen=True):
    """The topics between the programs; on the watched cluster unless ``bootstrap`` is set."""

    bootstrap: str = ""
    client: dict[str, str | int | bool | float] = msgspec.field(default_factory=dict)
    prefix: str = "kafka-twin"
    shards: int = 16
    partitions: int = 0
    replication_factor: int = -1
    observations_retention_ms: int = 3_600_000
    topics: topic_settings.BusTopicSettings = topic_settings.BusTopicSettings()


class CollectorConfig(_Section, frozen=True):
    """How often brokers are polled, and how long a poll may take."""

    interval_ms: int = 5_000
    deadline_ms: int = 3_000
    config_interval_ms: int = 60_000
    timestamps: bool = True
    include_topics: str = ".*"
    exclude_topics: str = ""
    metrics_url: str = ""
    metrics_interval_ms: int = 15_000
    metrics_urls: dict[str, str] = msgspec.field(default_factory=dict)
    metrics_user: str = ""
    metrics_password: str = ""
    metrics_password_file: str = ""
    metrics_token: str = ""
    metrics_token_file: str = ""
    metrics_ca: str = ""
    metrics_certificate: str = ""
    metrics_key: str = ""
    groups_interval_ms: int = 30_000
    include_groups: str = ".*"
    exclude_groups: str = ""
    max_group_offsets: int = 200_000
    group_in_use_ms: int = 86_400_000


class TopicThreshold(_Section, frozen=True):
    """KIP-1303 thresholds of the topics whose whole name is ``name`` or matches ``pattern``."""

    name: str = ""
    pattern: str = ""
    local_log_ms: int = -2
    local_log_bytes: int = -2


class EligibilityConfig(_Section, frozen=True):
    """leader.election.eligible.local.log.ms/.bytes of KIP-1303, where Kafka lacks them; -1: off."""

    local_log_ms: int = -1
    local_log_bytes: int = -1
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

    bytes_in_per_s: int = -1
    bytes_out_per_s: int = -1
    peak_percent: int = -1
    disk_bytes: int = -1
    brokers: dict[str, BrokerCapacity] = msgspec.field(default_factory=dict)

    def of_broker(self, broker: int) -> dict[str, int]:
        """The settings of that broker; -1 where it is off."""
        own = self.brokers.get(str(broker), BrokerCapacity())
        each = {name: getattr(own, name) for name in _OF_CAPACITY}
        return {
            name: getattr(self, name) if value == _INHERITED else value
            for name, value in each.items()
        }


class DiskConfig(_Section, frozen=True):
    """How long before a disk is full somebody is warned, and is paged; 0: never."""

    warn_before_ms: int = 86_400_000
    page_before_ms: int = 14_400_000


class ProposalsConfig(_Section, frozen=True):
    """Kafka improvement proposals that no Kafka has yet; off costs nothing."""

    kip1303: bool = True
    kip501: bool = True
    kip501_fetch_processing_max_ms: int = -1


class QueryConfig(_Section, frozen=True):
    """The Spark query."""

    checkpoint: str = ".kafka-twin/checkpoint"
    checkpoint_shared: bool = False
    master: str = "local[2]"
    trigger_ms: int = 1_000
    state_partitions: int = 0
    driver_memory: str = "1g"
    max_offsets_per_trigger: int = 1_000
    remote_log_metadata: bool = True


class ArchiveConfig(_Section, frozen=True):
    """The tables of the past that ``kafka-twin archive`` writes; empty ``path``: no archive."""

    path: str = ""
    measurements_ms: int = 60_000
    retention_ms: int = 2_592_000_000
    trigger_ms: int = 60_000
    checkpoint: str = ""
    driver_memory: str = "512m"


class ExporterConfig(_Section, frozen=True):
    """The HTTP port of the exporter, and the granularity of its metrics."""

    host: str = "127.0.0.1"
    port: int = 9410
    granularity: Literal["cluster", "topic", "partition"] = "partition"
    max_series: int = 500_000
    max_series_at_risk: int = 1_000_000
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
        return _listed(self.mcp_hosts)


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
        return _listed(self.proxies)

    @property
    def operator_names(self) -> list[str]:
        """Users who are operators."""
        return _listed(self.operators)


class AdmissionConfig(_Section, frozen=True):
    """The webhook that lets broker pods go or stay."""

    host: str = "::"
    port: int = 9443
    certificate: str = ""
    key: str = ""
    exporter: str = "http://127.0.0.1:9410"
    terms: str = ""
    when_unknown: Literal["refuse", "admit"] = "refuse"
    deadline_ms: int = 20_000
    selector: str = ""
    first_broker: int = 0
    kubernetes: str = ""
    account: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the pods of brokers, beside those of Strimzi."""
        pairs = (part.partition("=") for part in _listed(self.selector))
        return {name: value for name, _, value in pairs}

    @property
    def gate_terms(self) -> dict[str, str]:
        """Parameters of the gate."""
        pairs = (part.partition("=") for part in self.terms.split("&") if part)
        return {name: value for name, _, value in pairs}


class GrafanaConfig(_Section, frozen=True):
    """The Grafana for dashboards and annotations; empty ``url``: none."""

    url: str = ""
    token: str = ""
    user: str = ""
    password: str = ""
    folder: str = "kafka-twin"
    annotations: bool = True
    timeout_ms: int = 5_000


class HealthConfig(_Section, frozen=True):
    """The folder of liveness files; empty: none are written."""

    folder: str = ""


class GateConfig(_Section, frozen=True):
    """What is kept of the questions that the gate answered."""

    record: bool = False


class MetricsConfig(_Section, frozen=True):
    """Ports at which programs serve metrics about themselves; 0: at none."""

    host: str = "127.0.0.1"
    collector_port: int = 0
    query_port: int = 0
    tap_port: int = 0
    archive_port: int = 0
    admission_port: int = 0


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
        return _mask(msgspec.to_builtins(self))


def load(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """Read the file (if any), lay the environment over it, check every value.

    A file of defaults that ``KAFKA_TWIN_DEFAULTS`` names is laid below both: what an image has to
    set, and its user may set otherwise.

    Raises:
        ConfigError: one line with file or variable, key and reason.
    """
    environment = os.environ if environment is None else environment
    data, origin = _read(path)
    if below := environment.get(DEFAULTS):
        defaults, below_origin = _read(Path(below))
        _convert(defaults, below_origin)  # an error of theirs is not one of the file
        data = _laid_over(defaults, data)
    for name, section, key, kind in _environment_names():
        if name in environment:
            target = data.setdefault(section, {})
            if not isinstance(target, dict):
                raise ConfigError(f"{origin}: {section} must be a table, e.g. [{section}]")
            target[key] = _parsed(name, environment[name], kind)
            _convert(data, name)
    _lay_bus_topics(data, environment)
    names = {name for name, *_ in _environment_names()} | _NOT_CONFIG
    for name in environment:
        is_free = name.startswith((*_CLIENT_PREFIXES, _BUS_TOPICS))
        if name.startswith(PREFIX) and name not in names and not is_free:
            raise ConfigError(
                f"environment: {name} is not a setting; see docs/config.toml for the keys"
            )
    for name, value in environment.items():
        for prefix in _CLIENT_PREFIXES:
            if name.startswith(prefix):
                section = prefix.removeprefix(PREFIX).split("_")[0].lower()
                client = data.setdefault(section, {}).setdefault("client", {})
                client[name.removeprefix(prefix).lower()] = value
    bus = data.setdefault("bus", {})
    if isinstance(bus, dict):  # a person leaves the number to the twin; a program has one
        bus.setdefault("shards", SHARDS_BY_SIZE)
    for secret in _secrets(data):  # before anything can be said of the values
        keep_secret(secret)
    config = _convert(data, origin)
    _check(config, origin)
    return config


def given_by(environment: Mapping[str, str]) -> list[str]:
    """The variables that ``load`` lays over the file."""
    names = (name for name in environment if name.startswith(PREFIX))
    return sorted(name for name in names if name not in _NOT_CONFIG)


DEFAULTS: Final = f"{PREFIX}DEFAULTS"
_NOT_CONFIG: Final = {DEFAULTS, f"{PREFIX}CONFIG", f"{PREFIX}CACHE", f"{PREFIX}IVY_SETTINGS"}
_LABEL: Final = re.compile(r"[\w./-]+=[\w.-]*")
_CLIENT_PREFIXES: Final = (f"{PREFIX}CLUSTER_CLIENT_", f"{PREFIX}BUS_CLIENT_")
_BUS_TOPICS: Final = f"{PREFIX}BUS_TOPICS_"


def _lay_bus_topics(data: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Lay ``KAFKA_TWIN_BUS_TOPICS_SNAPSHOTS_SEGMENT_MS`` over ``bus.topics.snapshots``."""
    for name, value in environment.items():
        if name.startswith(_BUS_TOPICS):
            named = topic_settings.from_variable(name.removeprefix(_BUS_TOPICS))
            if named is None:
                raise ConfigError(
                    f"environment: {name} names no setting of a bus topic, as "
                    f"{_BUS_TOPICS}SNAPSHOTS_SEGMENT_MS does"
                )
            topic, setting = named
            table = data
            for part in ("bus", "topics", topic):
                table = table.setdefault(part, {})
                if not isinstance(table, dict):
                    return  # what is there instead is refused as a whole
            table[setting] = value


def _read(path: Path | None) -> tuple[dict[str, Any], str]:
    if path is None:
        return {}, "environment"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from None
    topics = data["bus"].get("topics") if isinstance(data.get("bus"), dict) else None
    if isinstance(topics, dict):
        for name, table in topics.items():
            topics[name] = topic_settings.flattened(table) if isinstance(table, dict) else table
    return data, str(path)


def _laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both as one: of two tables every key, of anything else what is above."""
    both = {**below, **above}
    for key, value in below.items():
        if isinstance(value, dict) and isinstance(over := above.get(key), dict):
            both[key] = _laid_over(value, over)
    return both


def _convert(data: dict[str, Any], origin: str) -> Config:
    try:
        return msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        key = place.strip("`").removeprefix("$.") or "top level"
        raise ConfigError(f"{origin}: {key}: {reason}") from None


def _cores(master: str) -> int:
    """Cores of a local master of Spark; 0 if it is none."""
    local = re.match(r"local\[(\d+|\*)", master)
    if local is None:
        return 1 if master == "local" else 0
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])


def _environment_names() -> Iterator[tuple[str, str, str, Any]]:
    for section in msgspec.structs.fields(Config):
        for field in msgspec.structs.fields(section.type):
            if field.name not in ("client", "topics", "metrics_urls", "brokers"):
                yield (
                    f"{PREFIX}{section.name}_{field.name}".upper(),
                    section.name,
                    field.name,
                    field.type,
                )


def _parsed(name: str, text: str, kind: Any) -> Any:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"environment: {name}: {error}") from None


_NO_USER: Final = "must hold no user and no password before the host: they are not sent"

_BOTH_CLIENTS: Final = (
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", MECHANISM, iam.MECHANISM, kerberos.MECHANISM,
)  # fmt: skip
"""SASL mechanisms that the twin configures for both kafka-python and Spark's Java client."""


def _check(config: Config, origin: str) -> None:
    """Refuse values that have the right type and make no sense."""

    def need(ok: bool, key: str, reason: str) -> None:
        if not ok:
            raise ConfigError(f"{origin}: {key}: {reason}")

    c = config
    need(bool(c.cluster.name), "cluster.name", "must not be empty; it labels every series")
    need("/" not in c.cluster.name, "cluster.name", "must not contain '/'")
    need(bool(c.cluster.bootstrap), "cluster.bootstrap", "must name at least one host:port")
    for key, value in (
        ("cluster.bootstrap", c.cluster.bootstrap),
        ("bus.bootstrap", c.bus.bootstrap),
    ):
        for address in filter(None, value.split(",")):
            host, _, port = address.strip().rpartition(":")
            need(bool(host) and port.isdigit() and 0 < int(port) < 65536, key,
                 f"{address.strip()!r} is not host:port")  # fmt: skip
    for key, client in (("cluster", c.cluster.client), ("bus", c.bus.client)):
        mechanism = client.get("sasl_mechanism", _BOTH_CLIENTS[0])
        need(mechanism in _BOTH_CLIENTS, f"{key}.client.sasl_mechanism",
             f"{mechanism!r} is none of {', '.join(_BOTH_CLIENTS)}, which work for both Kafka "
             "clients of the twin: kafka-python, and the Java client of the query")  # fmt: skip
        try:
            oauth_of(client)
            iam.iam_of(client, c.bus.bootstrap if key == "bus" else c.cluster.bootstrap)
            kerberos.kerberos_of(client)
        except (OAuthError, iam.IamError, kerberos.KerberosError) as error:
            raise ConfigError(f"{origin}: {key}.client.{error}") from None
    need(_TOPIC_NAME.fullmatch(c.bus.prefix) is not None and len(c.bus.prefix) < 230, "bus.prefix",
         "must be letters, digits, '.', '_' or '-'")  # fmt: skip
    need(0 <= c.bus.shards <= 4096, "bus.shards",
         "must be 1 to 4096, or 0 for one that fits the cluster's size")  # fmt: skip
    need(0 <= c.bus.partitions <= 1024, "bus.partitions",
         "must be 1 to 1024, or 0 for one for each core of query.master, at least 4")  # fmt: skip
    need(c.bus.replication_factor == -1 or c.bus.replication_factor >= 1, "bus.replication_factor",
         "must be at least 1, or -1 for the broker's default")  # fmt: skip
    need(c.bus.observations_retention_ms >= 60_000, "bus.observations_retention_ms",
         "must be at least 60000: a lost checkpoint is rebuilt from what is kept")  # fmt: skip
    for key, reason in topic_settings.problems(c.bus.topics, MAX_MESSAGE_BYTES):
        need(False, f"bus.topics.{key}", reason)
    need(c.collector.interval_ms >= 200, "collector.interval_ms", "must be at least 200")
    need(c.collector.deadline_ms >= 50, "collector.deadline_ms", "must be at least 50")
    need(c.collector.config_interval_ms >= 1000, "collector.config_interval_ms",
         "must be at least 1000")  # fmt: skip
    need(_compiles(c.cluster.one_replica_topics), "cluster.one_replica_topics",
         f"{c.cluster.one_replica_topics!r} is not a regular expression")  # fmt: skip
    for key, pattern in (
        ("include_topics", c.collector.include_topics),
        ("exclude_topics", c.collector.exclude_topics),
        ("include_groups", c.collector.include_groups),
        ("exclude_groups", c.collector.exclude_groups),
    ):
        need(_compiles(pattern), f"collector.{key}", f"{pattern!r} is not a regular expression")
    need(c.collector.metrics_interval_ms >= 200, "collector.metrics_interval_ms",
         "must be at least 200")  # fmt: skip
    need(c.collector.groups_interval_ms == 0 or c.collector.groups_interval_ms >= 200,
         "collector.groups_interval_ms", "must be at least 200, or 0 for no groups")  # fmt: skip
    need(c.collector.group_in_use_ms >= 0, "collector.group_in_use_ms", "must not be negative")
    need(c.collector.max_group_offsets >= 1, "collector.max_group_offsets", "must be at least 1")
    for broker in c.collector.metrics_urls:
        need(re.fullmatch(r"0|[1-9][0-9]*", broker) is not None, "collector.metrics_urls",
             f"{broker!r} is not the id of a broker")  # fmt: skip
    urls = {f"metrics_urls.{broker}": url for broker, url in c.collector.metrics_urls.items()}
    if c.collector.metrics_url:
        urls["metrics_url"] = c.collector.metrics_url
    for key, url in urls.items():
        need(not _has_user(url), f"collector.{key}", _NO_USER)
        need(_is_url(url), f"collector.{key}", f"{url!r} is not like http://{{host}}:7071/metrics")
    for key, reason in _metrics_login_faults(c.collector):
        need(False, f"collector.{key}", reason)
    for i, topic in enumerate(c.eligibility.topics):
        key = f"eligibility.topics[{i}]"
        need(bool(topic.name) != bool(topic.pattern), key, "needs either name or pattern")
        need(
            _compiles(topic.pattern),
            f"{key}.pattern",
            f"{topic.pattern!r} is not a regular expression",
        )
        need(min(topic.local_log_ms, topic.local_log_bytes) >= -2, key,
             "thresholds are positive, -1 (off) or -2 (inherit)")  # fmt: skip
    need(min(c.eligibility.local_log_ms, c.eligibility.local_log_bytes) >= -1, "eligibility",
         "thresholds are positive, or -1 (off)")  # fmt: skip
    for key in _OF_CAPACITY:
        need(_is_capacity(getattr(c.capacity, key)), f"capacity.{key}",
             "must be positive, or -1 (off)")  # fmt: skip
    need(min(c.disk.warn_before_ms, c.disk.page_before_ms) >= 0, "disk",
         "times are positive, or 0 (never)")  # fmt: skip
    for broker, own in c.capacity.brokers.items():
        need(re.fullmatch(r"0|[1-9][0-9]*", broker) is not None, "capacity.brokers",
             f"{broker!r} is not the id of a broker")  # fmt: skip
        for key in _OF_CAPACITY:
            value = getattr(own, key)
            need(_is_capacity(value) or value == _INHERITED, f"capacity.brokers.{broker}.{key}",
                 "must be positive, -1 (off) or -2 (as the others)")  # fmt: skip
    limit_ms = c.proposals.kip501_fetch_processing_max_ms
    need(limit_ms == -1 or limit_ms > 0, "proposals.kip501_fetch_processing_max_ms",
         "must be positive, or -1 for replica.lag.time.max.ms")  # fmt: skip
    need(re.fullmatch(r"(local(\[.+\])?)?", c.query.master) is not None, "query.master",
         f"{c.query.master!r} is not local; leave it empty, and start the query with spark-submit "
         f"--master {c.query.master} (docs/spark.md)")  # fmt: skip
    need(c.query.trigger_ms >= 100, "query.trigger_ms", "must be at least 100")
    need(c.query.state_partitions >= 0, "query.state_partitions",
         "must be at least 1, or 0 for one for each core")  # fmt: skip
    need(re.fullmatch(r"[1-9]\d*[mg]", c.query.driver_memory) is not None, "query.driver_memory",
         "must look like 512m or 2g")  # fmt: skip
    need(c.query.max_offsets_per_trigger >= c.bus.shards, "query.max_offsets_per_trigger",
         "must be at least bus.shards")  # fmt: skip
    need(1_000 <= c.archive.measurements_ms <= 3_600_000, "archive.measurements_ms",
         "must be 1000 to 3600000: each hour begins with whole states")  # fmt: skip
    need(c.archive.retention_ms >= 7_200_000, "archive.retention_ms",
         "must be at least 7200000: hours are dropped as a whole")  # fmt: skip
    need(c.archive.trigger_ms >= 1_000, "archive.trigger_ms", "must be at least 1000")
    need(re.fullmatch(r"[1-9]\d*[mg]", c.archive.driver_memory) is not None,
         "archive.driver_memory", "must look like 512m or 2g")  # fmt: skip
    need(0 <= c.exporter.port < 65536, "exporter.port", "must be 0 to 65535")
    tokens = (c.exporter.mcp_token, c.access.token, c.access.operator_token)
    need(
        c.exporter.mcp is not True or c.exporter.is_on_loopback or any(tokens),
        "exporter.mcp_token",
        f"must be set: exporter.mcp is true, and others reach {c.exporter.host}",
    )
    for text in c.access.proxy_networks:
        need(_is_network(text), "access.proxies",
             f"{text!r} is no address or network like 10.0.0.7 or 10.0.0.0/24")  # fmt: skip
    need(bool(c.access.proxies) or not c.access.operators, "access.operators",
         "names users of a proxy: access.proxies must say which proxy is believed")  # fmt: skip
    for name, section in (("access", c.access), ("admission", c.admission)):
        need(bool(section.certificate) == bool(section.key), f"{name}.key",
             "certificate and key belong together: set both or neither")  # fmt: skip
    need(0 <= c.admission.port < 65536, "admission.port", "must be 0 to 65535")
    for key, url in (
        ("admission.exporter", c.admission.exporter),
        ("admission.kubernetes", c.admission.kubernetes),
        ("grafana.url", c.grafana.url),
    ):
        need(not _has_user(url), key, _NO_USER)
    need(_is_url(c.admission.exporter), "admission.exporter",
         f"{c.admission.exporter!r} is not like http://kafka-twin-exporter:9410")  # fmt: skip
    need(not c.admission.kubernetes or _is_url(c.admission.kubernetes), "admission.kubernetes",
         f"{c.admission.kubernetes!r} is not like https://10.0.0.1:443")  # fmt: skip
    need(100 <= c.admission.deadline_ms <= 29_000, "admission.deadline_ms",
         "must be 100 to 29000: the API server waits for 30 s at most")  # fmt: skip
    need(all(_LABEL.fullmatch(part) for part in _listed(c.admission.selector)),
         "admission.selector", "must be labels like app=kafka, comma-separated")  # fmt: skip
    need(re.fullmatch(r"([a-z_0-9]+=[a-z0-9]+(&|$))*", c.admission.terms) is not None,
         "admission.terms", "must be parameters like margin=1&allow_rf1=true")  # fmt: skip
    for key in ("collector_port", "query_port", "tap_port", "archive_port", "admission_port"):
        need(0 <= getattr(c.metrics, key) < 65536, f"metrics.{key}", "must be 0 (off) to 65535")
    need(not c.grafana.url or re.fullmatch(r"https?://[^/\s]+(/\S*)?", c.grafana.url) is not None,
         "grafana.url", "must be like https://grafana.example.org")  # fmt: skip
    need(bool(c.grafana.folder), "grafana.folder", "must not be empty")
    need(c.grafana.timeout_ms >= 100, "grafana.timeout_ms", "must be at least 100")
    need(c.exporter.max_series >= 0, "exporter.max_series", "must not be negative")
    need(c.exporter.max_series_at_risk >= 0, "exporter.max_series_at_risk", "must not be negative")


def _metrics_login_faults(collector: CollectorConfig) -> Iterator[tuple[str, str]]:
    """Settings of the login at exporters that contradict each other, and the reason."""
    c = collector
    if c.metrics_password and c.metrics_password_file:
        yield "metrics_password_file", "set this or metrics_password"
    if c.metrics_token and c.metrics_token_file:
        yield "metrics_token_file", "set this or metrics_token"
    if bool(c.metrics_user) != bool(c.metrics_password or c.metrics_password_file):
        yield "metrics_user", "belongs to metrics_password or metrics_password_file: set both"
    if c.metrics_user and (c.metrics_token or c.metrics_token_file):
        yield "metrics_user", "set this or metrics_token"
    if ":" in c.metrics_user:
        yield "metrics_user", "must not contain ':' (RFC 7617)"
    if re.search(r"[\x00-\x1f\x7f]", c.metrics_token):
        yield "metrics_token", "must be one line"
    if c.metrics_key and not c.metrics_certificate:
        yield "metrics_key", "belongs to metrics_certificate: set both"


def _listed(text: str) -> list[str]:
    """The parts of a text between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _is_capacity(value: int) -> bool:
    """Off, or a number of bytes, of bytes a second or of percent."""
    return value == -1 or 0 < value < 1 << 62


def _is_url(text: str) -> bool:
    """A URL once {host}, {port} and {broker} are filled in."""
    filled = re.sub(r"\{(host|port|broker)\}", "1", text)
    try:
        url = urlsplit(filled)
        return (
            url.scheme in ("http", "https")
            and bool(url.hostname)
            and url.port != 0
            and re.search(r"[\s{}]", filled) is None
            and filled.isascii()
        )
    except ValueError:
        return False


def _has_user(url: str) -> bool:
    """There is something before the host."""
    return "@" in url.partition("//")[2].partition("/")[0]


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _secrets(value: Any, key: str = "") -> Iterator[str]:
    """The values of all keys that name a secret, and the passwords of URLs."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _secrets(each, str(name))
    elif isinstance(value, list):
        for each in value:
            yield from _secrets(each, key)
    elif _is_secret(key):
        yield str(value)
    elif isinstance(value, str) and _has_user(value):
        yield value.partition("//")[2].partition("@")[0].rpartition(":")[2]


def _is_secret(key: str) -> bool:
    return bool(_SECRET.search(key)) and not _NO_SECRET.search(key)


def _mask(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _mask(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_mask(each, key) for each in value]
    if _is_secret(key) and value != "":
        return "***"
    return without_secrets(value) if isinstance(value, str) else value
