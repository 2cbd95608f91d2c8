"""The demo's screen: the exporter's answers as text for one terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_OUTCOMES = ("clean_warm", "clean_thin", "elr", "last_known", "unclean", "none")
_TITLES = ("in sync", "in sync,thin", "ELR", "last known", "unclean", "nobody")


def draw(
    summary: Mapping[str, Any], brokers: Sequence[Mapping[str, Any]], risky: Mapping[str, Any],
    url: str, alerts: str | None, home: str, bootstrap: str, program: str,
) -> str:  # fmt: skip
    """One screen: the cluster, what losing each broker does, partitions at risk, where to look.

    ``program`` and ``home`` are as a person types them in the folder where this runs.
    """
    age = summary["age_seconds"]
    lines = [
        f"kafka-twin · cluster {summary['cluster']} · last observation "
        + ("unknown" if age is None else f"{age:.1f} s ago")
        + ("" if summary["up"] else f" · NOT UP: {summary['why_not_up']}"),
        "",
        f"  partitions {summary['partitions']:>5}    at risk {summary['at_risk']:>4}    "
        f"offline {summary['partitions_offline']:>3}    "
        f"under min ISR {summary['partitions_under_min_isr']:>3}    "
        f"thin replicas {summary['thin_replicas']:>3}    "
        f"thin leaders {summary['partitions_leader_thin']:>3}",
        "",
        "  If this broker went now, its partitions would be led by a replica that is",
        "  (Kafka's rule; KIP-1303's in brackets where it differs. thin: less log on its own disk",
        "  than the threshold; ELR: left the ISR, but has every committed record)",
        "  broker rack  state    leads "
        + "".join(f"{t:>14}" for t in _TITLES)
        + "  under min ISR then",
    ]
    for broker in brokers:
        lines.append(_broker(broker))
    lines += ["", "  Partitions at risk" if risky["total"] else "  No partition is at risk."]
    for partition in risky["partitions"]:
        lines.append(_partition(partition))
    if risky["total"] > len(risky["partitions"]):
        lines.append(f"    and {risky['total'] - len(risky['partitions'])} more")
    lines += [
        "",
        f"  page    {url}/         metrics  {url}/metrics",
        *([f"  alerts  {alerts}/alerts"] if alerts else []),
        f"  kafka   {bootstrap}",
        f"  logs    {home}/twin/logs",
        f"  try     {program} cluster kill 3 --home {home}      (start it again: start)",
        "          Ctrl-C stops everything.",
    ]
    return "\n".join(lines) + "\n"


def _broker(broker: Mapping[str, Any]) -> str:
    state = "fenced" if broker["fenced"] else "answers" if broker["answered"] else "silent"
    cells = []
    for outcome in _OUTCOMES:
        kafka, kip = (broker["loss"][rule][outcome] for rule in ("kafka", "kip1303"))
        text = str(kafka or "·") if kafka == kip else f"{kafka} ({kip})"
        cells.append(f"{text:>14}")
    return (
        f"  {broker['broker']:>6} {broker['rack'] or '-':<5} {state:<8} {broker['leaders']:>5} "
        + "".join(cells)
        + f"  {broker['loss_under_min_isr_partitions'] or '·':>18}"
    )


def _partition(partition: Mapping[str, Any]) -> str:
    name = f"{partition['topic']}-{partition['partition']}"
    kafka, kip = (partition["if_leader_lost"][rule] for rule in ("kafka", "kip1303"))
    after = f"then {_next(kafka)}"
    if kafka != kip:
        after += f"; under KIP-1303 {_next(kip)}"
    leader = partition["leader"] if partition["leader"] >= 0 else "nobody"
    risks = ", ".join(partition["risks"]).replace("_", " ")
    return f"    {name:<28} led by {leader:<7} {risks:<36} {after}"


def _next(answer: Mapping[str, Any]) -> str:
    word = str(answer["outcome"]).replace("_", " ")
    return word if answer["leader"] < 0 else f"{answer['leader']} ({word})"
