"""One value of the chart, and what values may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
PORTS: Final[Schema] = {"type": "array", "minItems": 1, "items": {
    "type": "integer", "minimum": 1, "maximum": 65_535}}  # fmt: skip
FLAG: Final[Schema] = {"type": "boolean"}
MAP: Final[Schema] = {"type": "object"}
TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
OBJECTS: Final[Schema] = {"type": "array", "items": {"type": "object"}}
COUNT: Final[Schema] = {"type": "integer", "minimum": 1}
PORT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 65_535}
QUANTITY: Final[Schema] = {"type": "string", "pattern": r"^[0-9.]+([EPTGMk]i?)?$"}


AUTHORIZATION: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "type": TEXT,
        "credentials": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "key"],
            "properties": {"name": TEXT, "key": TEXT, "optional": FLAG},
        },
    },
}


def one_of(*names: str) -> Schema:
    """One of some texts."""
    return {"type": "string", "enum": list(names)}


@dataclass(frozen=True, slots=True)
class Value:
    """One value: its path, its default, what it may be, and what it is for."""

    path: str
    default: Any
    schema: Schema
    text: str
