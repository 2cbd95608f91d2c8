"""The configuration from a TOML file, every key of which the environment may override.

``load`` returns a ``Config`` or raises ``ConfigError`` with one line: which file or variable, which
key, what is wrong. Secrets come from the environment or from the file and are never shown.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from streaming.runtime.config import SHARDS_BY_SIZE, Config, ConfigError
from streaming.runtime.configuration.checks import problems
from streaming.runtime.configuration.ranges import reason
from streaming.runtime.configuration.secret_keys import secrets
from streaming.runtime.errors import keep_secret
from streaming.runtime.kafka import topic_settings

PREFIX: Final = "KAFKA_TWIN_"
DEFAULTS: Final = f"{PREFIX}DEFAULTS"
_NOT_CONFIG: Final = {DEFAULTS, f"{PREFIX}CONFIG", f"{PREFIX}CACHE", f"{PREFIX}IVY_SETTINGS"}
_CLIENT_PREFIXES: Final = (f"{PREFIX}CLUSTER_CLIENT_", f"{PREFIX}BUS_CLIENT_")
_BUS_TOPICS: Final = f"{PREFIX}BUS_TOPICS_"


def load(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Config:
    """Read the file (if any), lay the environment over it, check every value.

    A file of defaults that ``KAFKA_TWIN_DEFAULTS`` names is laid below both: what an image has to
    set, and its user may set otherwise.

    Raises:
        ConfigError: one line with file or variable, key and reason.
    """
    environment = os.environ if environment is None else environment
    data, origin = _read(path)
    if below := environment.get(DEFAULTS):
        defaults, below_origin = _read(Path(below))
        _convert(defaults, below_origin)  # an error of theirs is not one of the file
        data = _laid_over(defaults, data)
    for name, section, key, kind in _environment_names():
        if name in environment:
            target = data.setdefault(section, {})
            if not isinstance(target, dict):
                raise ConfigError(f"{origin}: {section} must be a table, e.g. [{section}]")
            target[key] = _parsed(name, environment[name], kind)
            _convert(data, name)
    _lay_bus_topics(data, environment)
    names = {name for name, *_ in _environment_names()} | _NOT_CONFIG
    for name in environment:
        is_free = name.startswith((*_CLIENT_PREFIXES, _BUS_TOPICS))
        if name.startswith(PREFIX) and name not in names and not is_free:
            raise ConfigError(
                f"environment: {name} is not a setting; see docs/config.toml for the keys"
            )
    for name, value in environment.items():
        for prefix in _CLIENT_PREFIXES:
            if name.startswith(prefix):
                section = prefix.removeprefix(PREFIX).split("_")[0].lower()
                client = data.setdefault(section, {}).setdefault("client", {})
                client[name.removeprefix(prefix).lower()] = value
    bus = data.setdefault("bus", {})
    if isinstance(bus, dict):  # a person leaves the number to the twin; a program has one
        bus.setdefault("shards", SHARDS_BY_SIZE)
    for secret in secrets(data):  # before anything can be said of the values
        keep_secret(secret)
    config = _convert(data, origin)
    for key, why in problems(config):
        raise ConfigError(f"{origin}: {key}: {why}")
    return config


def given_by(environment: Mapping[str, str]) -> list[str]:
    """The variables that ``load`` lays over the file."""
    names = (name for name in environment if name.startswith(PREFIX))
    return sorted(name for name in names if name not in _NOT_CONFIG)


def _lay_bus_topics(data: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Lay ``KAFKA_TWIN_BUS_TOPICS_SNAPSHOTS_SEGMENT_MS`` over ``bus.topics.snapshots``."""
    for name, value in environment.items():
        if name.startswith(_BUS_TOPICS):
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
            table[setting] = value


def _read(path: Path | None) -> tuple[dict[str, Any], str]:
    if path is None:
        return {}, "environment"
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
    return data, str(path)


def _laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both as one: of two tables every key, of anything else what is above."""
    both = {**below, **above}
    for key, value in below.items():
        if isinstance(value, dict) and isinstance(over := above.get(key), dict):
            both[key] = _laid_over(value, over)
    return both


def _convert(data: dict[str, Any], origin: str) -> Config:
    try:
        return msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        key = str(error).partition(" - at ")[2].strip("`").removeprefix("$.") or "top level"
        raise ConfigError(f"{origin}: {key}: {reason(error, Config)}") from None


def _environment_names() -> Iterator[tuple[str, str, str, Any]]:
    for section in msgspec.structs.fields(Config):
        for field in msgspec.structs.fields(section.type):
            if field.name not in ("client", "topics", "metrics_urls", "brokers"):
                name = f"{PREFIX}{section.name}_{field.name}".upper()
                yield name, section.name, field.name, field.type


def _parsed(name: str, text: str, kind: Any) -> Any:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"environment: {name}: {reason(error, kind)}") from None
