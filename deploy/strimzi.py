"""The KafkaUser of Strimzi with the twin's rights, made of the list of rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streaming.checks.rights import Right, is_on, rights
from streaming.runtime.config import Config

_RESOURCES: Final = {"transactional-id": "transactionalId"}

_HEAD: Final = """\
# The twin's user of a cluster that Strimzi runs, with the rights of `kafka-twin check --acls`.
# Rights that only a setting or a command needs are comments. Set the name of your cluster.
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata:
  name: kafka-twin
  labels:
    strimzi.io/cluster: my-cluster
spec:
  authentication:
    type: scram-sha-512
  authorization:
    type: simple
    acls:
"""


def user_text() -> str:
    """The KafkaUser as YAML."""
    return _HEAD + "".join(_acls(Config()))


def _acls(config: Config) -> Iterator[str]:
    """The entries, one for each resource."""
    grouped: dict[tuple[str, str, str], list[Right]] = {}
    for right in rights(config):
        grouped.setdefault((right.resource, right.name, right.option), []).append(right)
    for (*_, option), them in grouped.items():
        mark = "      " if is_on(config, option) else "      # "
        if option:
            yield f"      # only for {option}:\n"
        yield "".join(f"{mark}{line}\n" for line in _entry(them))


def _entry(them: list[Right]) -> Iterator[str]:
    first = them[0]
    operations = ", ".join(right.operation.title().replace("_", "") for right in them)
    if first.resource == "cluster":
        yield "- resource: {type: cluster}"
    else:
        kind = _RESOURCES.get(first.resource, first.resource)
        name = first.name[:-1] if first.is_prefix else first.name
        pattern = "prefix" if first.is_prefix else "literal"
        yield f'- resource: {{type: {kind}, name: "{name}", patternType: {pattern}}}'
    yield f"  operations: [{operations}]"
