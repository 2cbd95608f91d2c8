"""Several clusters in one configuration: what is common, and what each has of its own.

    [bus]                      # common
    bootstrap = "bus:9092"

    [clusters.orders]          # the keys of [cluster], and sections of this cluster
    bootstrap = "orders-1:9092"
    labels = {env = "prod"}
    [clusters.orders.capacity]
    bytes_in_per_s = 100000000

In the folder ``fleet.folder``, NAME.toml has what ``[clusters.NAME]`` would have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from streaming.runtime.config import BusConfig, ConfigError

Data = dict[str, Any]
"""A table of TOML."""

OF_A_CLUSTER: Final = ("bus", "collector", "eligibility", "capacity", "disk")
"""Sections that a cluster may have of its own."""

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def split(
    data: Data, origin: str, file: Path | None, read: Callable[[Path], Data]
) -> dict[str, Data]:
    """Take what each cluster has of its own out of the data; nothing in those of one cluster.

    Raises:
        ConfigError: a cluster is named twice, or by signs that no topic has.
    """
    own = data.pop("clusters", {})
    if not isinstance(own, dict) or not all(isinstance(each, dict) for each in own.values()):
        raise ConfigError(f"{origin}: clusters: must be tables, e.g. [clusters.orders]")
    fleet = data.get("fleet", {})
    folder = fleet.get("folder", "") if isinstance(fleet, dict) else ""
    if folder:
        here = Path(folder) if file is None else file.parent / folder
        if not here.is_dir():
            raise ConfigError(f"{origin}: fleet.folder: there is no folder {folder}")
        for each in sorted(here.glob("*.toml")):
            if each.stem in own:
                raise ConfigError(f"{each}: the cluster {each.stem} is in {origin} already")
            own[each.stem] = read(each)
    for name in own:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{origin}: clusters.{name}: must be letters, digits, '.', '_' or '-'"
            )
    if own and isinstance(data.get("cluster"), dict):
        for key in ("name", "bootstrap"):
            if key in data["cluster"]:
                raise ConfigError(
                    f"{origin}: cluster.{key}: is of one cluster; set it in [clusters.NAME]"
                )
    return own


def joined(data: Data, of_clusters: Mapping[str, Data]) -> dict[str, Data]:
    """The data of each cluster, by its name: its own laid over what is common.

    Its bus topics have its name, so that nothing of two clusters is ever in one topic.
    """
    if not of_clusters:
        cluster = data.get("cluster")
        name = cluster.get("name", "") if isinstance(cluster, dict) else ""
        return {str(name): data}
    return {name: _joined(data, name, own) for name, own in of_clusters.items()}


def _joined(data: Data, name: str, own: Data) -> Data:
    sections = {key: value for key, value in own.items() if key in OF_A_CLUSTER}
    cluster = {key: value for key, value in own.items() if key not in OF_A_CLUSTER}
    bus = data.get("bus", {})
    prefix = bus.get("prefix", BusConfig().prefix) if isinstance(bus, dict) else ""
    named = {"cluster": {"name": name}, "bus": {"prefix": f"{prefix}.{name}"}}
    return laid_over(laid_over(data, named), {"cluster": cluster, **sections})


def laid_over(below: Data, above: Data) -> Data:
    """Both as one: of two tables every key, of anything else what is above."""
    both = {**below, **above}
    for key, value in below.items():
        if isinstance(value, dict) and isinstance(over := above.get(key), dict):
            both[key] = laid_over(value, over)
    return both
