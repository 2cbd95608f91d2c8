"""Decorators that declare the purpose of a function of tables.

A rule makes a table. Functions below the rule, in the same file, declare the metrics, risks and
events of that table. Their parameters say what they read (``signature``). The exporter, the JSON
API, the documentation, the alert rules and their tests iterate these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from twin.declarations.signature import Parameter, makes, parameters
from twin.declarations.table import UNKNOWN, Observation, Table

ATTRIBUTE: Final = "__twin__"
"""The attribute of a decorated function that holds its declarations."""

F = TypeVar("F", bound=Callable[..., Any])

# ---------------------------------------------------------------- rules


@dataclass(frozen=True, slots=True)
class Rule:
    """A function from tables to a table."""

    compute: Callable[..., Table]
    makes: type[Table]
    reads: tuple[Parameter, ...]


def rule(function: F) -> F:
    """Declare a rule: the table that it returns is computed again after each observation."""
    return _declared(function, Rule(function, makes(function), parameters(function)))


@dataclass(frozen=True, slots=True)
class ElectionRule:
    """A way to elect leaders: ``compute`` returns the ballots of the election.

    Every table ``by_election_rule`` is made once for each election rule.
    """

    name: str
    title: str
    compute: Callable[..., Table]
    makes: type[Table]
    reads: tuple[Parameter, ...]


def election_rule(name: str, title: str) -> Callable[[F], F]:
    """Declare an election rule: the function returns the ``Ballot`` of each partition.

    Args:
        name: the value of the label ``rule`` and the name in the JSON API.
        title: its name in the console, e.g. KIP-1303.
    """
    return lambda function: _declared(
        function, ElectionRule(name, title, function, makes(function), parameters(function))
    )


@dataclass(frozen=True, slots=True)
class OtherElections:
    """A function that makes a table ``by_election_rule`` under every rule but Kafka's."""

    compute: Callable[..., Table]
    makes: type[Table]
    reads: tuple[Parameter, ...]


def other_elections(function: F) -> F:
    """Declare how to compute a table for other election rules from the table for Kafka's rule.

    A parameter of the class that it returns is the table for Kafka's rule; other tables
    ``by_election_rule`` are those of the rule that it is computed for.
    Without such a function, the table's own rule is applied to the tables of each election rule.
    """
    return _declared(function, OtherElections(function, makes(function), parameters(function)))


# ---------------------------------------------------------------- observations


@dataclass(frozen=True, slots=True)
class Ingest:
    """The ingest of one kind of frame: a function (state, frame) → state.

    It returns the same state object if the frame brings nothing new, and raises InvalidFrame if the
    frame contradicts itself.
    """

    apply: Callable[..., Any]
    observation: type[Observation]


def ingest(observation: type[Observation]) -> Callable[[F], F]:
    """Declare the function that takes in frames of this kind."""
    return lambda function: _declared(function, Ingest(function, observation))


@dataclass(frozen=True, slots=True)
class Expiry:
    """A function from tables to a table that drops rows that are too old when a cycle begins."""

    compute: Callable[..., Table]
    makes: type[Table]
    reads: tuple[Parameter, ...]


def expiry(function: F) -> F:
    """Declare which rows of an ingested table are dropped when a cycle begins."""
    return _declared(function, Expiry(function, makes(function), parameters(function)))


# ---------------------------------------------------------------- metrics

Level = Literal[
    "cluster", "rack", "broker", "log_dir", "topic", "partition", "replica",
    "group", "group_topic", "group_partition",
]  # fmt: skip

