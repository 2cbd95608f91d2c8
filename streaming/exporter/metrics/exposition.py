"""The exposition: sums and series of partitions and replicas, in both text formats.

Rendered once for a view, at the first scrape after it; only what depends on the clock (up, age) is
written at each scrape. Blocks of unchanged shards are used again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from streaming.bus.view import ClusterView, ShardView
from streaming.exporter import own_metrics as own
from streaming.exporter.agents.counts import CallCounts
from streaming.exporter.answers import DeflatedOnce
from streaming.exporter.events.stream import StreamCounts
from streaming.exporter.metrics.formats import FORMATS, OPEN_METRICS, PLAIN, Format
from streaming.exporter.metrics.kafka_exporter import KafkaExporterNames
from streaming.exporter.metrics.series import (
    Family,
    Labels,
    escaped,
    families,
    labels_of,
    lines,
    same_labels,
    series_by_row,
)
from streaming.exporter.metrics.series_budget import SeriesBudget
from streaming.questions.single_loss import single_loss
from streaming.runtime.config import ExporterConfig
from streaming.runtime.exposition.build import own_version
from twin.declarations.declare import LEVEL_LABELS, Level, Metric
from twin.declarations.table import UNKNOWN, Array
from twin.engine.catalog import Catalog
from twin.engine.risks import OpenRisks
from twin.engine.shard_state import ShardState
from twin.tables.state import Brokers
from twin.totals import LabelValues

CLASSES: Final = ("page", "warn", "info", "healthy")
"""Of partitions, by their worst open risk: in this order series are served while they fit."""

HEALTHY: Final = CLASSES.index("healthy")

Samples = list[tuple[str, float]]  # label text and value


@dataclass(slots=True)
class _Block:
    """The rendered series of one shard, and what they were rendered from."""

    plan: _Plan
    text: dict[str, bytes]
    labels: Labels
    series: int


@dataclass(frozen=True, slots=True)
class Exposition:
    """All metrics that do not depend on the clock, as ordered bytes: blocks are shared, not
    copied."""

    view: ClusterView = field(default_factory=ClusterView)
    blocks: tuple[bytes, ...] = ()
    open_metrics: tuple[bytes, ...] = (OPEN_METRICS.end,)  # the same with other headers
    loss_sentence: str = ""  # which brokers can be lost, in that view
    since_ms: int = UNKNOWN  # when the exporter began to count
    _deflated: dict[Format, DeflatedOnce] = field(
        default_factory=lambda: {each: DeflatedOnce() for each in FORMATS},
        compare=False,
        repr=False,
    )

    def blocks_in(self, text: Format) -> tuple[bytes, ...]:
        """The blocks in that format."""
        return self.open_metrics if text.is_open_metrics else self.blocks

    def gzipped_after(self, first: bytes, text: Format = PLAIN) -> bytes:
        """``first`` and the blocks as gzip; the blocks are compressed once."""
        return self._deflated[text].gzipped_after(first, self.blocks_in(text))


_LabelNames = tuple[Level, tuple[str, ...]]
"""The level of a metric, and the names of its own labels."""


class Renderer:
    """Makes expositions; keeps the blocks of shards that stay the same."""

    def __init__(
        self,
        catalog: Catalog,
        cluster: str,
        config: ExporterConfig,
        own_topics: Collection[str] = (),
        since_ms: int = UNKNOWN,
        budget: SeriesBudget | None = None,
    ) -> None:
        """
        Args:
            catalog: the rules.
            cluster: its name.
            config: what to export.
            own_topics: the twin's, if the bus is on the cluster that is watched.
            since_ms: when the exporter began to count.
            budget: shares the caps with other clusters; None if there are none.
        """
        self._catalog = catalog
        self._own_topics = own_topics
        self._name, self._cluster = cluster, escaped(cluster)
        self._budget = budget_of(config) if budget is None else budget
        self._wanted: list[int] = [0] * len(CLASSES)
        self._allowed: list[int] = self._wanted
        self._config, self._since_ms = config, since_ms
        self._blocks: dict[int, _Block] = {}
        # Labels of the last scrape's sums, as text: metrics share them, and most stay the same.
        self._label_texts: Mapping[_LabelNames, Mapping[LabelValues, str]] = {}
        self._racks: dict[str, str] = {}
        self._dropped = 0
        self._cut = dict.fromkeys(CLASSES, 0)
        self._kafka_exporter = KafkaExporterNames()

    def render(self, view: ClusterView) -> Exposition:
        """The exposition of a view."""
        began = time.perf_counter()
        blocks = self._series(view)
        samples = self._sums(view) | self._of_itself(view)
        samples[own.SERIES.series_name] = [(self._labels(), sum(b.series for b in blocks))]
        spent = time.perf_counter() - began
        samples[own.RENDER_SECONDS.series_name] = [(self._labels(), spent)]
        parts: dict[Format, list[bytes]] = {each: [] for each in FORMATS}
        for metric in (*own.OWN, *self._catalog.all_metrics):
            if metric in own.AT_SCRAPE:
                continue
            name = metric.series_name
            body = [block.text[name] for block in blocks if name in block.text]
            since_ms = self._since_ms if metric in own.OWN else UNKNOWN
            if samples.get(name) or any(body):
                listed = since = _lines(metric, samples.get(name, []))
                if since_ms != UNKNOWN and metric.type == "counter":
                    since = _lines(metric, samples.get(name, []), since_ms)
                parts[PLAIN] += [PLAIN.header(metric), listed, *body]
                parts[OPEN_METRICS] += [OPEN_METRICS.header(metric), since, *body]
        if self._config.compatibility == "kafka_exporter":
            rendered = [*self._kafka_exporter.render(view)]
            for found in parts.values():
                found += rendered
        plain, open_metrics = (tuple(parts[each]) for each in (PLAIN, OPEN_METRICS))
        loss = single_loss(view, self._own_topics)["sentence"]
        return Exposition(view, plain, (*open_metrics, OPEN_METRICS.end), loss, self._since_ms)

    # ------------------------------------------------------------ series

    def _series(self, view: ClusterView) -> list[_Block]:
        """One block for each shard: as many partitions as the caps allow, the worst first."""
        planned = [self._plan(shard) for shard in view.shards]
        shares = self._shares(planned)
        kept: dict[int, _Block] = {}
        self._cut = dict.fromkeys(CLASSES, 0)
        for plan in planned:
            rows = plan.exported_rows(shares)
            for name, cut in zip(CLASSES, plan.cut(shares), strict=True):
                self._cut[name] += cut
            number = plan.state.shard
            kept[number] = _block(plan, rows, self._blocks.get(number))
        self._dropped += sum(self._cut.values())
        self._blocks = kept
        return list(kept.values())

    def _shares(self, planned: Sequence[_Plan]) -> list[float]:
        """Of each class, the share of its series that fits, the same in all shards."""
        self._wanted = [
            sum(int(plan.series[number].sum()) for plan in planned)
            for number in range(len(CLASSES))
        ]
        self._allowed = self._budget.allowed(self._name, self._wanted)
        pairs = zip(self._allowed, self._wanted, strict=True)
        return [1.0 if allowed == wanted else allowed / wanted for allowed, wanted in pairs]

    @property
    def is_outdated(self) -> bool:
        """Whether the same view has another share of the caps now, since others want more or
        less."""
        return self._allowed != self._budget.allowed(self._name, self._wanted)

    def _plan(self, shard: ShardView) -> _Plan:
        """The plan of a shard; kept while the shard is the same."""
        block = self._blocks.get(shard.state.shard)
        if block is not None and block.plan.state is shard.state:
            return block.plan
        return _Plan.from_state(shard.state, self._config.granularity)

    # ------------------------------------------------------------ sums

    def _sums(self, view: ClusterView) -> dict[str, Samples]:
        """Samples of the catalog's summed metrics."""
        racks = _racks(view)
        before = self._label_texts if racks == self._racks else {}
        label_texts: defaultdict[_LabelNames, dict[LabelValues, str]] = defaultdict(dict)
        self._label_texts, self._racks = label_texts, racks
        by_series: dict[str, Samples] = {}
        for metric in self._catalog.all_metrics:
            by_topic = metric.level in ("topic", "group_topic")
            if by_topic and self._config.granularity == "cluster":
                continue
            names = metric.level, metric.labels
            texts, known = label_texts[names], before.get(names, {})
            listed = by_series[metric.series_name] = []
            for values, value in sorted(view.totals[metric.series_name].items()):
                text = texts.get(values)
                if text is None:
                    text = known.get(values) or self._labels(*_named(metric, values, racks))
                    texts[values] = text
                listed.append((text, value))
        return by_series

    def _of_itself(self, view: ClusterView) -> dict[str, Samples]:
        """Samples of the exporter's own metrics."""
        by_series: defaultdict[str, Samples] = defaultdict(list)

        def add(metric: Metric, value: float, *labels: str) -> None:
            pairs = zip(metric.labels, labels, strict=True)
            by_series[metric.series_name].append((self._labels(*pairs), value))

        add(own.BUILD, 1, own_version())
        add(own.SHARDS, len(view.shards))
        add(own.SERIES_DROPPED, self._dropped)
        for name, cut in self._cut.items():
            add(own.SERIES_CUT, cut, name)
        if view.shards:
            add(own.STATE_BYTES, view.state_bytes)
        for metric, spent_ms in (
            (own.CYCLE_SECONDS, view.cycle_ms),
            (own.LATENCY, view.end_to_end_latency_ms),
        ):
            if spent_ms != UNKNOWN:
                add(metric, spent_ms / 1000)
        add(own.SNAPSHOTS_READ, view.snapshots_read)
        for metric, counts in (
            (own.OBSERVATIONS_REFUSED, view.refused),
            (own.SNAPSHOTS_REFUSED, view.snapshots_refused),
            (own.EVENTS, view.events),
            (own.ANNOTATIONS, view.annotations),
        ):
            for value, count in sorted(counts.items()):
                add(metric, count, value)
        return dict(by_series)

    def _labels(self, *pairs: tuple[str, str]) -> str:
        more = "".join(f',{name}="{escaped(value)}"' for name, value in pairs)
        return f'cluster="{self._cluster}"{more}'


