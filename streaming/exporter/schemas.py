"""JSON Schemas of the API's objects, made from the declarations of their fields.

Fields of partitions, replicas and brokers come from the catalog; those of other objects from the
types of the answers. So the description lists exactly the fields that are served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args, get_type_hints

import msgspec

from streaming.exporter.views import cluster as cluster_views
from streaming.exporter.views import disk_full, disk_help, group_page
from streaming.exporter.views import groups as groups_views
from streaming.exporter.views import log_dirs as log_dir_views
from streaming.exporter.views.filling import NAMED
from streaming.exporter.views.partitions import api_tables
from streaming.questions import QUESTIONS
from streaming.questions.parameters import Schema
from twin.declarations.table import Column, PartitionTable, ReplicaTable, Table
from twin.engine.catalog import Catalog
from twin.kafka.election import Outcome
from twin.rules.election.predictions import Predictions
from twin.rules.election.unclean_successors import SuccessorCosts
from twin.rules.tiering.coverage import Coverage
from twin.tables.columns import GroupColumns
from twin.tables.state import BrokerMetrics, Problems

_REF: Final = "#/components/schemas/{name}"

INTEGER: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
TEXT: Final[Schema] = {"type": "string"}


def ref(name: str) -> Schema:
    """A reference to the component of that name."""
    return {"$ref": _REF.format(name=name)}


def listed(items: Schema) -> Schema:
    """The schema of an array."""
    return {"type": "array", "items": items}


def nullable(schema: Schema) -> Schema:
    """The schema of those values or null, which means unknown."""
    if "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    kind = schema["type"]
    types = [*({*kind} - {"null"}), "null"] if isinstance(kind, list) else [kind, "null"]
    more = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": types, **more}


def obj(fields: Mapping[str, Schema], *, optional: Iterable[str] = (), what: str = "") -> Schema:
    """An object with those fields."""
    left_out = set(optional)
    return {
        "type": "object",
        **({"description": what} if what else {}),
        "properties": dict(fields),
        "required": [name for name in fields if name not in left_out],
    }


def page_of(name: str, items: str) -> Schema:
    """The schema of an answer with a part of a list."""
    return obj({"total": INTEGER, name: listed(ref(items))})


AGE: Final[Mapping[str, Schema]] = {
    "observed_at_ms": nullable(INTEGER),
    "age_seconds": nullable(NUMBER),
}


PROBLEM_LIST: Final[Schema] = obj(
    {
        "problems": nullable(listed(ref("Problem"))),
        "whole": {**nullable({"type": "boolean"}), "description": "no problem is left out"},
        **AGE,
    },
    what="null where no collector has sent a list",
)

LOG_DIR_LIST: Final[Schema] = obj(
    {"log_dirs": nullable(listed(ref("LogDir")))}, what="null while a shard has not reported"
)

_ABOUT_ANSWER: Final[Mapping[str, Schema]] = {
    "observed_at_ms": INTEGER,
    "stale": {**nullable(TEXT), "description": "why the twin is not up"},
}


ERROR: Final = obj({"error": TEXT}, what="why the request is refused, in one line")


def typed_components(forms: Iterable[Any]) -> dict[str, Any]:
    """The schemas of these types and of what they refer to, by name."""
    _, typed = msgspec.json.schema_components([*forms], ref_template=_REF)
    return typed


def components(catalog: Catalog, forms: Iterable[Any]) -> dict[str, Any]:
    """All schemas by name; ``forms`` are the types of answers of endpoints."""
    answers = [each.form for each in QUESTIONS.values()]
    parts = (cluster_views.ClusterFacts, disk_help.Help, group_page.GroupLeader)
    typed = typed_components([*forms, *parts, *answers])
    facts = typed.pop("ClusterFacts")
    typed["LossEffect"]["properties"]["partitions"] = listed(ref("Loss"))
    for answer in answers:
        typed[answer.__name__]["properties"] |= _ABOUT_ANSWER
        typed[answer.__name__]["required"] += _ABOUT_ANSWER
    return {
        **typed,
        "Error": ERROR,
        "Partition": _partition(catalog),
        "Replica": _replica(catalog),
        "Prediction": _prediction(),
        "Problem": obj(fields_of(Problems), what=about(Problems)),
        "Broker": _broker(catalog),
        "LogDir": obj(log_dir_fields()),
        "FullAt": obj(full_at_fields(), what="when a volume is full, by one bound"),
        "FullForecast": obj(full_forecast_fields(), what="when a volume is full"),
        "FillingTopic": obj(filling_fields(), what="a topic that fills a log directory"),
        "Cluster": _cluster(catalog, facts),
        "Loss": _loss(catalog),
        "Group": _group(catalog),
        "GroupInFull": _group_in_full(catalog),
    }


def column_schema(column: Column) -> Schema:
    """The schema of a value of the column; a column of flags becomes a list of names."""
    if column.enum is not None:
        kind: Schema = {"type": "string", "enum": [each.name.lower() for each in column.enum]}
        return _described(nullable(kind), column)
    if column.flags is not None:
        return _described(listed(TEXT), column)
    if column.tri_state:
        return _described(nullable({"type": "boolean"}), column)
    if column.dtype.kind in "iuf":
        kind = NUMBER if column.dtype.kind == "f" else INTEGER
        return _described(kind if column.minus_one_is_a_value else nullable(kind), column)
    return _described({"type": "boolean"} if column.dtype.kind == "b" else TEXT, column)


def about(table: type[Table]) -> str:
    """The first line of a docstring, without its shape and full stop."""
    return table.meaning().partition("] ")[2].rstrip(".")


def fields_of(table: type[Table]) -> dict[str, Schema]:
    """The fields that the table's columns become in the API; each flag is a field of its own."""
    fields: dict[str, Schema] = {}
    for column in table.columns:
        if not column.in_api:
            continue
        if column.flags is None:
            fields[column.name] = column_schema(column)
        else:
            flag = _described({"type": "boolean"}, column)
            fields |= {str(each.name).lower(): flag for each in column.flags}
    return fields


