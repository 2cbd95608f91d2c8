"""The layout of a local cluster, and the configuration files of its nodes.

Knows ids, ports and settings. Starts no processes; ``local_cluster.py`` does.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from streaming.runtime.errors import UserError
from streaming.runtime.kafka.uuids import uuid_text

HOST: Final = "127.0.0.1"
MAX_NODES: Final = 10  # broker ports are base+1..10, controllers 11..20, agents 21..30
HIGHEST_PORT: Final = 32_767  # above, Linux assigns ports to outgoing connections
_RACKS: Final = "abcdefghij"
_SAVED: Final = "cluster.json"


class ClusterError(UserError):
    """The local cluster cannot do this; one line says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """A cluster's parameters: enough to find its nodes again from another process.

    Nodes 1 to ``nodes`` are broker and controller; the ``brokers`` after them are brokers only, so
    losing any of those does not affect the quorum.
    """

    home: Path
    nodes: int = 3
    brokers: int = 0
    base_port: int = 29_090
    settings: dict[str, str] = field(default_factory=dict)
    heap: str = "256m"
    java_opts: tuple[str, ...] = ()
    metrics: bool = True  # each node runs the JMX exporter as a Java agent
    release: str = ""  # the folder that declares the jars of another Kafka; empty for our own
    request_logs: bool = False  # each node logs its requests, for a tap to read
    log_dirs: int = 1  # of each node
    racks: int = MAX_NODES  # nodes are spread over so many

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.brokers < 0 or self.nodes + self.brokers > MAX_NODES:
            raise ClusterError(
                f"--nodes {self.nodes} --brokers {self.brokers}: a local cluster has at least one "
                f"node and at most {MAX_NODES} of both"
            )
        if self.log_dirs < 1:
            raise ClusterError("a node has at least one log directory")
        if not 1 <= self.racks <= MAX_NODES:
            raise ClusterError(f"a local cluster has 1 to {MAX_NODES} racks, not {self.racks}")
        highest = HIGHEST_PORT - 3 * MAX_NODES
        if not 1024 <= self.base_port <= highest:
            raise ClusterError(f"base port {self.base_port} is not between 1024 and {highest}")
        if "," in str(self.home):
            raise ClusterError(f"{self.home}: Kafka splits the name of a log folder at a comma")

    @property
    def voters(self) -> range:
        return range(1, self.nodes + 1)

    @property
    def ids(self) -> range:
        return range(1, self.nodes + self.brokers + 1)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.port(node)}" for node in self.ids)

    @property
    def metrics_urls(self) -> dict[int, str]:
        """The URL of each broker's JMX exporter; empty if metrics are off."""
        if not self.metrics:
            return {}
        return {node: f"http://{HOST}:{self.agent_port(node)}/metrics" for node in self.ids}

    def port(self, node: int) -> int:
        """The address at which clients and other brokers reach a node."""
        return self.base_port + node

    def controller_port(self, node: int) -> int:
        return self.base_port + MAX_NODES + node

    def agent_port(self, node: int) -> int:
        """The port of a node's JMX exporter; unused if metrics are off."""
        return self.base_port + 2 * MAX_NODES + node

    def listens_on(self, node: int) -> list[int]:
        controller = [self.controller_port(node)] if node in self.voters else []
        agent = [self.agent_port(node)] if self.metrics else []
        return [self.port(node), *controller, *agent]

    def logs(self, node: int) -> list[Path]:
        """The logs of a node that a tap reads."""
        return [self.folder(node) / name for name in ("request.log", "server.log")]

    def rack(self, node: int) -> str:
        return f"az-{_RACKS[(node - 1) % self.racks]}"

    def folder(self, node: int) -> Path:
        return self.home / f"node{node}"

    def disks(self, node: int) -> list[Path]:
        """The log directories of a node; the first holds the cluster's metadata as well."""
        others = (f"data{number}" for number in range(2, self.log_dirs + 1))
        return [self.folder(node) / name for name in ("data", *others)]

    def options(self, node: int) -> list[str]:
        """The Java options of a node, {node} and {port} filled in."""
        filled = {"{node}": str(node), "{port}": str(self.agent_port(node))}
        return [re.sub(r"\{(node|port)\}", lambda m: filled[m[0]], o) for o in self.java_opts]

    # Saving

    def save(self) -> None:
        """Write ``cluster.json`` into the home."""
        values = asdict(self)
        del values["home"]  # implied by the place of the file, so a stopped cluster can be moved
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / _SAVED).write_text(json.dumps(values, indent=2) + "\n")


def load(home: Path) -> ClusterLayout | None:
    """The layout saved in a home; None if there is none.

    Raises:
        ClusterError: the file cannot be read or is not ours.
    """
    path = home / _SAVED
    try:
        values: dict[str, Any] = json.loads(path.read_text())
        values["java_opts"] = tuple(values["java_opts"])
        return ClusterLayout(home=home, **values)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClusterError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"{path} was not written by kafka-twin ({error}); remove it") from None


# Files of a node


