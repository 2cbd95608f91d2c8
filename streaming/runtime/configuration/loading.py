"""The configuration from a TOML file, every key of which the environment may override.

``load`` returns a ``Config`` or raises ``ConfigError`` with one line: which file or variable, which
key, what is wrong. Secrets come from the environment or from the file and are never shown.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from streaming.runtime.config import SHARDS_BY_SIZE, Config, ConfigError
from streaming.runtime.configuration import clusters
from streaming.runtime.configuration.checks import problems
from streaming.runtime.configuration.environment import DEFAULTS, lay_over
from streaming.runtime.configuration.ranges import reason
from streaming.runtime.configuration.secret_keys import secrets
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
    each = load_all(path, environment)
    if cluster in each:
        return each[cluster]
    origin, names = _origin(path), ", ".join(sorted(each))
    if cluster:
        raise ConfigError(f"{origin}: there is no cluster {cluster}; there is {names}")
    if len(each) > 1:
        raise ConfigError(f"{origin}: has several clusters; say which by --cluster: {names}")
    return next(iter(each.values()))


def load_all(
    path: Path | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, Config]:
    """The configuration of each cluster, by its name, in the order of the file.

    Raises:
        ConfigError: one line with file or variable, key and reason.
    """
    environment = os.environ if environment is None else environment
    data, origin = _read(path), _origin(path)
    if below := environment.get(DEFAULTS):
        defaults = _read(Path(below))
        _convert(defaults, below)  # an error of theirs is not one of the file
        data = clusters.laid_over(defaults, data)
    of_clusters = clusters.split(data, origin, path, _read)
    lay_over(data, origin, environment, of_clusters)
    bus = data.setdefault("bus", {})
    if isinstance(bus, dict):  # a person leaves the number to the twin; a program has one
        bus.setdefault("shards", SHARDS_BY_SIZE)
    each = clusters.joined(data, of_clusters)
    for secret in secrets([*each.values()]):  # before anything can be said of the values
        keep_secret(secret)
    configs = [
        _checked(one, f"{origin}: clusters.{name}" if of_clusters else origin)
        for name, one in each.items()
    ]
    return {config.cluster.name: config for config in configs}


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