# ---------------------------------------------------------------- inside


def _described(schema: Schema, column: Column) -> Schema:
    return {**schema, "description": column.meaning}


def _table_fields(catalog: Catalog, base: type[Table]) -> dict[str, Schema]:
    """Columns of the object itself, and objects of columns."""
    fields: dict[str, Schema] = {}
    for table in api_tables(catalog, base):
        name, _, rule = (table.api or "").partition(".")
        if rule:
            whole = fields.setdefault(name, obj({}, what=f"{about(table)}, by election rule"))
            whole["properties"][rule] = obj(fields_of(table))
            whole["required"].append(rule)
        elif name:
            fields[name] = obj(fields_of(table), what=about(table))
        else:
            fields |= fields_of(table)
    return fields


def _partition(catalog: Catalog) -> Schema:
    fields: dict[str, Schema] = {"topic": TEXT, "topic_id": TEXT, "partition": INTEGER}
    fields |= _table_fields(catalog, PartitionTable)
    fields["leader"] = nullable(fields["leader"])  # null before the partition was described
    fields["risks"] = listed({"type": "string", "enum": list(catalog.risk_names)})
    for field in catalog.api_fields:
        [value] = get_args(get_type_hints(field.values)["return"])
        fields[field.name] = {**msgspec.json.schema(value), "description": field.meaning}
    return obj({**fields, "replicas": listed(ref("Replica")), **AGE})


def _replica(catalog: Catalog) -> Schema:
    return obj({"broker": INTEGER, **_table_fields(catalog, ReplicaTable), **AGE})


def _prediction() -> Schema:
    columns = {c.name: column_schema(c) for c in Predictions.columns if c.name != "row"}
    return obj({"topic": TEXT, "partition": INTEGER, **columns})


def broker_fields() -> dict[str, Schema]:
    """A broker's own fields, from its columns; a missing rack, host or version is null."""
    columns = {c.name: column_schema(c) for c in cluster_views.broker_columns()}
    texts = ("rack", "host", "kafka_version")
    return columns | {name: nullable(columns[name]) for name in texts}


def _broker(catalog: Catalog) -> Schema:
    measured = {c.name: column_schema(c) for c in BrokerMetrics.columns if c.name != "broker"}
    sums = _sums(catalog, "broker")
    names = [risk.name for risk in catalog.cluster.risks if risk.per == "broker"]
    risks = nullable(listed({"type": "string", "enum": names}))
    fields = {**broker_fields(), **sums, "risks": risks, "metrics": nullable(obj(measured)), **AGE}
    return obj(fields, optional=sums)


def log_dir_fields() -> dict[str, Schema]:
    """The fields of a log directory."""
    partition = obj({"topic": TEXT, "partition": INTEGER})
    fields: dict[str, Schema] = {
        **{c.name: column_schema(c) for c in log_dir_views.columns()},
        "volume": {
            **nullable(TEXT),
            "description": "path of the broker's first directory on the same volume",
        },
        "has_failed": {"type": "boolean", "description": "its broker has taken it out of use"},
        "offline": {
            **listed(partition),
            "description": "if it has failed, partitions that have a replica in it",
        },
        "offline_left_out": {**INTEGER, "description": "of these, partitions beyond `limit`"},
        "full": {
            **ref("FullForecast"),
            "description": "[when its volume is full](#when-a-disk-is-full)",
        },
        "filling": {
            **listed(ref("FillingTopic")),
            "description": f"what fills it: at most {NAMED} topics that write there, the one that "
            "adds most bytes a second first",
        },
        "filling_left_out": {**INTEGER, "description": "more topics that write there"},
        "help": {
            **listed(ref("Help")),
            "description": "what would help, with the command; empty unless a time is in sight",
        },
    }
    return {**fields, **AGE}


def full_at_fields() -> dict[str, Schema]:
    """A time beside the word that says whether there is one."""
    return {
        "forecast": {
            "type": "string",
            "enum": list(disk_full.FORECASTS),
            "description": "whether it is full at a time that is in sight, not within two weeks, "
            "or whether nobody knows",
        },
        "at_ms": {**nullable(INTEGER), "description": "when it is full; null unless `full`"},
    }


