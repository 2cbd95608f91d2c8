"""The demo's screen: answers of the exporter's API as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streaming.questions.answer import safety_words
from streaming.runtime.terminal import table
from twin.kafka.election import OUTCOME_WORDS

_BROKERS = ("broker", "rack", "state", "leads", *OUTCOME_WORDS.values(), "cold", "not judged",
            "under min ISR then")  # fmt: skip
_NOT_JUDGED = ("not_judged", "assumed")
_SET_A_THRESHOLD = (
    "  No threshold is set, so no replica is called warm or cold. Set one in twin.toml:",
    "  [eligibility] local_log_ms = 600000   (kafka-twin whatif threshold --grid helps to choose)",
)
_PARTITIONS = ("partition", "led by", "risks", "next leader")
_INDENT = "  "


def draw(
    summary: Mapping[str, Any], brokers: Sequence[Mapping[str, Any]], risky: Mapping[str, Any],
    url: str, alerts: str | None, home: str, bootstrap: str, program: str, width: int | None = None,
) -> str:  # fmt: skip
    """One screen: the cluster, the effect of losing each broker, partitions at risk, and links.

    ``program`` and ``home`` are written as a user types them in the working directory. ``width`` is
    that of the terminal, None without a terminal.
    """
    age = summary["age_seconds"]
    lines = [
        f"kafka-twin · cluster {summary['cluster']} · last observation "
        + ("unknown" if age is None else f"{age:.1f} s ago")
        + ("" if summary["up"] else f" · NOT UP: {summary['why_not_up']}"),
        "",
        f"  {summary['loss']['sentence']}",
        "",
        f"  partitions {_count(summary, 'partitions'):>5}    "
        f"at risk {_count(summary, 'at_risk'):>4}    "
        f"offline {_count(summary, 'partitions_offline'):>3}    "
        f"under min ISR {_count(summary, 'partitions_under_min_isr'):>3}    "
        f"cold replicas {_cold_count(summary, 'cold_replicas'):>3}    "
        f"cold leaders {_cold_count(summary, 'partitions_leader_cold'):>3}",
        "",
        "  If this broker is lost now, its partitions are led by a replica that is",
        "  (Kafka's rule; KIP-1303's in brackets where it differs. ELR: left the ISR, but has all",
        "  committed records. Two more columns count these leaders again: cold, with less log on",
        "  its own disk than the threshold; not judged, without a threshold or a known number)",
    ]
    if _is_nothing_judged(summary):
        lines += ["", *_SET_A_THRESHOLD]
    lines += _table(_BROKERS, map(_broker, brokers), {0, *range(3, len(_BROKERS))}, width)
    lines += ["", "  Partitions at risk" if risky["total"] else "  No partition is at risk."]
    if risky["total"]:
        lines += _table(_PARTITIONS, map(_partition, risky["partitions"]), set(), width)
    if risky["total"] > len(risky["partitions"]):
        lines.append(f"    and {risky['total'] - len(risky['partitions'])} more")
    lines += [
        *_track_record(summary["predictions"]),
        *_isr_shrinks(summary.get("isr_shrinks_preventable")),
        "",
        f"  page    {url}/         metrics  {url}/metrics",
        *([f"  alerts  {alerts}/alerts"] if alerts else []),
        f"  kafka   {bootstrap}",
        f"  logs    {home}/twin/logs",
        f"  try     {program} cluster kill 3 --home {home}      (start it again: start)",
        "          Ctrl-C stops everything.",
    ]
    return "\n".join(lines) + "\n"


def _track_record(predictions: Mapping[str, Mapping[str, float]] | None) -> list[str]:
    """Leader changes by result of their predictions; empty before the first one."""
    results = Counter[str]()
    for counts in (predictions or {}).values():
        results.update({result: int(n) for result, n in counts.items()})
    if not results.total():
        return []
    return [
        "",
        f"  {results.total():,} leader changes: {results['right']:,} as predicted, "
        f"{results['wrong']} predicted wrong, {results['overtaken']} overtaken, "
        f"{results['unforeseen']} unforeseen",
    ]


def _isr_shrinks(by_kip501: Mapping[str, int] | None) -> list[str]:
    """Replicas that left an ISR, by the verdict of KIP-501; empty before the first one.

    None if the rules of KIP-501 are switched off.
    """
    if not by_kip501 or not sum(by_kip501.values()):
        return []
    yes, no, unknown = (by_kip501[name] for name in ("yes", "no", "unknown"))
    return [
        "",
        f"  replicas that left an ISR in the last 10 minutes: {yes + no + unknown:,}; "
        f"KIP-501 would have kept {yes}, not {no}, unknown {unknown}",
    ]


def _count(summary: Mapping[str, Any], name: str) -> str:
    """A count, which is null before the first snapshot was read."""
    return "-" if summary[name] is None else str(summary[name])


def _cold_count(summary: Mapping[str, Any], name: str) -> str:
    """A count of cold replicas; not 0 if none is judged, since 0 would mean that all are warm."""
    return "-" if _is_nothing_judged(summary) else _count(summary, name)


def _is_nothing_judged(summary: Mapping[str, Any]) -> bool:
    """Whether no topic has a threshold."""
    replicas = summary["replicas"]
    return bool(replicas) and summary["replicas_coverage_not_judged"] == replicas


def _table(
    header: Sequence[str], rows: Iterable[Sequence[object]], right: set[int], width: int | None
) -> list[str]:
    text = table(header, rows, right=right, width=width and max(width - len(_INDENT), 1))
    return [f"{_INDENT}{line}" for line in text.splitlines()]


def _broker(broker: Mapping[str, Any]) -> Sequence[object]:
    state = "fenced" if broker["fenced"] else "answers" if broker["answered"] else "silent"
    losses = broker["loss_partitions"]
    kafka, kip1303 = (_counts(losses.get(rule, losses["kafka"])) for rule in ("kafka", "kip1303"))
    outcomes = [
        str(now or "·") if now == then else f"{now} ({then})"
        for now, then in zip(kafka, kip1303, strict=True)
    ]
    return (
        broker["broker"],
        broker["rack"] or "-",
        state,
        broker["leaders"],
        *outcomes,
        broker["loss_under_min_isr_partitions"] or "·",
    )


def _counts(losses: Mapping[str, Mapping[str, int]]) -> list[int]:
    """Partitions by outcome, then those with a cold next leader, and with an unjudged one."""
    return [
        *(sum(losses[outcome].values()) for outcome in OUTCOME_WORDS),
        sum(by_coverage.get("cold", 0) for by_coverage in losses.values()),
        sum(by.get(name, 0) for by in losses.values() for name in _NOT_JUDGED),
    ]


def _partition(partition: Mapping[str, Any]) -> Sequence[object]:
    kafka = partition["next_leaders"]["kafka"]
    kip = partition["next_leaders"].get("kip1303", kafka)
    successor = _next(kafka)
    if kafka != kip:
        successor += f"; under KIP-1303 {_next(kip)}"
    return (
        f"{partition['topic']}-{partition['partition']}",
        partition["leader"] if partition["leader"] >= 0 else "nobody",
        ", ".join(partition["risks"]).replace("_", " "),
        successor,
    )


def _next(answer: Mapping[str, Any]) -> str:
    words = safety_words(answer)
    return words if answer["leader"] < 0 else f"{answer['leader']} ({words})"
