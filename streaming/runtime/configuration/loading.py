"""The configuration from a TOML file, every key of which the environment may override.

``load`` returns a ``Config`` or raises ``ConfigError`` with one line: which file or variable, which
key, what is wrong. Secrets come from the environment or from the file and are never shown.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from streaming.runtime.config import SHARDS_BY_SIZE, Config, ConfigError
from streaming.runtime.configuration import clusters
from streaming.runtime.configuration.checks import problems
from streaming.runtime.configuration.ranges import reason
from streaming.runtime.configuration.secret_keys import secrets
from streaming.runtime.configuration.variables import DEFAULTS, lay_over
from streaming.runtime.errors import keep_secret
from streaming.runtime.kafka import topic_settings


def load(
    path: Path | None = None, environment: Mapping[str, str] | None = None, cluster: str = ""
) -> Config:
    """The configuration of one cluster: read the file (if any), lay the environment over it, check.

    A file of defaults that ``KAFKA_TWIN_DEFAULTS`` names is laid below both: what an image has to
    set, and its user may set otherwise.

    Args:
        path: the file; None for the environment alone.
        environment: the variables; None for those of this process.
        cluster: its name; may be left out where there is one.

    Raises:
        ConfigError: one line with file or variable, key and reason.
    """
    each = read(path, environment)
    if cluster in each.refused:
        raise each.refused[cluster]
    if cluster in each.usable:
        return each.usable[cluster]
    origin, names = _origin(path), ", ".join(sorted(each.names))
    if cluster:
        raise ConfigError(f"{origin}: there is no cluster {cluster}; there is {names}")
    if len(each.names) > 1:
        raise ConfigError(f"{origin}: has several clusters; say which by --cluster: {names}")
    return next(iter(each.all.values()))


def load_all(
    path: Path | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, Config]:
    """The configuration of each cluster, by its name, in the order of the file.

    Raises:
        ConfigError: one line with file or variable, key and reason.
    """
    return read(path, environment).all


@dataclass(frozen=True, slots=True)
class Read:
    """What the file says of each cluster: its configuration, or why it cannot be used."""

    usable: Mapping[str, Config]
    refused: Mapping[str, ConfigError]
    is_fleet: bool
    """Whether clusters have sections or files of their own."""

    @property
    def names(self) -> list[str]:
        """All clusters that the file names."""
        return [*self.usable, *self.refused]

    @property
    def all(self) -> dict[str, Config]:
        """All clusters.

        Raises:
            ConfigError: one of them cannot be used.
        """
        for error in self.refused.values():
            raise error
        return dict(self.usable)


def read(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Read:
    """The file with the environment laid over it; an error of one cluster is no error of others.

    Raises:
        ConfigError: of what clusters have in common, or there is no cluster.
    """
    environment = os.environ if environment is None else environment
    data, origin = _read(path), _origin(path)
    if below := environment.get(DEFAULTS):
        defaults = _read(Path(below))
        _convert(defaults, below)  # an error of theirs is not one of the file
        data = clusters.laid_over(defaults, data)
    is_fleet = clusters.are_in(data)
    own, refused = clusters.split(data, origin, path, _read)
    lay_over(data, origin, environment, own, may_go=clusters.has_folder(data))
    bus = data.setdefault("bus", {})
    if isinstance(bus, dict):  # a person leaves the number to the twin; a program has one
        bus.setdefault("shards", SHARDS_BY_SIZE)
    each = clusters.joined(data, own) if is_fleet else clusters.alone(data)
    for secret in secrets([*each.values()]):  # before anything can be said of the values
        keep_secret(secret)
    usable: dict[str, Config] = {}
    for name, one in each.items():
        try:
            config = _checked(one, f"{origin}: clusters.{name}" if is_fleet else origin)
        except ConfigError as error:
            refused[name] = error
        else:
            usable[config.cluster.name] = config
    return Read(usable, refused, is_fleet)


def _checked(data: clusters.Data, origin: str) -> Config:
    config = _convert(data, origin)
    for key, why in problems(config):
        raise ConfigError(f"{origin}: {key}: {why}")
    return config


def _origin(path: Path | None) -> str:
    return "environment" if path is None else str(path)


def _read(path: Path | None) -> clusters.Data:
    if path is None:
        return {}
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from None
    topics = data["bus"].get("topics") if isinstance(data.get("bus"), dict) else None
    if isinstance(topics, dict):
        for name, table in topics.items():
            topics[name] = topic_settings.flattened(table) if isinstance(table, dict) else table
    return data


def _convert(data: clusters.Data, origin: str) -> Config:
    try:
        return msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        key = str(error).partition(" - at ")[2].strip("`").removeprefix("$.") or "top level"
        raise ConfigError(f"{origin}: {key}: {reason(error, Config)}") from None