LEVEL_LABELS: Final[dict[str, tuple[str, ...]]] = {
    "cluster": (),
    "rack": ("rack",),
    "broker": ("broker", "rack"),
    "log_dir": ("broker", "rack", "log_dir"),
    "topic": ("topic",),
    "partition": ("topic", "partition"),
    "replica": ("topic", "partition", "broker", "rack"),
    "group": ("group",),
    "group_topic": ("group", "topic"),
    "group_partition": ("group", "topic", "partition"),
}
"""Labels that a series of a level carries beside ``cluster``; a metric's own come after them."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One family of series.

    ``compute`` returns, by level:
        cluster    a number
        rack       ByRack
        broker     ByBroker
        log_dir    ByLogDir
        topic      [P] numbers, added up (or the highest, by ``combine``) over a topic's partitions
        partition  [P] numbers, KnownValues, or OfRows for few; UNKNOWN and NaN have no series
        replica    [P, R] numbers, KnownValues, or OfReplicas for few
        group      [N] numbers in the order of ``group_offsets``, put together by ``combine`` over
                   the group's partitions; so ``group_topic``; UNKNOWN and NaN are left out
        group_partition  [N] numbers in the order of ``group_offsets``
    A metric with labels of its own returns a mapping from label values to one of these. ``combine``
    says how to combine the values of shards; ``newest`` takes the value of the shard that was
    observed last. A metric without ``compute`` is filled in by the program that exports it.
    """

    name: str
    help: str
    level: Level = "cluster"
    labels: tuple[str, ...] = ()
    type: Literal["gauge", "counter", "histogram"] = "gauge"
    combine: Literal["sum", "max", "min", "newest"] = "sum"
    scale: float = 1
    compute: Callable[..., Any] | None = None
    reads: tuple[Parameter, ...] = ()

    @property
    def series_name(self) -> str:
        """The name of its series in Prometheus."""
        prefix = "kafka_twin_" if self.level == "cluster" else f"kafka_twin_{self.level}_"
        return f"{prefix}{self.name}" + ("_total" if self.type == "counter" else "")

    @property
    def series_names(self) -> tuple[str, ...]:
        """The names of its series: Prometheus keeps a histogram as three."""
        name, is_histogram = self.series_name, self.type == "histogram"
        return (f"{name}_sum", f"{name}_count", f"{name}_bucket") if is_histogram else (name,)

    @property
    def label_names(self) -> tuple[str, ...]:
        """All labels but ``cluster``, in order."""
        return (*LEVEL_LABELS[self.level], *self.labels)


def gauge(
    name: str, help: str, *, level: Level = "cluster", labels: tuple[str, ...] = (),  # noqa: A002
    combine: Literal["sum", "max", "newest"] = "sum", scale: float = 1,
) -> Callable[[F], F]:  # fmt: skip
    """Declare a gauge; its HELP needs no context. See ``Metric`` for what the function returns."""

    def declare(function: F) -> F:
        metric = Metric(
            name, help, level, labels, "gauge", combine, scale, function, parameters(function)
        )
        return _declared(function, metric)

    return declare


def group_gauge(
    name: str, help: str, *, labels: tuple[str, ...] = (),  # noqa: A002
    combine: Literal["sum", "max", "min"] = "sum",
) -> Callable[[F], F]:  # fmt: skip
    """Declare a gauge of groups: of each group, of its topics, and of its partitions.

    ``{group}`` in the HELP becomes the group, alone, in the topic or in the partition. See
    ``Metric`` for what the function returns.
    """
    levels: dict[Level, str] = {
        "group": "the group",
        "group_topic": "the group in the topic",
        "group_partition": "the group in the partition",
    }

    def declare(function: F) -> F:
        reads = parameters(function)
        for level, subject in levels.items():
            text = help.replace("{group}", subject)
            _declared(
                function, Metric(name, text, level, labels, "gauge", combine, 1, function, reads)
            )
        return function

    return declare


def counter(
    name: str, help: str, *, labels: tuple[str, ...] = (),  # noqa: A002
) -> Callable[[F], F]:  # fmt: skip
    """Declare a counter of the cluster: a number that only grows. Its name lacks ``_total``."""

    def declare(function: F) -> F:
        metric = Metric(
            name, help, labels=labels, type="counter", compute=function, reads=parameters(function)
        )
        return _declared(function, metric)

    return declare


# ---------------------------------------------------------------- risks

Severity = Literal["page", "warn", "info"]