def budget_of(config: ExporterConfig) -> SeriesBudget:
    """The caps of the configuration."""
    at_risk = [config.max_series_at_risk] * HEALTHY
    return SeriesBudget([*at_risk, config.max_series])


@dataclass(frozen=True, slots=True)
class _Plan:
    """The series of a shard by class: the severity of the worst open risk, and healthy ones.

    ``families`` is emptied after rendering: they take more memory than the state.
    """

    state: ShardState
    families: list[Family]
    rows: list[Array]  # by class
    series: list[Array]  # by class, how many series each of the rows has

    @staticmethod
    def from_state(state: ShardState, granularity: str) -> _Plan:
        """The plan of a state."""
        all_families = families(state)
        count = series_by_row(state, all_families)
        bits, rows = state[OpenRisks].bits, []
        is_taken = np.zeros(len(bits), bool)
        for name in CLASSES[:HEALTHY]:
            risks = state.catalog.risks
            mask = sum(1 << i for i, risk in enumerate(risks) if risk.severity == name)
            mine = ((bits & mask) != 0) & ~is_taken
            rows.append(np.flatnonzero(mine))
            is_taken |= mine
        healthy = np.flatnonzero(bits == 0)
        rows.append(healthy if granularity == "partition" else healthy[:0])
        return _Plan(state, all_families, rows, [count[each] for each in rows])

    def exported_rows(self, shares: Sequence[float]) -> Array:
        """Rows that are exported if that share of the series of each class fits."""
        fitting = self._fitting(shares)
        kept = [rows[:n] for rows, n in zip(self.rows, fitting, strict=True)]
        return np.sort(np.concatenate(kept))

    def cut(self, shares: Sequence[float]) -> list[int]:
        """The number of series of each class that are left out at those shares."""
        fitting = self._fitting(shares)
        return [int(series[n:].sum()) for series, n in zip(self.series, fitting, strict=True)]

    def _fitting(self, shares: Sequence[float]) -> list[int]:
        """How many rows of each class fit."""
        return [
            len(series)
            if share >= 1
            else int(np.searchsorted(np.cumsum(series), series.sum() * share, side="right"))
            for series, share in zip(self.series, shares, strict=True)
        ]


