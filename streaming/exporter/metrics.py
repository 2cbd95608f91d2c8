"""The exposition: aggregates and series of partitions and replicas, in text format 0.0.4.

Rendered when a picture is new, not when it is scraped; only what depends on the clock (up, age) is
written at the scrape. Blocks of shards that did not change are kept.
"""

from __future__ import annotations

import time
import zlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol

import numpy as np

from streaming.bus.view import Picture, Piece
from streaming.exporter import signals
from streaming.exporter.series import (
    Labels,
    escaped,
    labels_of,
    partition_series,
    replica_series,
    same_labels,
    series_per_row,
)
from streaming.runtime.config import Exporter
from twin.fleet import Fleet
from twin.metrics import METRICS, Metric
from twin.rules.risks import BY_NAME
from twin.tables import UNKNOWN
from twin.totals import Totals

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Samples = list[tuple[str, float]]  # label text and value


@dataclass(slots=True)
class _Block:
    """The rendered series of one piece, and what they were rendered from."""

    fleet: Fleet
    text: dict[str, bytes]
    labels: Labels
    series: int


@dataclass(frozen=True, slots=True)
class Exposition:
    """All but the clock's own metrics, as bytes in order: blocks are shared, not copied."""

    picture: Picture = field(default_factory=Picture)
    blocks: tuple[bytes, ...] = ()


class Renderer:
    """Makes expositions; keeps the blocks of pieces that stay the same."""

    def __init__(self, cluster: str, config: Exporter) -> None:
        self._cluster = escaped(cluster)
        self._config = config
        self._blocks: dict[int, _Block] = {}
        self._dropped = 0

    def render(self, picture: Picture) -> Exposition:
        """The exposition of a picture."""
        began = time.perf_counter()
        blocks = self._series(picture)
        samples = self._aggregates(picture)
        own = f'cluster="{self._cluster}"'
        samples["kafka_twin_exporter_series"] = [(own, sum(block.series for block in blocks))]
        samples["kafka_twin_exporter_render_seconds"] = [(own, time.perf_counter() - began)]
        parts: list[bytes] = []
        for metric in METRICS:
            if metric.name in _AT_SCRAPE:
                continue
            body = [block.text[metric.name] for block in blocks if metric.name in block.text]
            lines = _lines(metric, samples.get(metric.name, []))
            if lines or any(body):
                parts += [header(metric) + lines, *body]
        return Exposition(picture, tuple(parts))

    # ------------------------------------------------------------ series

    def _series(self, picture: Picture) -> list[_Block]:
        """A block a piece: partitions at risk first, the others as far as the cap allows."""
        detailed = self._config.granularity == "partition"
        risky = [int((p.fleet.risks != 0).sum()) for p in picture.pieces]
        calm = [
            len(p.fleet) - r if detailed else 0 for p, r in zip(picture.pieces, risky, strict=True)
        ]
        cost = [series_per_row(p.fleet) for p in picture.pieces]
        left = self._config.max_series - sum(r * c for r, c in zip(risky, cost, strict=True))
        wanted = sum(n * c for n, c in zip(calm, cost, strict=True))
        share = 1.0 if wanted <= max(left, 0) else max(left, 0) / wanted
        kept: dict[int, _Block] = {}
        for piece, n in zip(picture.pieces, calm, strict=True):
            shard = piece.fleet.shard
            kept[shard] = self._block(piece, self._blocks.get(shard), int(n * share), detailed)
        self._blocks = kept
        return list(kept.values())

    def _block(self, piece: Piece, old: _Block | None, calm: int, detailed: bool) -> _Block:
        fleet = piece.fleet
        at_risk = np.flatnonzero(fleet.risks != 0)
        others = np.flatnonzero(fleet.risks == 0)
        rows = np.sort(np.concatenate([at_risk, others[:calm]]))
        same_rows = old is not None and np.array_equal(old.labels.rows, rows)
        if old is not None and same_rows and old.fleet is fleet:
            return old
        kept = old is not None and same_rows and same_labels(old.fleet, fleet)
        labels = old.labels if old is not None and kept else labels_of(fleet, rows)
        text: dict[str, bytes] = {}
        series = 0
        for name, lines in chain(
            partition_series(fleet, labels), replica_series(fleet, labels, fleet.observed_at_ms)
        ):
            text[name] = "".join(lines).encode()
            series += len(lines)
        if detailed:
            self._dropped += (len(others) - calm) * series_per_row(fleet)
        return _Block(fleet, text, labels, series)

    # ------------------------------------------------------------ aggregates

    def _aggregates(self, picture: Picture) -> dict[str, Samples]:
        told: dict[str, Samples] = defaultdict(list)

        def say(name: str, value: float, **labels: object) -> None:
            told[f"kafka_twin_{name}"].append((self._labels(**labels), value))

        totals = picture.totals
        say("shards", picture.known_shards)
        say("series_dropped_total", self._dropped)
        if picture.pieces:
            say("state_bytes", picture.state_bytes)
        for name, spent_ms in (("cycle_seconds", picture.cycle_ms),
                               ("told_after_seconds", picture.told_after_ms)):  # fmt: skip
            if spent_ms != UNKNOWN:
                say(name, spent_ms / 1000)
        say("exporter_snapshots_read_total", picture.snapshots_read)
        for reason, count in sorted(picture.refused.items()):
            say("observations_refused_total", count, reason=reason)
        for reason, count in sorted(picture.snapshots_refused.items()):
            say("snapshots_refused_total", count, reason=reason)
        for kind, count in sorted(picture.events.items()):
            say("events_total", count, kind=kind)
        for result, count in sorted(picture.annotations.items()):
            say("annotations_total", count, result=result)
        for name, count in totals.cluster.items():
            say(name, count)
        for risk, count in totals.risk.items():
            say("partitions_at_risk", count, risk=risk, severity=BY_NAME[risk].severity)
        for report, count in totals.reports_per_hour.items():
            say("kip1303_reports_per_second", count / 3600, report=report)
        _racks(totals, say)
        _domain(totals, say)
        if self._config.granularity != "cluster":
            for (name, topic), count in totals.topic.items():
                say(f"topic_{name}", count, topic=topic)
        racks = self._brokers(picture, say)
        for name, value, labels in signals.samples(picture, racks):
            say(name, value, **labels)
        for (name, broker), count in sorted(totals.broker.items()):
            say(f"broker_{name}", count, broker=broker, rack=racks.get(broker, ""))
        for (broker, rule, outcome), count in sorted(totals.loss.items()):
            say("broker_loss_partitions", count, broker=broker, rack=racks.get(broker, ""),
                rule=rule, outcome=outcome)  # fmt: skip
        return told

    def _brokers(self, picture: Picture, say: _Say) -> dict[int, str]:
        fleet = picture.newest
        if fleet is None:
            return {}
        b = fleet.brokers
        racks: dict[int, str] = {}
        for i, broker in enumerate(b.broker.tolist()):
            racks[broker] = rack = str(b.rack[i])
            say("broker_info", 1, broker=broker, rack=rack, host=b.host[i])
            say("broker_answered", int(b.answered[i]), broker=broker, rack=rack)
            for name in ("fenced", "log_dir_usable_bytes"):
                value = int(getattr(b, name)[i])
                if value != UNKNOWN:
                    say(f"broker_{name}", value, broker=broker, rack=rack)
        return racks

    def _labels(self, **labels: object) -> str:
        more = "".join(f',{name}="{escaped(str(value))}"' for name, value in labels.items())
        return f'cluster="{self._cluster}"{more}'


