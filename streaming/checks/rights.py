"""The ACLs that the twin needs, and which features are unavailable without each.

The collector's sources declare theirs. ``kafka-twin check`` and ``docs/security.md`` are made from
this list. A test revokes each of these rights on a real cluster.

In Kafka some rights include others: READ and WRITE on a topic include DESCRIBE, and ALTER_CONFIGS
includes DESCRIBE_CONFIGS. A right that another one of the list includes is not listed again, so
each right of the list is needed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from streaming.bus import bus_topics
from streaming.checks.iam_policy import policy_lines
from streaming.collector.about import Acl, Resource
from streaming.collector.sources import ABOUT
from streaming.runtime.config import Config
from streaming.runtime.kafka.iam import MECHANISM as AWS_MSK_IAM
from streaming.runtime.kafka.remote_log_access import TOPIC as REMOTE_SEGMENTS

ALL: Final = "*"
NAME: Final = "NAME"

_PROGRAMS: Final = {("DESCRIBE", "topic"): ("collector", "tap")}
"""Programs that need a right of the collector's sources, if others than the collector do."""

WITHOUT: Final = {
    **{about.name: about.without for about in ABOUT.values()},
    "remote segments": "findings on remote segments: orphans, gaps, unfinished uploads",
    "bus topics": "bus topics that do not exist; or create them yourself",
    "writing observations": "all updates: observations cannot be written",
    "reading observations": "all updates: the query has no input",
    "writing snapshots": "all updates: the query cannot write snapshots",
    "reading snapshots": "everything that the exporter serves, and `whatif`",
    "writing events": "all updates: the query cannot write events",
    "reading events": "the archive, and everything that the exporter serves: it needs both",
    "request logs": "`tap --enable`: switch the brokers' request logs on by other means",
    "plans": "`plan --apply` and `plan restore`, which alone need it; plans are printed, and "
    "Kafka's own tools apply their files",
    "dividing clusters": "`fleet.collector_group`: collectors that divide clusters",
    "one watch": "`plan order --watch`, which alone needs it: whether another one runs",
}
"""The features that need a source or a right, by its name."""


@dataclass(frozen=True, slots=True)
class Right:
    """One right: an operation on a resource, in Kafka's words."""

    operation: str
    resource: Resource
    name: str  # of the topic or group; "*" means all, "audit-*" all with this prefix
    wants: tuple[str, ...]  # keys of WITHOUT
    programs: tuple[str, ...]
    at: Literal["cluster", "bus"] = "cluster"  # section of the configuration that says where
    option: str = ""  # which command or setting needs it; empty: the default configuration

    def __str__(self) -> str:
        if self.resource == "cluster":
            return f"{self.operation} on the cluster"
        if self.name == ALL:
            return f"{self.operation} on {self.resource.replace('-', ' ')}s"
        return f"{self.operation} on {self.resource}{'s' * self.is_prefix} {self.name}"

    @property
    def of_any_topic(self) -> bool:
        """The right is on all topics."""
        return self.resource == "topic" and self.name == ALL

    @property
    def is_prefix(self) -> bool:
        """The right is on all topics or groups whose name has this prefix."""
        return self.name != ALL and self.name.endswith(ALL)

    @property
    def without(self) -> str:
        """The features that need the right."""
        return "; ".join(dict.fromkeys(WITHOUT[what] for what in self.wants))


def rights(config: Config, readable: str = ALL) -> tuple[Right, ...]:
    """All rights. ``readable`` names the topics whose local log may be judged by its age."""
    return (*_of_cluster(readable), *_of_bus(config))


def _of_cluster(readable: str) -> Iterator[Right]:
    yield from _of_sources(readable)
    yield Right("READ", "topic", REMOTE_SEGMENTS, ("remote segments",), ("query",),
                option="query.remote_log_metadata")  # fmt: skip
    yield Right("ALTER_CONFIGS", "cluster", ALL, ("request logs",), ("tap",), option="tap --enable")
    yield Right("ALTER", "cluster", ALL, ("plans",), ("plan",), option="plan --apply")


