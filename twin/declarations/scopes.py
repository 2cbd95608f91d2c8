"""What a function may see: the tables of one shard, or those of the whole cluster.

A function that makes or reads a ``ClusterTable`` belongs to the cluster's own shard. It sees
only the reports of other shards. Declarations that break this are refused when a program starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from twin.declarations.declare import EventSource, Metric, Risk, Rule
from twin.declarations.signature import DeclarationError, Parameter, without_groups
from twin.declarations.table import ClusterTable, ShardReport, Table

_LEVELS: Final = ("cluster", "broker", "log_dir")
"""Levels of a metric that a cluster rule's table can have."""


def sees_cluster(spec: Any) -> bool:
    """The declared function belongs to the cluster's own shard."""
    made = getattr(spec, "makes", None)
    tables = [p.table for p in _reads(spec) if p.table is not None]
    return any(issubclass(each, ClusterTable) for each in [*tables, *([made] if made else [])])


def check_scopes(specs: Iterable[Any], name_of: Any) -> None:
    """Refuse a function that reads a table which its shard does not have.

    Args:
        specs: everything that is declared.
        name_of: the name of one of them, for messages.

    Raises:
        DeclarationError: names the function and the parameter.
    """
    for spec in specs:
        name = name_of(spec)
        if sees_cluster(spec):
            _check_of_cluster(spec, name)
        elif isinstance(spec, Risk) and spec.per != "partition":
            raise DeclarationError(f"{name} is one of a {spec.per}, and reads no ClusterTable")
        else:
            for parameter in _reads(spec):
                _refuse(name, parameter, ShardReport, "only a rule that makes a ClusterTable may: "
                        "it is not called while the report of a shard is missing")  # fmt: skip


def _check_of_cluster(spec: Any, name: str) -> None:
    if isinstance(spec, Rule):
        if not issubclass(spec.makes, ClusterTable):
            raise DeclarationError(
                f"{name} sees one shard, and reads a ClusterTable; its table must be one, too"
            )
        if spec.makes.api is not None:
            raise DeclarationError(
                f"{name}: a ClusterTable has no api name; its metrics of a broker or the cluster "
                "are fields of these in the API"
            )
    elif isinstance(spec, Metric):
        if spec.level not in _LEVELS or spec.combine == "newest":
            raise DeclarationError(
                f"{name} reads a ClusterTable: its level must be one of {', '.join(_LEVELS)}, and "
                "nothing is combined"
            )
    elif isinstance(spec, Risk):
        if spec.per == "partition":
            raise DeclarationError(f"{name} reads a ClusterTable: give it per broker or cluster")
    elif isinstance(spec, EventSource):
        if spec.per != "broker":
            raise DeclarationError(f"{name} reads a ClusterTable: give it per broker")
    else:
        raise DeclarationError(f"{name} sees one shard, and reads a ClusterTable")
    for parameter in _reads(spec):
        table = parameter.table
        if not isinstance(spec, Rule):
            _refuse(name, parameter, ShardReport, "only rules may")
        if table is not None and not issubclass(table, ClusterTable | ShardReport):
            _refuse(name, parameter, table, "of which each shard has its own part: let the shards "
                    "report what it needs of that in a ShardReport")  # fmt: skip


def _refuse(name: str, parameter: Parameter, table: type[Table], why: str) -> None:
    read = parameter.table
    if read is not None and issubclass(read, table):
        raise DeclarationError(f"{name}: parameter {parameter.name} reads {read.kind}, {why}")


def _reads(spec: Any) -> tuple[Parameter, ...]:
    return without_groups(getattr(spec, "reads", ()))
