"""Which shards have reported to the cluster's own shard; cluster rules wait for all of them.

The cluster's own shard observes the ``ShardReport`` tables of the others. A finding about the whole
cluster needs the reports of all of them, so a cluster rule is called only while all of them
are present and recent. Otherwise its table has no rows, its metrics have no series, and its risks
stay as they were. A table that its rule computes from its earlier rows keeps them meanwhile, or a
shard that is late for a minute would end a memory of days. The engine ensures that, so no rule can
forget it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from twin.declarations.declare import Metric, Rule
from twin.declarations.signature import Cycle, Parameter, Reads, parameters, without_groups
from twin.declarations.table import ClusterTable, Int32, Int64, ShardReport, Table, Text, column
from twin.rules.partitions.staleness import STALE_MS

CLUSTER: Final = -1
"""The number of the cluster's own shard."""


class ReportIndex(ClusterTable, kind="report_index"):
    """[K] one row a shard and report, sorted by report and shard: the newest that arrived."""

    report: Text = column("kind of the report", fill="")
    shard: Int32 = column("shard that sent it")
    shards: Int32 = column("number of shards")
    observed_at_ms: Int64 = column("cycle that it is about")
    rows: Int64 = column("its rows in the table of that kind, behind those of the row above")

    def missing(self, report: str, cycle: Cycle) -> int:
        """How many shards have not sent that report for STALE_MS; 1 before any has."""
        mine = self.report == report
        if not mine.any():
            return 1
        recent = cycle.observed_at_ms - self.observed_at_ms[mine] <= STALE_MS
        return int(self.shards[mine][0]) - int(recent.sum())


Reports = frozenset[type[ShardReport]]


def reports_behind(rules: Mapping[type[Table], Rule]) -> Callable[[Iterable[Parameter]], Reports]:
    """A function from parameters to the reports that they depend on, directly or through rules."""

    def behind(reads: Iterable[Parameter]) -> Reports:
        reports: set[type[ShardReport]] = set()
        seen: set[type[Table]] = set()  # rules that need each other are refused later
        left = list(reads)
        while left:
            for each in without_groups([left.pop()]):
                table = each.table
                if table is None or each.reads not in (Reads.TABLE, Reads.LAZY) or table in seen:
                    continue
                seen.add(table)
                if issubclass(table, ShardReport):
                    reports.add(table)
                elif table in rules:
                    left += rules[table].reads
        return frozenset(reports)

    return behind


def are_whole(reports: Reports, index: ReportIndex, cycle: Cycle) -> bool:
    """Every shard has recently sent each of those reports."""
    return not any(index.missing(each.kind, cycle) for each in reports)


def rule_if_whole(rule: Rule, reports: Reports) -> Rule:
    """The rule, changed to keep its table while a report of a shard is missing.

    A table that does not depend on its own earlier rows has none meanwhile.
    """
    remembers = [p.name for p in rule.reads if (p.reads, p.table) == (Reads.BEFORE, rule.makes)]
    compute = _if_whole(
        rule.compute,
        reports,
        rule.makes.from_values(_no_rows(rule.makes)),
        remembers[0] if remembers else "",
    )
    return replace(rule, compute=compute, reads=(*_GATE, *rule.reads))


def metric_if_whole(metric: Metric, reports: Reports) -> Metric:
    """The metric, changed to have no series while a report of a shard is missing."""
    assert metric.compute is not None  # the catalog refuses a cluster's metric without
    return replace(
        metric,
        compute=_if_whole(metric.compute, reports, {}),
        reads=(*_GATE, *metric.reads),
    )


def _no_rows(table: type[Table]) -> Iterable[Any]:
    assert issubclass(table, ClusterTable)  # the catalog refuses other tables
    return table.empty().values()


def _gate(_index: ReportIndex, _cycle: Cycle) -> None:
    """Never called: its signature declares the parameters that the check needs."""


_GATE: Final = parameters(_gate)


def _if_whole(
    function: Callable[..., Any], reports: Reports, otherwise: Any, kept: str = ""
) -> Callable[..., Any]:
    """The function; ``otherwise`` while a report is missing, or the input of the name ``kept``."""

    def call(_index: ReportIndex, _cycle: Cycle, **inputs: Any) -> Any:
        if are_whole(reports, _index, _cycle):
            return function(**inputs)
        return inputs[kept] if kept else otherwise

    return call


def missing_reports(index: ReportIndex, cycle: Cycle) -> int:
    """How many shards have not reported for STALE_MS."""
    return max((index.missing(each, cycle) for each in np.unique(index.report)), default=1)