def write_files(layout: ClusterLayout, node: int) -> None:
    """Write the configuration of a node and of its logging.

    Logging is configured twice: Kafka logs by log4j 2 since 4.0, and by log4j 1 before.
    """
    folder = layout.folder(node)
    folder.mkdir(parents=True, exist_ok=True)
    (layout.home / "remote").mkdir(exist_ok=True)
    lines = [f"{key}={value}" for key, value in properties(layout, node).items()]
    (folder / "server.properties").write_text("\n".join(lines) + "\n")
    for name, text in (("log4j2.properties", _LOGGING), ("log4j.properties", _LOGGING_BEFORE_4)):
        filled = text.replace("{folder}", str(folder))
        level = "DEBUG" if layout.request_logs else "WARN"
        (folder / name).write_text(filled.replace("{request_level}", level))


def logging_options(layout: ClusterLayout, node: int) -> list[str]:
    """The Java options that name the configuration of a node's logging."""
    folder = layout.folder(node)
    return [
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
    ]


def properties(layout: ClusterLayout, node: int) -> dict[str, str]:
    """The broker settings of a node; the user's settings override the others, or leave them out.

    An empty setting is left out, so Kafka's default applies.
    """
    settings = {
        **_place(layout, node),
        **_SMALL,
        **_TIERED,
        **_replicated(min(3, len(layout.ids))),
        "rsm.config.dir": str(layout.home / "remote"),
        **layout.settings,
    }
    return {key: value for key, value in settings.items() if value}


def _place(layout: ClusterLayout, node: int) -> dict[str, str]:
    is_voter = node in layout.voters
    broker = f"PLAINTEXT://{HOST}:{layout.port(node)}"
    controller = f",CONTROLLER://{HOST}:{layout.controller_port(node)}" if is_voter else ""
    voters = (f"{v}@{HOST}:{layout.controller_port(v)}" for v in layout.voters)
    return {
        "process.roles": "broker,controller" if is_voter else "broker",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(voters),
        "listeners": broker + controller,
        "advertised.listeners": broker,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": ",".join(map(str, layout.disks(node))),
        "broker.rack": layout.rack(node),
    }


_SMALL: Final = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    # On busy cores a controller takes longer than Kafka's default of a minute to be ready.
    "initial.broker.registration.timeout.ms": "300000",
}

# Tasks that Kafka runs every one or five minutes run at once, so that tests can wait for them.
_TIERED: Final = {
    "remote.log.storage.system.enable": "true",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.storage.manager.class.name": (
        "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    ),
    "rsm.config.delete.on.close": "false",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "remote.log.manager.task.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "1000",
    "follower.fetch.last.tiered.offset.enable": "true",  # KIP-1023
}


def _replicated(factor: int) -> dict[str, str]:
    """Settings of internal topics, with as many replicas as the cluster allows."""
    return {
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": str(factor),
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(factor),
    }


# The request log is a separate file. Without ``request_logs`` it stays empty until somebody raises
# its level; then it has a line for each request.
_LOGGING: Final = """\
status = error
appender.main.type = RollingFile
appender.main.name = main
appender.main.fileName = {folder}/server.log
appender.main.filePattern = {folder}/server.log.%i
appender.main.layout.type = PatternLayout
appender.main.layout.pattern = [%d] %p %m (%c)%n
appender.main.policy.type = SizeBasedTriggeringPolicy
appender.main.policy.size = 32MB
appender.main.strategy.type = DefaultRolloverStrategy
appender.main.strategy.max = 2
appender.request.type = RollingFile
appender.request.name = request
appender.request.fileName = {folder}/request.log
appender.request.filePattern = {folder}/request.log.%i
appender.request.layout.type = PatternLayout
appender.request.layout.pattern = [%d] %p %m (%c)%n
appender.request.policy.type = SizeBasedTriggeringPolicy
appender.request.policy.size = 16MB
appender.request.strategy.type = DefaultRolloverStrategy
appender.request.strategy.max = 1
rootLogger.level = INFO
rootLogger.appenderRef.main.ref = main
logger.request.name = kafka.request.logger
logger.request.level = {request_level}
logger.request.additivity = false
logger.request.appenderRef.request.ref = request
"""

_LOGGING_BEFORE_4: Final = """\
log4j.rootLogger=INFO, main
log4j.appender.main=org.apache.log4j.RollingFileAppender
log4j.appender.main.File={folder}/server.log
log4j.appender.main.MaxFileSize=32MB
log4j.appender.main.MaxBackupIndex=2
log4j.appender.main.layout=org.apache.log4j.PatternLayout
log4j.appender.main.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.kafka.request.logger={request_level}, request
log4j.additivity.kafka.request.logger=false
log4j.appender.request=org.apache.log4j.RollingFileAppender
log4j.appender.request.File={folder}/request.log
log4j.appender.request.MaxFileSize=16MB
log4j.appender.request.MaxBackupIndex=1
log4j.appender.request.layout=org.apache.log4j.PatternLayout
log4j.appender.request.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


# A formatted disk


def disk_of(node: int, formatted: str) -> str:
    """``meta.properties`` of a node's log directory, made from that of the first one."""
    own = {"node.id": str(node), "directory.id": kafka_uuid()}
    pairs = _pairs(formatted.splitlines())
    return "".join(f"{key}={own.get(key, value)}\n" for key, value in pairs)


def _pairs(lines: Iterable[str]) -> list[tuple[str, str]]:
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return [(key, value) for key, _, value in pairs]


def kafka_uuid() -> str:
    """A new Kafka Uuid that does not start with a dash, which would look like an option."""
    text = "-"
    while text.startswith("-"):
        text = uuid_text(uuid.uuid4().bytes)
    return text
