"""The configuration of a fleet, read again while programs run: clusters come, go and change.

Only what stands in ``[clusters.NAME]`` or in the folder ``fleet.folder``, and what clusters may
have of their own, takes effect so; what all have in common needs a restart of the programs, and so
does a configuration with one cluster.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import structlog

from streaming.runtime.config import Config, ConfigError
from streaming.runtime.configuration.clusters import files_in
from streaming.runtime.configuration.loading import Read, read

T = TypeVar("T")

log = structlog.get_logger("config")


class Followed:
    """The configuration of each cluster, as the files say now."""

    def __init__(
        self,
        path: Path | None,
        environment: Mapping[str, str] | None = None,
        cluster: str = "",
    ) -> None:
        """Read the files.

        A cluster that cannot be used is logged, and the others are there.

        Args:
            path: the file; None for the environment alone.
            environment: the variables; None for those of this process.
            cluster: the one that this program is for; empty: all.

        Raises:
            ConfigError: of what clusters have in common, or no cluster can be used.
        """
        self._path, self.cluster = path, cluster
        self._environment = os.environ if environment is None else environment
        self._said: dict[str, str] = {}
        self._folder = ""
        read = self._read()
        self._is_fleet = read.is_fleet
        if not self._of_this_program(read.usable):
            for error in self._of_this_program(read.refused).values():
                raise error
        self.configs = self._chosen(read, {})
        """By the names of the clusters, in the order of the files."""
        if cluster and cluster not in self.configs:
            known = ", ".join(sorted(read.names))
            raise ConfigError(f"{path}: there is no cluster {cluster}; there is {known}")
        self.common = next(iter(self.configs.values()))
        """Any of the configurations at the start, for what all have in common."""
        self._folder = self.common.fleet.folder
        self._read_of = self._signature()

    @property
    def is_fleet(self) -> bool:
        """Whether clusters have sections or files of their own, so that more may come."""
        return self._is_fleet

    def why_not(self, name: str) -> str:
        """Why what the files say of the cluster cannot be used; empty if it is used."""
        return self._said.get(name) or self._said.get("", "")

    @property
    def is_of_several(self) -> bool:
        """Whether this program is for all clusters of a fleet, however many there are now."""
        return self._is_fleet and not self.cluster

    def look(self, *, again: bool = False) -> bool:
        """Read the files again if they have changed; true if a configuration has.

        What cannot be used is logged once, and what was read before stays.

        Args:
            again: read them even if they seem unchanged.
        """
        if not self._is_fleet or ((signature := self._signature()) == self._read_of and not again):
            return False
        self._read_of = signature
        try:
            read = self._read()
        except ConfigError as error:
            self._say("", f"{error}; what was read before stays")
            return False
        if not read.is_fleet:
            self._say("", f"{self._path}: has no clusters any more; what was read before stays")
            return False
        self._said.pop("", None)
        before, self.configs = self.configs, self._chosen(read, self.configs)
        return before != self.configs

    def _read(self) -> Read:
        return read(self._path, self._environment)

    def _chosen(self, read: Read, before: Mapping[str, Config]) -> dict[str, Config]:
        """The clusters of this program; those that cannot be used as they were before."""
        refused = self._of_this_program(read.refused)
        for name, error in refused.items():
            as_before = "; what was read before stays" if name in before else ""
            self._say(name, f"{error}{as_before}")
        self._said = {name: why for name, why in self._said.items() if name in refused}
        kept = {name: before[name] for name in refused if name in before}
        return self._of_this_program({**read.usable, **kept})

    def _of_this_program(self, each: Mapping[str, T]) -> dict[str, T]:
        """Those of all clusters, or of the one that this program is for."""
        return {name: one for name, one in each.items() if self.cluster in ("", name)}

    def _say(self, name: str, why: str) -> None:
        if self._said.get(name) != why:
            log.error("cannot be used", **({"cluster": name} if name else {}), why=why)
        self._said[name] = why

    def _signature(self) -> tuple[object, ...]:
        """A value that differs after a file was written, replaced, added or removed."""
        files = [] if self._path is None else [self._path]
        if self._folder:
            with suppress(ConfigError):
                files += files_in(self._folder, self._path, str(self._path))
        return tuple(_signature(file) for file in files)


def _signature(file: Path) -> tuple[object, ...]:
    try:
        stat = file.stat()
    except OSError:
        return (str(file),)
    return str(file), stat.st_ino, stat.st_mtime_ns, stat.st_size
