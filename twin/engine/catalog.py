"""All rules and what is declared with them, checked and put in order once.

``Catalog.from_modules`` takes modules that are written like those of ``twin.rules``: it reads the
tables and the decorated functions in each. A package from elsewhere adds its modules to the same
list. A catalog never changes, so programs pass it on like any other value.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from types import ModuleType
from typing import Any, Final

from twin.declarations.declare import (
    ApiField,
    ElectionRule,
    EventSource,
    Expiry,
    Ingest,
    Metric,
    OtherElections,
    Risk,
    Rule,
    declarations,
)
from twin.declarations.election_rules import with_each_election_rule
from twin.declarations.scopes import check_scopes, sees_cluster
from twin.declarations.signature import DeclarationError, Parameter, Reads, without_groups
from twin.declarations.table import (
    KAFKA,
    ClusterTable,
    Observation,
    ShardReport,
    Table,
)
from twin.engine.cluster_risks import (
    ClusterRisks,
    cluster_risk_events,
    cluster_risk_metrics,
    cluster_risk_rule,
)
from twin.engine.risks import (
    MAX_RISKS,
    OpenRisks,
    RiskConditions,
    RiskStates,
    risk_metrics,
    risk_rules,
)
from twin.engine.shard_reports import ReportIndex, metric_if_whole, reports_behind, rule_if_whole
from twin.tables import observations, state

Spec = (
    Rule | ElectionRule | OtherElections | Ingest | Expiry | Metric | Risk | EventSource | ApiField
)


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """All tables, rules and declarations. Mappings keep the order of declaration."""

    observations: Mapping[str, type[Observation]]
    ingests: Mapping[str, tuple[Ingest, ...]]
    expiries: tuple[Expiry, ...]
    rules: Mapping[type[Table], Rule]
    election_rules: Mapping[str, str]  # their titles by name, Kafka's first
    stored: tuple[type[Table], ...]
    on_demand: tuple[type[Table], ...]
    remembered: tuple[type[Table], ...]
    metrics: tuple[Metric, ...]
    risks: tuple[Risk, ...]
    events: tuple[EventSource, ...]
    api_fields: tuple[ApiField, ...]
    risk_names: tuple[str, ...] = field(default=())
    of_cluster: Catalog | None = None  # None in the cluster's own catalog

    @staticmethod
    def from_modules(modules: Iterable[ModuleType]) -> Catalog:
        """The catalog of those modules.

        Raises:
            DeclarationError: two modules declare the same thing, something is read or named that
                nobody declares, or rules depend on each other in a circle.
        """
        listed = (observations, state, *modules)
        specs = [spec for module in listed for spec in _specs(module)]
        tables = [table for module in listed for table in _tables(module)]
        metrics = _metrics(listed, specs)
        check_scopes((*specs, *metrics), _name)
        of_cluster: list[Spec] = [s for s in specs if sees_cluster(s) and not isinstance(s, Metric)]
        observed = [t for t in tables if issubclass(t, Observation)]
        _refuse_twice([t.kind for t in observed], "observation")
        of_shard = [each for each in specs if not sees_cluster(each)]
        frames = [t for t in observed if not issubclass(t, ShardReport)]
        kept = [t for t in tables if t not in frames and not issubclass(t, ClusterTable)]
        catalog = _of_shard(of_shard, kept, frames, [m for m in metrics if not sees_cluster(m)])
        of_cluster += [metric for metric in metrics if sees_cluster(metric)]
        own = _of_cluster(of_cluster, tables, catalog.ingests)
        own._check(of_cluster)
        catalog = replace(catalog, of_cluster=own)
        catalog._check(of_shard)
        catalog._check_together()
        return catalog

    @property
    def cluster(self) -> Catalog:
        """The catalog of the cluster's own shard."""
        assert self.of_cluster is not None  # it is None only in the cluster's own catalog
        return self.of_cluster

    @property
    def reports(self) -> tuple[type[ShardReport], ...]:
        """The tables that a shard reports to the cluster's own shard."""
        return tuple(table for table in self.on_demand if issubclass(table, ShardReport))

    @property
    def all_metrics(self) -> tuple[Metric, ...]:
        """The metrics of the shards and of the cluster's own shard."""
        return (*self.metrics, *(self.of_cluster.metrics if self.of_cluster else ()))

    @property
    def all_risks(self) -> tuple[Risk, ...]:
        """The risks of partitions, brokers and the cluster, by rank."""
        return tuple(sorted((*self.risks, *self.cluster.risks), key=lambda risk: risk.rank))

    def metric(self, series_name: str) -> Metric:
        """The metric of that name.

        Raises:
            KeyError: no metric has that name.
        """
        for metric in self.all_metrics:
            if metric.series_name == series_name:
                return metric
        raise KeyError(series_name)

    def tables_read(self, parameter: Parameter) -> tuple[type[Table], ...]:
        """The tables that a parameter reads: several if it reads one for each election rule."""
        if parameter.table is None:
            return ()
        if parameter.reads is not Reads.EACH_RULE:
            return (parameter.table,)
        return tuple(parameter.table.under(rule) for rule in self.election_rules or (KAFKA,))

    def _check(self, specs: Iterable[Spec]) -> None:
        self._check_names()
        self._check_tables()
        for spec in (*specs, *self.rules.values(), *self.metrics):
            for parameter in _reads(spec):
                self._check_parameter(spec, parameter)
        self._check_circles()

    def _check_names(self) -> None:
        metrics = [metric.series_name for metric in self.metrics]
        # OpenMetrics names a counter's family without _total, and the JSON API its field.
        _refuse_twice([name.removesuffix("_total") for name in metrics], "metric")
        _refuse_twice(list(self.risk_names), "risk")
        _refuse_twice([field.name for field in self.api_fields], "API field")
        if len(self.risks) > MAX_RISKS:
            raise DeclarationError(f"{len(self.risks)} risks are declared, {MAX_RISKS} fit")

    def _check_together(self) -> None:
        """Refuse names that are declared twice, also if once for the cluster's own shard."""
        metrics = [metric.series_name.removesuffix("_total") for metric in self.all_metrics]
        _refuse_twice(metrics, "metric")
        _refuse_twice([risk.name for risk in self.all_risks], "risk")
        for risk in self.all_risks:
            if risk.per != "partition" and risk.alert.unless:
                raise DeclarationError(f"risk {risk.name}: only alerts of partitions give way")
            if risk.alert.unless not in ("", *self.risk_names):
                raise DeclarationError(
                    f"risk {risk.name}: its alert gives way to {risk.alert.unless}, and nobody "
                    "declares it"
                )
        for one, other in pairwise(self.all_risks):
            if one.rank == other.rank:
                raise DeclarationError(
                    f"risks {one.name} and {other.name} have the same rank, {one.rank}: it is the "
                    "order in which a person would act, so each needs one of its own"
                )

    def _check_tables(self) -> None:
        for table in self.on_demand:
            if table not in self.rules:
                raise DeclarationError(f"table {table.kind}: no rule makes it on demand")
        makers: tuple[Rule | Expiry, ...] = (*self.rules.values(), *self.expiries)
        for maker in makers:
            if maker.makes not in (*self.stored, *self.on_demand):
                raise DeclarationError(
                    f"{_name(maker)} makes a table that no module of the catalog declares"
                )
        for kind in self.ingests:
            if kind not in ("", *self.observations):
                raise DeclarationError(
                    f"frames of kind {kind} are taken in, and nobody declares it"
                )

    def _check_parameter(self, spec: Spec, parameter: Parameter) -> None:
        table, is_read = parameter.table, f"{_name(spec)}: parameter {parameter.name} reads"
        if table is None:
            return
        if table not in (*self.stored, *self.on_demand):
            raise DeclarationError(f"{is_read} the table {table.kind}, which nobody makes")
        needs_stored = parameter.reads is Reads.EARLIER and not isinstance(spec, EventSource)
        if needs_stored and not table.stored:
            raise DeclarationError(f"{is_read} the Earlier {table.kind}, which is not stored")

    def _check_circles(self) -> None:
        needs = {
            table: {
                needed
                for p in _reads(rule)
                if p.reads in _OF_THIS_STEP
                for needed in self.tables_read(p)
                if needed in self.rules
            }
            for table, rule in self.rules.items()
        }
        try:
            tuple(TopologicalSorter(needs).static_order())
        except CycleError as error:
            names = " → ".join(table.kind for table in error.args[1])
            raise DeclarationError(f"rules need each other in a circle: {names}") from None