def _of_sources(readable: str) -> Iterator[Right]:
    """The rights that the collector's sources declare, each once."""
    names: dict[Acl, list[str]] = {}
    for about in ABOUT.values():
        if about.right is not None:
            names.setdefault(about.right, []).append(about.name)
    for acl, wants in names.items():
        name = readable if (acl.operation, acl.resource) == ("READ", "topic") else ALL
        programs = _PROGRAMS.get((acl.operation, acl.resource), ("collector",))
        yield Right(acl.operation, acl.resource, name, tuple(wants), programs, option=acl.option)


def _of_bus(config: Config) -> Iterator[Right]:
    """The rights on the bus. Most programs read two topics at the start, to compare bus.shards."""
    name = bus_topics.topics(config)
    tellers = ("collector", "query", "tap")

    def right(operation: str, topic: str, wants: str, *programs: str) -> Right:
        return Right(operation, "topic", topic, (wants,), programs, at="bus")

    yield right("CREATE", f"{config.bus.prefix}.*", "bus topics", *tellers, "exporter", "archive")
    yield right("WRITE", name.observations, "writing observations", *tellers)
    yield right("READ", name.observations, "reading observations", *tellers, "archive")
    yield right("WRITE", name.snapshots, "writing snapshots", "query")
    yield right("READ", name.snapshots, "reading snapshots", *tellers, "exporter", "archive")
    yield right("WRITE", name.events, "writing events", "query")
    yield right("READ", name.events, "reading events", "exporter", "archive")
    yield Right("READ", "group", bus_topics.watch_group(config), ("one watch",), ("plan",),
                at="bus", option="plan order --watch")  # fmt: skip
    if name_of_both := config.fleet.collector_group:
        yield Right("READ", "group", name_of_both, ("dividing clusters",), ("collector",),
                    at="bus", option="fleet.collector_group")  # fmt: skip
        yield Right("CREATE", "topic", name_of_both, ("dividing clusters",), ("collector",),
                    at="bus", option="fleet.collector_group")  # fmt: skip


def right_for(config: Config, what: str) -> Right:
    """The right that a purpose, a key of WITHOUT, needs."""
    [needed] = [right for right in rights(config) if what in right.wants]
    return needed


def commands(config: Config, principal: str) -> Iterator[str]:
    """Shell lines that grant the rights with kafka-acls.sh, one line per resource.

    Rights for an option that is off are comments. Where a login is AWS_MSK_IAM, the rights there
    are the lines of a policy, JSON, without those for an option that is off.
    """
    grouped: dict[tuple[str, str, str, str], list[Right]] = {}
    of_aws = []
    for right in rights(config):
        if has_policies(config, right):
            of_aws += [right] if is_on(config, right.option) else []
            continue
        grouped.setdefault((right.at, right.resource, right.name, right.option), []).append(right)
    for (*_, option), them in grouped.items():
        command = grant(config, principal, them)
        if option:
            yield f"# only for {option}:"
        yield command if is_on(config, option) else f"# {command}"
    if of_aws:
        logins = (config.cluster.client, config.bus_client)
        region = next(filter(None, (login.get("sasl_aws_region") for login in logins)), "REGION")
        bus_cluster = "BUS" if config.bus.bootstrap else "CLUSTER"
        yield from policy_lines(of_aws, {"cluster": "CLUSTER", "bus": bus_cluster}, str(region))


def has_policies(config: Config, right: Right) -> bool:
    """Policies of AWS grant the right, and ACLs of Kafka have no effect."""
    client = config.bus_client if right.at == "bus" else config.cluster.client
    return client.get("sasl_mechanism") == AWS_MSK_IAM


def is_on(config: Config, option: str) -> bool:
    """Whether the setting is on; the rights for commands of an operator count as off."""
    section, _, key = option.partition(".")
    return not option or bool(key and getattr(getattr(config, section), key))


def grant_to_user(config: Config, right: Right) -> str:
    """The command that grants a right to the user of this configuration.

    It is empty where policies of AWS grant rights. Where the configuration does not tell the user,
    as with certificates, the command has NAME.
    """
    if has_policies(config, right):
        return ""
    client = config.bus_client if right.at == "bus" else config.cluster.client
    of_ticket = re.split("[/@]", str(client.get("sasl_kerberos_principal", NAME)))[0]
    return grant(config, f"User:{client.get('sasl_plain_username', of_ticket)}", [right])


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
