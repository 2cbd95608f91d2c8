"""The ACLs that the twin needs, and which features are unavailable without each.

``kafka-twin check`` and ``docs/security.md`` are made from this list, and a test revokes one after
the other on a real cluster.

Kafka lets some rights contain others: READ and WRITE on a topic contain DESCRIBE, and
ALTER_CONFIGS contains DESCRIBE_CONFIGS. What is contained in another right of the list is not
listed again, so each one is needed by itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from streaming import bus
from streaming.query.remote_metadata import TOPIC as REMOTE_SEGMENTS
from streaming.runtime.config import Config

ALL: Final = "*"
GROUPS_OPTION: Final = "collector.groups_interval_ms"

WITHOUT: Final = {
    "cluster": "everything",
    "metadata": "everything",
    "broker": "the state of its replicas; their last values become stale",
    "offsets": "the offsets of such replicas; their last values become stale",
    "topics": "topics that it does not cover: Kafka hides them, as if they did not exist",
    "log dirs": "local log sizes, so that thresholds in bytes are assumed to be met",
    "reassignments": "which replicas are being added or removed",
    "controller quorum": "whether the controllers can do without a broker that is one of them, "
    "which `gate` asks",
    "eligible leader replicas": "eligible leader replicas, in predictions too",
    "topic configs": "min.insync.replicas, retention and remote storage of such topics",
    "broker configs": "replica.lag.time.max.ms and other defaults of the cluster; which replicas "
    "consumers read from",
    "local start timestamps": "when a replica's oldest local record was written, so that "
    "thresholds in time are assumed to be met",
    "thresholds": "the thresholds of such topics",
    "leader epoch histories": "which remote segments of such topics belong to their logs",
    "remote segments": "findings on remote segments: orphans, gaps, unfinished uploads",
    "metrics": "the broker's own metrics: fetch times, request queue, remote reads, uploads",
    "groups": "offsets and members of consumer groups that it does not cover",
    "bus": "all updates: observations cannot be written",
    "bus topics": "bus topics that do not exist; or create them yourself",
    "writing observations": "all updates: observations cannot be written",
    "reading observations": "all updates: the query has no input",
    "writing snapshots": "all updates: the query cannot write snapshots",
    "reading snapshots": "everything that the exporter serves, and `whatif`",
    "writing events": "all updates: the query cannot write events",
    "reading events": "everything that the exporter serves: it needs snapshots and events",
    "request logs": "`tap --enable`: switch the brokers' request logs on by other means",
    "plans": "`plan --apply` and `plan restore`, which alone need it; plans are printed, and "
    "Kafka's own tools apply their files",
    "one watch": "`plan order --watch`, which alone needs it: whether another one runs",
}
"""The features that need a source or a right, by its name. The collector names the sources of its
problems with the same words."""


@dataclass(frozen=True, slots=True)
class Right:
    """One right: an operation on a resource, in Kafka's words."""

    operation: str
    resource: Literal["topic", "group", "cluster"]
    name: str  # of the topic or group; "*" are all, and "audit-*" those that begin so
    wants: tuple[str, ...]  # keys of WITHOUT
    programs: tuple[str, ...]
    at: Literal["cluster", "bus"] = "cluster"  # section of the configuration that says where
    option: str = ""  # which command or setting needs it; empty: the twin as it is

    def __str__(self) -> str:
        if self.resource == "cluster":
            return f"{self.operation} on the cluster"
        if self.name == ALL:
            return f"{self.operation} on {self.resource}s"
        return f"{self.operation} on {self.resource}{'s' * self.is_prefix} {self.name}"

    @property
    def of_any_topic(self) -> bool:
        """The right is on all topics."""
        return self.resource == "topic" and self.name == ALL

    @property
    def of_command(self) -> bool:
        """A command of an operator needs the right, and no program that runs all the time."""
        return " --" in self.option

    @property
    def is_prefix(self) -> bool:
        """The right is on all topics or groups whose name has this prefix."""
        return self.name != ALL and self.name.endswith(ALL)

    @property
    def without(self) -> str:
        """The features that need the right."""
        return "; ".join(dict.fromkeys(WITHOUT[what] for what in self.wants))


def rights(config: Config, readable: str = ALL) -> tuple[Right, ...]:
    """All rights. ``readable`` names the topics whose local log is judged by its age."""
    return (*_of_cluster(readable), *_of_bus(config))