_OF_THIS_STEP: Final = (Reads.TABLE, Reads.LAZY, Reads.EACH_RULE)


def _of_shard(
    specs: Sequence[Spec],
    tables: Sequence[type[Table]],
    frames: Sequence[type[Observation]],
    declared: Sequence[Metric],
) -> Catalog:
    """The catalog of a shard, not checked yet."""
    risks = tuple(sorted(_only(specs, Risk), key=lambda risk: risk.rank))
    elections = sorted(_only(specs, ElectionRule), key=lambda each: each.name != KAFKA)
    _refuse_twice([each.name for each in elections], "election rule")
    state_tables, made = with_each_election_rule(
        tables, [*_only(specs, Rule), *risk_rules(risks)], _only(specs, OtherElections), elections
    )
    _refuse_twice([each.makes.kind for each in made], "rule for table")
    rules = {each.makes: each for each in made}
    state_tables += [RiskConditions, RiskStates, OpenRisks]
    _refuse_twice([t.kind for t in state_tables], "table")
    ingests: dict[str, tuple[Ingest, ...]] = {}
    for each in _only(specs, Ingest):
        kind = each.observation.kind
        ingests[kind] = (*ingests.get(kind, ()), each)
    metrics = (*declared, *risk_metrics(risks))
    return Catalog(
        observations={t.kind: t for t in frames},
        ingests=ingests,
        expiries=tuple(_only(specs, Expiry)),
        rules=rules,
        election_rules={each.name: each.title for each in elections},
        stored=tuple(t for t in state_tables if t.stored),
        on_demand=tuple(t for t in state_tables if not t.stored),
        remembered=tuple(_remembered((*rules.values(), *specs, *metrics))),
        metrics=metrics,
        risks=risks,
        events=tuple(_only(specs, EventSource)),
        api_fields=tuple(_only(specs, ApiField)),
        risk_names=tuple(risk.name for risk in risks),
    )


