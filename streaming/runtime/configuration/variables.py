"""Lays variables of the environment over the data of a configuration file.

``KAFKA_TWIN_SECTION_KEY`` is the key of a section, ``KAFKA_TWIN_CLUSTERS_NAME_KEY`` that of a
cluster in ``[clusters.NAME]``: the name in upper case, each sign that no variable has as ``_``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from streaming.runtime.config import ClusterConfig, Config, ConfigError
from streaming.runtime.configuration.clusters import OF_A_CLUSTER, Data
from streaming.runtime.configuration.ranges import reason
from streaming.runtime.kafka import topic_settings

PREFIX: Final = "KAFKA_TWIN_"
DEFAULTS: Final = f"{PREFIX}DEFAULTS"
CLUSTER: Final = f"{PREFIX}CLUSTER"
"""Names the cluster that a command is for."""

_NOT_CONFIG: Final = {
    DEFAULTS, CLUSTER, f"{PREFIX}CONFIG", f"{PREFIX}CACHE", f"{PREFIX}IVY_SETTINGS",
}  # fmt: skip
_CLIENT_PREFIXES: Final = (f"{PREFIX}CLUSTER_CLIENT_", f"{PREFIX}BUS_CLIENT_")
_BUS_TOPICS: Final = f"{PREFIX}BUS_TOPICS_"
_OF_CLUSTERS: Final = f"{PREFIX}CLUSTERS_"
_TABLES: Final = ("client", "topics", "metrics_urls", "brokers", "labels")
"""Keys with a table: no variable sets it."""


def lay_over(
    data: Data,
    origin: str,
    environment: Mapping[str, str],
    of_clusters: Mapping[str, Data],
    may_go: bool = False,
) -> None:
    """Lay the variables over the common data, and over those of each cluster.

    Where clusters ``may_go``, a variable may be of one that is not there any more.

    Raises:
        ConfigError: a variable that is no setting, or a value of another type.
    """
    known = {name: (section, key, kind) for name, section, key, kind in _names()}
    for name, text in environment.items():
        if not name.startswith(PREFIX) or name in _NOT_CONFIG:
            continue
        if name in known:
            section, key, kind = known[name]
            _table(data, section, origin)[key] = _parsed(name, text, kind)
        elif prefix := next((p for p in _CLIENT_PREFIXES if name.startswith(p)), None):
            section = prefix.removeprefix(PREFIX).split("_")[0].lower()
            client = _table(data, section, origin).setdefault("client", {})
            client[name.removeprefix(prefix).lower()] = text
        elif name.startswith(_BUS_TOPICS):
            _lay_bus_topic(data, name, text)
        elif name.startswith(_OF_CLUSTERS) and (of_clusters or may_go):
            _lay_over_cluster(of_clusters, name, text, may_go)
        else:
            raise ConfigError(
                f"environment: {name} is not a setting; see docs/config.toml for the keys"
            )


def given_by(environment: Mapping[str, str]) -> list[str]:
    """The variables that ``lay_over`` lays over the file."""
    names = (name for name in environment if name.startswith(PREFIX))
    return sorted(name for name in names if name not in _NOT_CONFIG)


def in_variables(name: str) -> str:
    """The name of a cluster as variables have it."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _lay_over_cluster(
    of_clusters: Mapping[str, Data], variable: str, text: str, may_go: bool
) -> None:
    """Lay ``KAFKA_TWIN_CLUSTERS_ORDERS_CLIENT_SASL_PLAIN_PASSWORD`` over ``clusters.orders``."""
    rest = variable.removeprefix(_OF_CLUSTERS)
    meant = [name for name in of_clusters if rest.startswith(f"{in_variables(name)}_")]
    longest = max((len(in_variables(name)) for name in meant), default=0)
    meant = [name for name in meant if len(in_variables(name)) == longest]
    if not meant and may_go:
        return
    if len(meant) != 1:
        what = f"either of the clusters {' and '.join(meant)}" if meant else "no cluster"
        raise ConfigError(f"environment: {variable} names {what} of [clusters]")
    own, key = of_clusters[meant[0]], rest[longest + 1 :]
    if key.startswith("CLIENT_"):
        own.setdefault("client", {})[key.removeprefix("CLIENT_").lower()] = text
        return
    for field in msgspec.structs.fields(ClusterConfig):
        if key == field.name.upper() and field.name not in (*_TABLES, "name"):
            own[field.name] = _parsed(variable, text, field.type)
            return
    for name, section, field_name, kind in _names():
        if section in OF_A_CLUSTER and name == PREFIX + key:
            own.setdefault(section, {})[field_name] = _parsed(variable, text, kind)
            return
    raise ConfigError(f"environment: {variable} is not a setting of a cluster")


def _lay_bus_topic(data: Data, name: str, text: str) -> None:
    """Lay ``KAFKA_TWIN_BUS_TOPICS_SNAPSHOTS_SEGMENT_MS`` over ``bus.topics.snapshots``."""
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
    table[setting] = text


def _table(data: Data, section: str, origin: str) -> Data:
    table = data.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{origin}: {section} must be a table, e.g. [{section}]")
    return table


def _names() -> Iterator[tuple[str, str, str, Any]]:
    for section in msgspec.structs.fields(Config):
        for field in msgspec.structs.fields(section.type):
            if field.name not in _TABLES:
                name = f"{PREFIX}{section.name}_{field.name}".upper()
                yield name, section.name, field.name, field.type


def _parsed(name: str, text: str, kind: Any) -> Any:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"environment: {name}: {reason(error, kind)}") from None
