"""The worst true thing about a cluster, in a sentence: an ordered cascade, the first that holds.

Each step says why it stands where it does. Nothing is judged here: risks, losses and forecasts are
those of the cluster's own pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.views.cluster import ClusterRisk, RiskCount, shards_not_reported
from streaming.questions.headline.remote_storage import of_remote_storage
from streaming.questions.headline.worst_losses import WorstBroker, WorstRack
from streaming.questions.single_loss import SingleLoss
from streaming.runtime.quantities import utc_text
from twin.arrays.plain import counted, enumerated
from twin.cluster_rules.disks.disk_full import DiskForecasts
from twin.engine.catalog import Catalog

Severity = Literal["critical", "warning", "info", "ok", "unknown"]

SEVERITY_OF: Final[Mapping[str, Severity]] = {
    "page": "critical",
    "warn": "warning",
    "info": "info",
}
"""Of a risk, by what it asks people to do."""

SAID_APART: Final = (
    "cluster_silent", "partition_offline", "remote_storage_failing", "disk_full_soon", "disk_fills",
)  # fmt: skip
"""Risks of which a step of their own says more than their sentence does."""

_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class WorstThing:
    """A sentence, how bad it is, and what orders clusters of which the same holds.

    ``rank``: the number of its step. ``weight``: more is worse.
    """

    rank: int
    severity: Severity
    sentence: str
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Known:
    """What the API says of the cluster of a view."""

    catalog: Catalog
    view: ClusterView
    risks: Mapping[str, RiskCount]
    cluster_risks: Mapping[str, ClusterRisk]
    loss: SingleLoss
    worst_broker: WorstBroker | None
    worst_rack: WorstRack | None


Found = tuple[Severity, str, float] | None


def not_up(why: str) -> WorstThing:
    """Nothing is known of how the cluster is now, whatever was known before: before all steps."""
    sentence = f"{why[0].upper()}{why[1:]}"
    return WorstThing(0, "unknown", sentence if sentence[-1] in ".?!" else f"{sentence}.")


def worst_thing(known: Known) -> WorstThing:
    """The first step that holds; the last one always does."""
    for rank, step in enumerate(_STEPS, 1):
        if (found := step(known)) is not None:
            return WorstThing(rank, *found)
    raise AssertionError("the last step always holds")


# ---------------------------------------------------------------- the steps, the worst first


def _silent(known: Known) -> Found:
    """First, since all that follows is of a time when some broker answered."""
    if not known.cluster_risks["cluster_silent"]["open"]:
        return None
    return "critical", known.loss["sentence"], 0.0


def _offline(known: Known) -> Found:
    """Somebody cannot write or read now."""
    offline = int(known.view.totals.value("kafka_twin_partitions_offline"))
    if not offline:
        return None
    has = counted(offline, "partition has", "partitions have")
    return "critical", f"{has} no leader.", float(offline)


def _critical(known: Known) -> Found:
    """What pages somebody is worse than what will."""
    return next(_open_risks(known, "page"), None)


def _remote_storage(known: Known) -> Found:
    """Disks fill from here on: before the disks that do."""
    if not known.cluster_risks["remote_storage_failing"]["open"]:
        return None
    risk = known.cluster_risks["remote_storage_failing"]
    sentence = of_remote_storage(known.view).strip()
    return "critical", sentence or _as_sentence(risk["meaning"]), 0.0


def _disk_full(known: Known) -> Found:
    """A broker stops within hours."""
    return _full_disk(known, "disk_full_soon")


def _loss(known: Known) -> Found:
    """One more fault is an outage."""
    worst = known.worst_broker
    if worst is None:
        return None
    if worst["offline"]:
        would = f"take {counted(worst['offline'], 'partition')} offline"
    elif worst["unclean"]:
        would = f"risk records of {counted(worst['unclean'], 'partition')}"
    else:
        would = f"leave {counted(worst['harmed'], 'partition')} under min ISR"
    others = worst["cannot_be_lost"] - 1
    more = f"; {counted(others, 'other broker', 'other brokers')} cannot be lost either"
    sentence = f"Losing broker {worst['broker']} would {would}{more if others else ''}."
    return "warning", sentence, float(worst["harmed"])


def _disk_fills(known: Known) -> Found:
    """A broker stops within a day or so."""
    return _full_disk(known, "disk_fills")


def _warning(known: Known) -> Found:
    """Nobody is paged, and somebody should look."""
    return next(_open_risks(known, "warn"), None)


def _not_judged(known: Known) -> Found:
    """What follows says that nothing is wrong, so all must have been looked at."""
    loss = known.loss
    if not loss["can_be_lost"]:
        return "unknown", loss["sentence"], 0.0
    if known.view.cluster is None or shards_not_reported(known.view.cluster):
        sentence = "Of disks, controllers and remote storage nothing is known at present."
        return "unknown", sentence, 0.0
    return None


def _rack(known: Known) -> Found:
    """Any broker can be lost; what many build racks for is more."""
    rack = known.worst_rack
    if rack is None or (rack["elects"] is not False and not rack["offline"]):
        return None
    what = (
        "no majority of the controllers would be left"
        if rack["elects"] is False
        else f"{counted(rack['offline'], 'partition')} would be offline"
    )
    sentence = f"You can lose any one broker, and not rack {rack['rack']}: {what}."
    return "info", sentence, float(rack["offline"])


def _nothing(known: Known) -> Found:
    """The sentence of the cluster's own page."""
    return "ok", known.loss["sentence"], 0.0