def _racks(totals: Totals, say: _Say) -> None:
    leaders: defaultdict[str, list[int]] = defaultdict(list)
    for (name, rack), count in sorted(totals.rack.items()):
        if name.startswith("leaders_"):
            rule = name.removeprefix("leaders_")
            leaders[rule].append(count)
            say("rack_leaders", count, rack=rack, rule=rule)
        else:
            say(f"rack_{name}", count, rack=rack)
    for rule, counts in leaders.items():
        if sum(counts):
            say("rack_leader_skew", max(counts) * len(counts) / sum(counts), rule=rule)
    for rack, seconds in totals.seconds_to_balance.items():
        say("rack_seconds_to_balance", seconds, rack=rack)


def _domain(totals: Totals, say: _Say) -> None:
    for (feature, path), count in totals.join_paths.items():
        say("partitions_by_join_path", count, feature=feature, path=path)
    for feature, size in totals.join_bytes.items():
        say("join_bytes", size, feature=feature)
    for name, label, counts in (
        ("replicas_joining", "path", totals.joining),
        ("replicas_joining_stuck", "reason", totals.stuck),
        ("replicas_out_of_range_window", "case", totals.out_of_range),
        ("isr_shrinks_recent", "verdict", totals.shrinks),
        ("isr_shrinks_preventable", "kept", totals.shrinks_kept),
    ):
        for value, count in counts.items():
            say(name, count, **{label: value})


class _Say(Protocol):
    """Notes one sample of an aggregate."""

    def __call__(self, name: str, value: float, **labels: object) -> None: ...


def at_scrape(cluster: str, picture: Picture, now_ms: int) -> bytes:
    """What depends on the clock: whether the twin is up, and how old its knowledge is."""
    label = f'cluster="{escaped(cluster)}"'
    samples: dict[str, Samples] = {
        "kafka_twin_up": [(label, 0 if picture.why_not_up(now_ms) else 1)]
    }
    if picture.observed_at_ms != UNKNOWN:
        age = max(now_ms - picture.observed_at_ms, 0) / 1000
        samples["kafka_twin_observation_age_seconds"] = [(label, age)]
    return b"".join(
        header(metric) + _lines(metric, samples[metric.name])
        for metric in METRICS
        if metric.name in samples
    )


def header(metric: Metric) -> bytes:
    """HELP and TYPE."""
    text = metric.help.replace("\\", r"\\")
    return f"# HELP {metric.name} {text}\n# TYPE {metric.name} {metric.kind}\n".encode()


def zipped(parts: Iterable[bytes]) -> bytes:
    """For scrapers that ask: most of it is repetition, so the fastest level does."""
    packer = zlib.compressobj(1, wbits=zlib.MAX_WBITS | _GZIP)
    return b"".join([*map(packer.compress, parts), packer.flush()])


def _lines(metric: Metric, samples: Iterable[tuple[str, float]]) -> bytes:
    return "".join(f"{metric.name}{{{labels}}} {value}\n" for labels, value in samples).encode()


_GZIP: Final = 16
"""Added to zlib's window bits it means gzip."""

_AT_SCRAPE: Final = {"kafka_twin_up", "kafka_twin_observation_age_seconds"}