@dataclass(frozen=True, slots=True)
class Alert:
    """The alert of a risk.

    Args:
        summary: what N partitions do or suffer, after "N partitions"; of brokers likewise; of a
            risk of the cluster, after "the cluster".
        description: a sentence for whoever is paged; {n} is the number, {cluster} the cluster.
        wait: Prometheus' ``for``.
        keep_firing_for: as Prometheus has it.
        unless: name of a risk whose partitions have an alert of their own.
    """

    summary: str
    description: str
    wait: str
    keep_firing_for: str
    unless: str = ""


@dataclass(frozen=True, slots=True)
class Risk:
    """A condition that a person should worry about.

    ``holds`` returns, by ``per``:
        partition  [P] booleans
        broker     ByBroker with 1 where the condition holds, 0 where it does not, UNKNOWN
        cluster    such a number
    The last two are for cluster rules only. The risk opens once the condition has held for
    ``open_after_ms`` and closes once it has been gone for ``close_after_ms``. Risks are listed by
    ``rank``, the lowest first: it is the order in which a person would act.
    """

    name: str
    rank: int
    severity: Severity
    open_after_ms: int
    close_after_ms: int
    sentence: str
    source: str
    alert: Alert
    holds: Callable[..., Any]
    reads: tuple[Parameter, ...]
    per: Literal["partition", "broker", "cluster"] = "partition"

    @property
    def alert_name(self) -> str:
        """The name of its alert: KafkaTwin and the risk's name in camel case."""
        return "KafkaTwin" + "".join(word.capitalize() for word in self.name.split("_"))


def risk(
    name: str, *, rank: int, severity: Severity, sentence: str, source: str, alert: Alert,
    open_after_ms: int = 0, close_after_ms: int = 0,
    per: Literal["partition", "broker", "cluster"] = "partition",
) -> Callable[[F], F]:  # fmt: skip
    """Declare a risk: the function says which partitions are in that condition, see ``Risk``."""

    def declare(function: F) -> F:
        declared = Risk(name, rank, severity, open_after_ms, close_after_ms, sentence, source,
                        alert, function, parameters(function), per)  # fmt: skip
        return _declared(function, declared)

    return declare


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One thing that happened in this step to the partition of ``row``, or to a broker.

    ``{p}`` in ``text`` becomes the partition. ``detail`` distinguishes occurrences of one kind.
    """

    text: str
    row: int = UNKNOWN
    kind: str = ""  # only where the declaration has several
    broker: int = UNKNOWN
    detail: str = ""
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EventSource:
    """A function that compares a step's tables and yields what happened."""

    kinds: tuple[str, ...]
    per: Literal["partition", "broker"]
    occurrences: Callable[..., Iterable[Occurrence]]
    reads: tuple[Parameter, ...]


def event(*kinds: str, per: Literal["partition", "broker"] = "partition") -> Callable[[F], F]:
    """Declare the kinds of events that the function yields.

    Every shard knows every broker, so events of brokers are taken from shard 0 only. Cluster
    rules have events of brokers too; these are taken from the cluster's own shard.
    """
    return lambda function: _declared(
        function, EventSource(kinds, per, function, parameters(function))
    )


# ---------------------------------------------------------------- the JSON API


@dataclass(frozen=True, slots=True)
class ApiField:
    """A field that is not a column: a function returns one plain JSON value per partition.

    ``meaning`` is printed in the reference. Tables with an ``api`` name need no such declaration.
    """

    name: str
    meaning: str
    values: Callable[..., list[Any]]
    reads: tuple[Parameter, ...] = field(default=())


def api_field(name: str, meaning: str) -> Callable[[F], F]:
    """Declare a field of a partition in the JSON API: the function returns [P] values."""
    return lambda function: _declared(
        function, ApiField(name, meaning, function, parameters(function))
    )


def declarations(function: Any) -> tuple[Any, ...]:
    """The declarations of a function."""
    return getattr(function, ATTRIBUTE, ())


def _declared(function: F, declaration: Any) -> F:
    setattr(function, ATTRIBUTE, (*declarations(function), declaration))
    return function
