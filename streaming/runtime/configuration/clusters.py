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


def are_in(data: Data) -> bool:
    """Whether clusters have sections or files of their own."""
    return bool(data.get("clusters")) or has_folder(data)


def has_folder(data: Data) -> bool:
    """Whether clusters have files of their own, which come and go."""
    return bool(_folder(data))


def split(
    data: Data, origin: str, file: Path | None, read: Callable[[Path], Data]
) -> tuple[dict[str, Data], dict[str, ConfigError]]:
    """Take what each cluster has of its own out of the data; nothing in those of one cluster.

    Also why the file of a cluster cannot be read, by its name.

    Raises:
        ConfigError: a cluster is named twice, or by signs that no topic has, or there is none.
    """
    own, refused = data.pop("clusters", {}), {}
    if not isinstance(own, dict) or not all(isinstance(each, dict) for each in own.values()):
        raise ConfigError(f"{origin}: clusters: must be tables, e.g. [clusters.orders]")
    if folder := _folder(data):
        for each in files_in(folder, file, origin):
            if each.stem in own:
                raise ConfigError(f"{each}: the cluster {each.stem} is in {origin} already")
            try:
                own[each.stem] = read(each)
            except ConfigError as error:
                refused[each.stem] = error
        if not own and not refused:
            raise ConfigError(f"{origin}: fleet.folder: there is no file of a cluster in {folder}")
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
    return own, refused


def files_in(folder: str, file: Path | None, origin: str) -> list[Path]:
    """The files of clusters in the folder, which is beside the configuration file.

    Raises:
        ConfigError: there is no such folder.
    """
    here = Path(folder) if file is None else file.parent / folder
    if not here.is_dir():
        raise ConfigError(f"{origin}: fleet.folder: there is no folder {folder}")
    return sorted(here.glob("*.toml"))


def _folder(data: Data) -> str:
    fleet = data.get("fleet", {})
    return str(fleet.get("folder", "")) if isinstance(fleet, dict) else ""


def alone(data: Data) -> dict[str, Data]:
    """The data of the one cluster, by its name."""
    cluster = data.get("cluster")
    return {str(cluster.get("name", "")) if isinstance(cluster, dict) else "": data}


def joined(data: Data, of_clusters: Mapping[str, Data]) -> dict[str, Data]:
    """The data of each cluster, by its name: its own laid over what is common.

    Its bus topics have its name, so that nothing of two clusters is ever in one topic.
    """
    return {name: _joined(data, name, own) for name, own in of_clusters.items()}


def _joined(data: Data, name: str, own: Data) -> Data:
    sections = {key: value for key, value in own.items() if key in OF_A_CLUSTER}
    cluster = {key: value for key, value in own.items() if key not in OF_A_CLUSTER}
    bus = data.get("bus", {})
    prefix = bus.get("prefix", BusConfig().prefix) if isinstance(bus, dict) else ""
    named = {
        "cluster": {"name": name},
        "bus": {"prefix": f"{prefix}.{name}"},
        "archive": _archive_of(name, data.get("archive")),
    }
    return laid_over(laid_over(data, named), {"cluster": cluster, **sections})


def _archive_of(name: str, common: object) -> Data:
    """Tables of its own below the path of all; the program of all has one checkpoint."""
    path = common.get("path") if isinstance(common, dict) else None
    if not isinstance(common, dict) or not isinstance(path, str) or not path:
        return {}
    base = path.rstrip("/")
    checkpoint = common.get("checkpoint") or ("" if "://" in path else f"{base}/checkpoint")
    return {"path": f"{base}/cluster={name}", "checkpoint": checkpoint}


def laid_over(below: Data, above: Data) -> Data:
    """Both as one: of two tables every key, of anything else what is above."""
    both = {**below, **above}
    for key, value in below.items():
        if isinstance(value, dict) and isinstance(over := above.get(key), dict):
            both[key] = laid_over(value, over)
    return both