def _block(plan: _Plan, rows: Array, old: _Block | None) -> _Block:
    state = plan.state
    if old is None or not np.array_equal(old.labels.rows, rows):
        labels = labels_of(state, rows)
    elif old.plan is plan:
        return old
    else:
        is_same = same_labels(old.plan.state, state)
        labels = old.labels if is_same else labels_of(state, rows)
    text: defaultdict[str, list[str]] = defaultdict(list)
    for family in plan.families or families(state):
        text[family.series_name] += lines(family, labels)
    series = sum(map(len, text.values()))
    encoded = {name: "".join(listed).encode() for name, listed in text.items() if listed}
    return _Block(replace(plan, families=[]), encoded, labels, series)


def _racks(view: ClusterView) -> dict[str, str]:
    state = view.newest
    if state is None:
        return {}
    brokers = state[Brokers]
    pairs = zip(brokers.broker.tolist(), brokers.rack.tolist(), strict=True)
    return {str(broker): str(rack) for broker, rack in pairs}


def _named(
    metric: Metric, values: tuple[str, ...], racks: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Names and values of all labels; a broker's rack comes after its id."""
    levels = LEVEL_LABELS[metric.level]
    follows = {"broker", "rack"} <= set(levels)
    names = [name for name in levels if not (follows and name == "rack")]
    for name, value in zip((*names, *metric.labels), values, strict=True):
        yield name, value
        if follows and name == "broker":
            yield "rack", racks.get(value, "")


_LAST_KNOWN: Final = "The twin is not up, and nothing is known now; last known state:"


def at_scrape(
    cluster: str,
    exposition: Exposition,
    now_ms: int,
    streams: StreamCounts = StreamCounts(),
    calls: CallCounts = CallCounts(),
    text: Format = PLAIN,
    is_up: bool | None = None,
) -> list[bytes]:
    """Samples that depend on the clock and on clients, whatever was observed.

    A block for the header of each metric, and one for its samples. Unless it is said whether the
    twin ``is_up``, the view says it.
    """
    label = f'cluster="{escaped(cluster)}"'
    view = exposition.view
    is_up = not view.why_not_up(now_ms) if is_up is None else is_up
    samples: dict[str, Samples] = {
        own.UP.series_name: [(label, int(is_up))],
        own.BUS_UP.series_name: [(label, 1 if view.bus.answers else 0)],
        own.EVENT_STREAMS.series_name: [(label, streams.open)],
        own.EVENT_GAPS.series_name: [(label, streams.gaps)],
        own.MCP_CALLS.series_name: [
            (f'{label},tool="{tool}",outcome="{outcome}"', count)
            for (tool, outcome), count in calls.now().items()
        ],
    }
    if loss := exposition.loss_sentence:
        # Without the age, which would make a new series at each scrape.
        loss = escaped(loss if is_up else f"{_LAST_KNOWN} {loss}")
        samples[own.LOSS.series_name] = [(f'{label},sentence="{loss}"', 1)]
    if view.observed_at_ms != UNKNOWN:
        age = max(now_ms - view.observed_at_ms, 0) / 1000
        samples[own.OBSERVATION_AGE.series_name] = [(label, age)]
    found = []
    for metric in own.AT_SCRAPE:
        if metric.series_name in samples:
            listed = samples[metric.series_name]
            since_ms = exposition.since_ms if text.is_open_metrics else UNKNOWN
            found += [text.header(metric), _lines(metric, listed, since_ms)]
    return found


def _lines(metric: Metric, samples: Samples, since_ms: int = UNKNOWN) -> bytes:
    """A line for each sample; with ``since_ms``, when a counter began to count behind each."""
    name = metric.series_name
    if since_ms == UNKNOWN or metric.type != "counter":
        return "".join(f"{name}{{{labels}}} {value}\n" for labels, value in samples).encode()
    created = f"{name.removesuffix('_total')}_created"
    return "".join(
        f"{name}{{{labels}}} {value}\n{created}{{{labels}}} {since_ms / 1_000}\n"
        for labels, value in samples
    ).encode()
