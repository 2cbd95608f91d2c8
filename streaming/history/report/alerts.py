"""What began and alerted nobody: risks that were gone before the wait of their alert was over.

There is one alert for a risk and cluster, so it waits while any partition has the risk. When
Prometheus evaluates is not known here: a risk that lasted about as long as its wait is not listed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from streaming.history.report.happenings import Happening
from streaming.history.report.model import Unalerted
from streaming.runtime.quantities import UNITS_MS
from twin.declarations.declare import Risk
from twin.engine.catalog import Catalog

_INFO: Final = "its severity is info: the alert is for a log, and pages nobody"
_NOT_INSTALLED: Final = "its rule is not installed here: whether it alerts is not known"


def unalerted(
    catalog: Catalog,
    at_ms: Sequence[int],
    alerting: Sequence[Counter[str]],
    happenings: Sequence[Happening],
) -> list[Unalerted]:
    """Risks that began in the span and told nobody, in order of time.

    Args:
        catalog: the rules, with the alerts of their risks.
        at_ms: the cycles of the span.
        alerting: by cycle, the number of partitions or brokers that each alert counts.
        happenings: among them risks of rules that are not in the catalog.
    """
    found = [
        each
        for risk in catalog.all_risks
        for each in _of_risk(risk, at_ms, [counts[risk.name] for counts in alerting])
    ]
    known = {risk.name for risk in catalog.all_risks}
    opened: dict[str, list[Happening]] = {}
    for each in happenings:
        kind, _, name = each.kind.partition("/")
        if kind == "risk_opened" and name not in known:
            opened.setdefault(name, []).append(each)
    found += [
        Unalerted(
            name, "unknown", each[0].at_ms, (at_ms[-1] - each[0].at_ms) / 1_000, False,
            len(each), _NOT_INSTALLED,
        )
        for name, each in opened.items()
    ]  # fmt: skip
    return sorted(found, key=lambda each: (each.at_ms, each.risk))


def _of_risk(risk: Risk, at_ms: Sequence[int], counts: Sequence[int]) -> Iterator[Unalerted]:
    wait_ms = milliseconds(risk.alert.wait)
    for first, last in _stretches(counts):
        if first == 0:
            continue  # it began before the span
        is_over = last + 1 < len(at_ms)
        end_ms = at_ms[last + 1] if is_over else at_ms[last]
        lasted_ms = end_ms - at_ms[first]
        if risk.severity == "info":
            why = _INFO
        elif lasted_ms >= wait_ms:
            continue
        elif is_over:
            why = f"it was gone before {risk.alert.wait}, the wait of its alert, was over"
        else:
            why = f"its alert waits for {risk.alert.wait}, and the span ends before that"
        yield Unalerted(
            risk.name, risk.severity, at_ms[first], lasted_ms / 1_000, is_over,
            max(counts[first : last + 1]), why,
        )  # fmt: skip


def _stretches(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last place of each stretch of numbers above 0."""
    begin = None
    for number, count in enumerate([*counts, 0]):
        if count and begin is None:
            begin = number
        elif not count and begin is not None:
            yield begin, number - 1
            begin = None


def milliseconds(duration: str) -> int:
    """A duration as Prometheus writes it: ``30s``, ``5m``."""
    parts = re.findall(r"([0-9]+)([dhms])", duration)
    return sum(int(number) * UNITS_MS[unit] for number, unit in parts)