def full_forecast_fields() -> dict[str, Schema]:
    """The forecast of a volume."""
    at = ref("FullAt")
    return {
        "earliest": {**at, "description": "when it is full if logs take the most that they may"},
        "latest": {**at, "description": "when it is full if logs take the least that they may"},
        "line": {**at, "description": "when it is full if it goes on as in the last hour"},
        "away": {
            **nullable(at),
            "description": "when it is full at the earliest if remote storage is away from now on; "
            "null where nothing on it is tiered",
        },
        "near": {
            **nullable({"type": "string", "enum": [disk_full.PAGE, disk_full.WARN]}),
            "description": "it is full within `[disk] page_before_ms` or `warn_before_ms`: "
            "the risk of its broker opens",
        },
        **{c.name: nullable(column_schema(c)) for c in disk_full.columns()},
        "differs": {
            **nullable({"type": "boolean"}),
            "description": "the last hour is not what the model says: something is not understood",
        },
    }


def filling_fields() -> dict[str, Schema]:
    """A topic that fills a log directory; sums of its replicas there."""
    return {
        "topic": {**TEXT, "description": "its name"},
        "written_bytes_per_s": {**NUMBER, "description": "what it writes there"},
        "grows_bytes_per_s": {
            **NUMBER,
            "description": "of that, what retention does not delete within the next hour, at the "
            "least; below 0 where it deletes more",
        },
        "local_log_bytes": {**INTEGER, "description": "what it has there now"},
        "tiered": {**nullable({"type": "boolean"}), "description": "remote.storage.enable"},
        "settings": {
            "type": "object",
            "additionalProperties": nullable(INTEGER),
            "description": "the settings that keep records on disk, by Kafka's name: those of "
            "local retention if it is tiered; -1 without a limit, null if unknown",
        },
    }


def _cluster(catalog: Catalog, facts: Schema) -> Schema:
    sums = {name: nullable(each) for name, each in _sums(catalog, "cluster").items()}
    racks = _sums(catalog, "rack")
    by_rack = {"type": "object", "additionalProperties": obj(racks, optional=racks)}
    return obj({**facts["properties"], **sums, "racks": by_rack, **AGE})


def _group_fields(catalog: Catalog) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """A group, with its metrics if it has committed offsets."""
    columns = {c.name: column_schema(c) for c in GroupColumns.columns if c.name != "read_at_ms"}
    what = "number of partitions by where the group reads them"
    reads: dict[str, Schema] = {
        "in_use": {
            "type": "boolean",
            "description": "it has members, or an offset of it changed lately",
        },
        "reads_from": obj(dict.fromkeys(groups_views.PLACES, INTEGER), what=what),
        "if_leader_lost_unread": {**INTEGER, "description": "partitions nobody would lead"},
    }
    return {**columns, **reads, **AGE}, _sums(catalog, "group")


def _group(catalog: Catalog) -> Schema:
    fields, sums = _group_fields(catalog)
    return obj({**fields, **sums}, optional=sums)


def _group_in_full(catalog: Catalog) -> Schema:
    fields, sums = _group_fields(catalog)
    partition = obj(
        {"topic": TEXT, "partition": INTEGER, "leader": nullable(INTEGER), "risks": listed(TEXT)},
        what="further fields as in `groups` of a partition",
    )
    rows = listed({**partition, "additionalProperties": True})
    more = {
        "partitions": rows,
        "partitions_left_out": INTEGER,
        "leaders": listed(ref("GroupLeader")),
    }
    return obj({**fields, **sums, **more}, optional=sums)


def _loss(catalog: Catalog) -> Schema:
    """A partition that loses its leader, or falls under min ISR."""
    fields: dict[str, Schema] = {"topic": TEXT, "partition": INTEGER, "leader": INTEGER}
    outcomes = {"type": "string", "enum": [each.name.lower() for each in Outcome]}
    coverages = {"type": "string", "enum": [each.name.lower() for each in Coverage]}
    following = obj(
        {"leader": INTEGER, "outcome": nullable(outcomes), "coverage": nullable(coverages)}
    )
    by_rule = obj(dict.fromkeys(catalog.election_rules, following), what="by election rule")
    added = {
        column.name: {**nullable(INTEGER), "description": column.meaning}
        for column in SuccessorCosts.columns
    }
    counts = {"isr": INTEGER, "min_isr": INTEGER}
    return obj({**fields, "next_leaders": by_rule, **counts, **added})


def _sums(catalog: Catalog, level: str) -> dict[str, Schema]:
    """The metrics of that level, by name: numbers, or nested objects, one level for each label."""
    sums: dict[str, Schema] = {}
    for metric in cluster_views.summed_metrics(catalog, level):
        schema = nullable(NUMBER)  # JSON cannot express infinity
        for _ in metric.labels:
            schema = {"type": "object", "additionalProperties": schema}
        sums[metric.name] = {**schema, "description": metric.help}
    return sums
