"""A login of Kafka's Java client as one line of JAAS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def jaas(module: str, options: Mapping[str, Any]) -> str:
    """The value of ``sasl.jaas.config``: a login module, and its options, quoted."""

    def quoted(value: Any) -> str:
        return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'

    given = "".join(f" {name}={quoted(value)}" for name, value in options.items())
    return f"{module} required{given};"
