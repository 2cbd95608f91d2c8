"""What a command line chose: the configuration file, and the cluster of several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from streaming.runtime.config import Config
from streaming.runtime.configuration.following import Followed
from streaming.runtime.configuration.loading import load, read
from streaming.runtime.configuration.variables import CLUSTER

OF_NO_CLUSTER: Final = ("cluster", "demo")
"""Commands that bring a cluster of their own."""

_COMMAND: Final = re.compile(
    r"""(?:(?<=`)|(?<="command":"))kafka-twin (?![^`"]* --cluster )[^`"\\]+(?=[`"])"""
)
"""In a text between backticks, in JSON also a field of its own; not one that names a cluster."""


def naming(cluster: str, text: str) -> str:
    """The text, or JSON, whose commands are about that cluster; as it is without a name.

    Whoever pastes one at night must not have to know which cluster the text was about.
    """
    return _COMMAND.sub(rf"\g<0> --cluster {cluster}", text) if cluster else text


@dataclass(slots=True)
class Chosen:
    """The object of the command line's context."""

    path: Path | None = None
    cluster: str = ""

    def config(self) -> Config:
        """The configuration of the cluster.

        Raises:
            ConfigError: it cannot be used, or there are several and none was chosen.
        """
        return load(self.path, cluster=self.cluster)

    def common(self) -> Config:
        """The configuration of any cluster, for what all have in common.

        Raises:
            ConfigError: none can be used.
        """
        return self.config() if self.cluster else Followed(self.path).common

    def followed(self) -> Followed:
        """The configuration of each cluster, or of the chosen one, which may change.

        Raises:
            ConfigError: of what all have in common, or no cluster can be used.
        """
        return Followed(self.path, cluster=self.cluster)

    @property
    def of_several(self) -> bool:
        """Whether the configuration is of several clusters.

        Raises:
            ConfigError: it cannot be used.
        """
        return read(self.path).is_fleet

    @property
    def arguments(self) -> list[str]:
        """The same for another command line."""
        path = [] if self.path is None else ["--config", str(self.path)]
        return [*path, "--cluster", self.cluster] if self.cluster else path

    @property
    def below(self) -> str:
        """The path below an exporter's address where the chosen cluster is."""
        return f"/clusters/{self.cluster}" if self.cluster else ""


def chosen(ctx: click.Context | None = None) -> Chosen:
    """What the command line chose; without one, the environment's configuration."""
    ctx = ctx or click.get_current_context(silent=True)
    found = None if ctx is None else ctx.find_root().obj
    return found if isinstance(found, Chosen) else Chosen()


def with_cluster(command: click.Command) -> click.Command:
    """The command, and those below it, with the option ``--cluster``."""
    for each in _below(command):
        if not any(parameter.name == "of_cluster" for parameter in each.params):
            each.params.append(_option())
    return command


def _below(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _below(each)


def _option() -> click.Option:
    return click.Option(
        ["--cluster", "of_cluster"],
        metavar="NAME",
        envvar=CLUSTER,
        expose_value=False,
        callback=_choose,
        help="The cluster, where the configuration has several.",
    )


def _choose(ctx: click.Context, _: click.Parameter, name: str | None) -> Any:
    if name:
        chosen(ctx).cluster = name
