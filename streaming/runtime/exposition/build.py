"""The version of a program as a metric, as Prometheus and its exporters have it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Final

from twin.declarations.declare import Metric

_SUFFIX: Final = "_build_info"


def build_info(program: str) -> Metric:
    """The metric of a program."""
    return Metric(
        f"{program}{_SUFFIX}",
        f"1, with the version of the {program} that runs.",
        labels=("version",),
    )


def is_build_info(metric: Metric) -> bool:
    """Whether the metric has the version of a program."""
    return metric.name.endswith(_SUFFIX)


@cache
def own_version() -> str:
    """The version of kafka-twin that runs."""
    return version("kafka-twin")


def declared(module: Mapping[str, object]) -> tuple[Metric, ...]:
    """The metrics that a module declares, in order; ``module`` is its ``globals()``."""
    return tuple(each for each in module.values() if isinstance(each, Metric))
