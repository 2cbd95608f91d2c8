"""The choices at the top of a dashboard.

A variable with the name of a label filters every panel whose metric has that label.
"""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

_AS_RETURNED, _ALPHABETICAL, _NUMERICAL = 0, 1, 3
_WHEN_TIME_RANGE_CHANGES = 2

_INTERNAL: Final = r"__.*|kafka-twin\\..*"
"""Topics of Kafka itself, and of the bus under its default prefix."""

CONSOLE: Final = "http://localhost:9410"
"""The console's address if the twin runs on the user's machine, as with docker compose."""

VARIABLES: Final = {"topic": "topics", "cluster": "clusters"}
"""Names of variables of several values that are not those of their labels."""

ALL: Final = ".*"
"""Unlike Grafana's list of every value it also matches brokers without a rack."""


def datasource() -> Json:
    """The Prometheus data source."""
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
        "multi": False,
        "includeAll": False,
    }


def cluster() -> Json:
    """One Kafka cluster."""
    return _labels_of("cluster", "kafka_twin_up")


def clusters() -> Json:
    """Several Kafka clusters, all by default.

    Its name is not that of the other dashboards' variable, to which a link would hand "all".
    """
    return _several("cluster", "kafka_twin_up") | {"name": VARIABLES["cluster"]}


def console() -> Json:
    """The address of the console, for links in panels."""
    address = {"selected": True, "text": CONSOLE, "value": CONSOLE}
    return {
        "type": "textbox",
        "name": "console",
        "label": "Console",
        "description": "Where the exporter serves the console; links of panels lead there.",
        "query": CONSOLE,
        "current": address,
        "options": [address],
        "hide": 2,  # set by kafka-twin grafana publish --console
    }


def rack() -> Json:
    """Racks of the cluster, all by default."""
    return _several("rack", 'kafka_twin_broker_info{cluster="$cluster"}')


def broker() -> Json:
    """Brokers of the racks, all by default."""
    brokers = 'kafka_twin_broker_info{cluster="$cluster", rack=~"$rack"}'
    return _several("broker", brokers, _NUMERICAL)


def topics() -> Json:
    """Topics of the cluster, all by default.

    Its name is not that of the Partition dashboard's variable, to which a link would hand "all".
    """
    several = _several("topic", 'kafka_twin_topic_partitions{cluster="$cluster"}')
    return several | {"name": VARIABLES["topic"]}


def groups() -> Json:
    """Groups of consumers of the cluster, all by default."""
    return _several("group", 'kafka_twin_group_lag_records{cluster="$cluster"}')


def topic() -> Json:
    """One topic that has exported partitions, the one with the worst risk by default.

    The first value is the default. Topics of Kafka and of the twin come last, whatever their risks:
    a person opens the dashboard for topics of their own.
    """
    exported, at_risk = "kafka_twin_partition_replicas", "kafka_twin_partition_at_risk"
    own = f'cluster="$cluster", topic!~"{_INTERNAL}"'
    ranks = [
        (f'{at_risk}{{{own}, severity="page"}}', 4),
        (f'{at_risk}{{{own}, severity="warn"}}', 3),
        (f'{at_risk}{{{own}, severity="info"}}', 2),
        (f"{exported}{{{own}}}", 1),
        (f'{exported}{{cluster="$cluster"}}', 0),
    ]
    ranked = " or ".join(f"max by (topic) ({series}) * 0 + {rank}" for series, rank in ranks)
    query = f"query_result(sort_desc({ranked}))"
    return _queried("topic", query, _AS_RETURNED) | {"regex": '/topic="([^"]+)"/'}


def partition() -> Json:
    """One partition of the topic."""
    exported = 'kafka_twin_partition_replicas{cluster="$cluster", topic="$topic"}'
    return _labels_of("partition", exported, _NUMERICAL)


def severity() -> Json:
    """Severities of the risks that are listed."""
    return _all_by_default(
        {
            "type": "custom",
            "name": "severity",
            "label": "Severity",
            "query": "page,warn,info",
            "options": [
                {"text": text, "value": value, "selected": text == "All"}
                for text, value in (("All", "$__all"), *((s, s) for s in ("page", "warn", "info")))
            ],
        }
    )


def _several(label: str, series: str, sort: int = _ALPHABETICAL) -> Json:
    return _all_by_default(_labels_of(label, series, sort))


def _all_by_default(variable: Json) -> Json:
    return variable | {
        "multi": True,
        "includeAll": True,
        "allValue": ALL,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _labels_of(label: str, series: str, sort: int = _ALPHABETICAL) -> Json:
    return _queried(label, f"label_values({series}, {label})", sort)


def _queried(label: str, query: str, sort: int) -> Json:
    return {
        "type": "query",
        "name": label,
        "label": label.capitalize(),
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"values of {label}"},
        "refresh": _WHEN_TIME_RANGE_CHANGES,
        "sort": sort,
        "hide": 0,
        "multi": False,
        "includeAll": False,
    }