_OF_SHARDS: Final = (
    state.Topics, state.PartitionIndex, state.Assignment, state.Brokers, state.Groups,
    state.ReaderRacks, state.GroupOffsets, state.FormerOffsets,
)  # fmt: skip
"""Tables that whoever reads any state expects; in the cluster's own they stay without rows."""


def _of_cluster(
    specs: Sequence[Any], declared: Sequence[type[Table]], ingests: Mapping[str, tuple[Ingest, ...]]
) -> Catalog:
    """The catalog of the cluster's own shard, not checked yet."""
    reports = {t.kind: t for t in declared if issubclass(t, ShardReport)}
    tables = [t for t in declared if issubclass(t, ClusterTable)]
    risks = tuple(sorted(_only(specs, Risk), key=lambda risk: risk.rank))
    judged: list[Rule] = _only(specs, Rule)
    _refuse_twice([each.makes.kind for each in judged], "rule for table")
    behind = reports_behind({each.makes: each for each in judged})
    rules = {each.makes: rule_if_whole(each, behind(each.reads)) for each in judged}
    rules[ClusterRisks] = cluster_risk_rule(risks, behind)
    metrics = [metric_if_whole(each, behind(each.reads)) for each in _only(specs, Metric)]
    metrics += cluster_risk_metrics(risks)
    state_tables: list[type[Table]] = [
        *_OF_SHARDS,
        ReportIndex,
        *reports.values(),
        *tables,
        ClusterRisks,
    ]
    _refuse_twice([t.kind for t in state_tables], "table")
    events = (*_only(specs, EventSource), cluster_risk_events(risks))
    return Catalog(
        observations=reports,
        ingests=dict.fromkeys(reports, ingests.get(ShardReport.kind, ())),
        expiries=(),
        rules=rules,
        election_rules={},
        stored=tuple(t for t in state_tables if t.stored or t in reports.values()),
        on_demand=tuple(t for t in tables if not t.stored),
        remembered=tuple(_remembered((*rules.values(), *specs))),
        metrics=tuple(metrics),
        risks=risks,
        events=events,
        api_fields=(),
        risk_names=tuple(risk.name for risk in risks),
    )


def _metrics(modules: Iterable[ModuleType], specs: Iterable[Spec]) -> tuple[Metric, ...]:
    """Metrics of decorated functions, and of the tuple METRICS of a module."""
    made: list[Metric] = _only(specs, Metric)
    for module in modules:
        made += getattr(module, "METRICS", ())
    return tuple(made)


def _specs(module: ModuleType) -> list[Spec]:
    return [
        spec
        for value in vars(module).values()
        if inspect.isfunction(value) and value.__module__ == module.__name__
        for spec in declarations(value)
    ]


def _tables(module: ModuleType) -> list[type[Table]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Table)
        and value.__module__ == module.__name__
        and "kind" in vars(value)
    ]


def _only(specs: Iterable[Spec], kind: type[Any]) -> list[Any]:
    return [spec for spec in specs if isinstance(spec, kind)]


def _remembered(specs: Iterable[Spec]) -> list[type[Table]]:
    """Tables that a function reads as the previous cycle left them, each once."""
    tables: dict[type[Table], None] = {}
    for spec in specs:
        for parameter in _reads(spec):
            if parameter.reads is Reads.BEFORE and parameter.table is not None:
                tables[parameter.table] = None
    return list(tables)


def _reads(spec: Spec) -> tuple[Parameter, ...]:
    return without_groups(getattr(spec, "reads", ()))


def _name(spec: Spec) -> str:
    for attribute in ("name", "series_name", "kinds"):
        if hasattr(spec, attribute):
            return f"{type(spec).__name__.lower()} {getattr(spec, attribute)}"
    return f"{type(spec).__name__.lower()} {getattr(getattr(spec, 'makes', None), 'kind', '')}"


def _refuse_twice(names: list[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DeclarationError(f"{what} {', '.join(twice)} is declared twice")