def _of_cluster(readable: str) -> Iterator[Right]:
    yield Right("DESCRIBE", "topic", ALL, ("topics", "leader epoch histories"),
                ("collector", "tap"))  # fmt: skip
    yield Right("DESCRIBE_CONFIGS", "topic", ALL, ("topic configs",), ("collector",))
    yield Right("DESCRIBE", "cluster", ALL, ("log dirs", "reassignments", "controller quorum"),
                ("collector",))  # fmt: skip
    yield Right("DESCRIBE_CONFIGS", "cluster", ALL, ("broker configs",), ("collector",))
    yield Right("READ", "topic", readable, ("local start timestamps",), ("collector",),
                option="collector.timestamps")  # fmt: skip
    yield Right("DESCRIBE", "group", ALL, ("groups",), ("collector",),
                option=GROUPS_OPTION)  # fmt: skip
    yield Right("READ", "topic", REMOTE_SEGMENTS, ("remote segments",), ("query",),
                option="query.remote_log_metadata")  # fmt: skip
    yield Right("ALTER_CONFIGS", "cluster", ALL, ("request logs",), ("tap",), option="tap --enable")
    yield Right("ALTER", "cluster", ALL, ("plans",), ("plan",), option="plan --apply")


def _of_bus(config: Config) -> Iterator[Right]:
    """Most programs read observations and snapshots at their start, to compare bus.shards."""
    name = bus.topics(config)
    tellers = ("collector", "query", "tap")

    def right(operation: str, topic: str, wants: str, *programs: str) -> Right:
        return Right(operation, "topic", topic, (wants,), programs, at="bus")

    yield right("CREATE", f"{config.bus.prefix}.*", "bus topics", *tellers, "exporter")
    yield right("WRITE", name.observations, "writing observations", *tellers)
    yield right("READ", name.observations, "reading observations", *tellers)
    yield right("WRITE", name.snapshots, "writing snapshots", "query")
    yield right("READ", name.snapshots, "reading snapshots", *tellers, "exporter")
    yield right("WRITE", name.events, "writing events", "query")
    yield right("READ", name.events, "reading events", "exporter")
    yield Right("READ", "group", bus.watch_group(config), ("one watch",), ("plan",), at="bus",
                option="plan order --watch")  # fmt: skip


def right_for(config: Config, what: str) -> Right:
    """The right that a purpose, a key of WITHOUT, needs."""
    [needed] = [right for right in rights(config) if what in right.wants]
    return needed


def commands(config: Config, principal: str) -> Iterator[str]:
    """Shell lines that grant the rights with kafka-acls.sh, one line per resource.

    Rights for an option that is off are comments.
    """
    grouped: dict[tuple[str, str, str, str], list[Right]] = {}
    for right in rights(config):
        grouped.setdefault((right.at, right.resource, right.name, right.option), []).append(right)
    on = {"collector.timestamps": config.collector.timestamps,
          GROUPS_OPTION: config.collector.groups_interval_ms > 0,
          "query.remote_log_metadata": config.query.remote_log_metadata}  # fmt: skip
    for (*_, option), them in grouped.items():
        command = grant(config, principal, them)
        if option:
            yield f"# only for {option}:"
        yield command if on.get(option, not option) else f"# {command}"


def which_grants(config: Config, right: Right) -> str:
    """The command that grants a right to the user of this configuration, for a sentence."""
    client = config.bus_client if right.at == "bus" else config.cluster.client
    user = client.get("sasl_plain_username", "NAME")
    return f", which {grant(config, f'User:{user}', [right])} grants"


def grant(config: Config, principal: str, them: Sequence[Right]) -> str:
    """The shell line that grants rights on one resource."""
    first = them[0]
    bootstrap = config.bus_bootstrap if first.at == "bus" else config.cluster.bootstrap
    words = ["kafka-acls.sh", "--bootstrap-server", bootstrap]
    words += ["--command-config", "admin.properties", "--add", "--allow-principal", principal]
    for right in them:
        words += ["--operation", right.operation.title().replace("_", "")]
    if first.resource == "cluster":
        words.append("--cluster")
    else:
        name = first.name.removesuffix(ALL) if first.is_prefix else first.name
        words += [f"--{first.resource}", name]
        words += ["--resource-pattern-type", "prefixed"] if first.is_prefix else []
    return shlex.join(words)