_STEPS: Final[tuple[Callable[[Known], Found], ...]] = (
    _silent, _offline, _critical, _remote_storage, _disk_full, _loss, _disk_fills, _warning,
    _not_judged, _rack, _nothing,
)  # fmt: skip


# ---------------------------------------------------------------- what they share


def _open_risks(known: Known, severity: str) -> Iterator[tuple[Severity, str, float]]:
    """The open risks of that severity in the order of their ranks, each as a sentence."""
    of_cluster, of_partitions = known.cluster_risks, known.risks
    for risk in known.catalog.all_risks:
        if risk.severity != severity or risk.name in SAID_APART:
            continue
        if risk.name in of_partitions:
            count = int(of_partitions[risk.name]["partitions"] or 0)
            said = f"{_of_partitions(count)}{risk.sentence}"
        elif of_cluster[risk.name]["open"]:
            brokers = of_cluster[risk.name]["brokers"]
            count = 1 if brokers is None else len(brokers)
            said = risk.sentence if brokers is None else f"{_named(brokers)}: {risk.sentence}"
        else:
            count = 0
        if count:
            yield SEVERITY_OF[severity], _as_sentence(said), float(count)


def _of_partitions(count: int) -> str:
    return "" if count == 1 else f"{count} partitions: "


def _named(brokers: list[int]) -> str:
    if len(brokers) > _MOST_NAMED:
        return f"{len(brokers)} brokers"
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {enumerated(brokers)}"


def _as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _full_disk(known: Known, name: str) -> Found:
    """The first full disk of the brokers that have that risk."""
    risk, own = known.cluster_risks[name], known.view.cluster
    if not risk["brokers"] or own is None:
        return None
    brokers, severity = risk["brokers"], SEVERITY_OF[risk["severity"]]
    forecasts = own[DiskForecasts]
    at_ms = np.where(np.isin(forecasts.broker, brokers), forecasts.full_at_earliest_ms, np.inf)
    first = int(np.argmin(np.nan_to_num(at_ms, nan=np.inf))) if len(at_ms) else 0
    if not len(at_ms) or not np.isfinite(at_ms[first]):
        return severity, _as_sentence(f"{_named(brokers)}: {risk['meaning']}"), 0.0
    full_ms, broker = round(float(at_ms[first])), int(forecasts.broker[first])
    others = len(brokers) - 1
    more = f"; {counted(others, 'other broker has one', 'other brokers have one')} too"
    sentence = (
        f"A disk of broker {broker} is full at {utc_text(full_ms)} at the earliest"
        f"{more if others else ''}."
    )
    return severity, sentence, -float(full_ms)
