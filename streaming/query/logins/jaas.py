"""A login of Kafka's Java client as one line of JAAS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})


def jaas(module: str, options: Mapping[str, Any]) -> str:
    """The value of ``sasl.jaas.config``: a login module, and its options, quoted.

    Source: java.io.StreamTokenizer, with which Kafka's JaasConfig reads it.
    """

    def quoted(value: Any) -> str:
        return '"' + str(value).translate(_ESCAPED) + '"'

    given = "".join(f" {name}={quoted(value)}" for name, value in options.items())
    return f"{module} required{given};"
