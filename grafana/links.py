"""Links from panels to the other dashboards, and to the console at the address in a variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from grafana.variables import Json

Links = tuple[Json, ...]

_SAME: Final = (
    "${datasource:queryparam}&${cluster:queryparam}&${console:queryparam}&${__url_time_range}"
)
"""Variables of a dashboard that its links pass to another."""

_CLUSTER: Final = "${console:raw}/clusters/${cluster:percentencode}"
"""Where an exporter serves the console of a cluster, whether it has one or several."""


def dashboard_link(uid: str, title: str, variables: str = "") -> Json:
    """A link to another dashboard, with the same cluster and time, and values for its variables."""
    return {"title": title, "url": f"/d/{uid}?{_SAME}{variables and '&'}{variables}"}


def console_link(title: str, view: str) -> Json:
    """A link to a view of the console, in a new tab. ``view`` follows ``#/`` in its URL."""
    return {"title": title, "url": f"{_CLUSTER}/#/{view}", "targetBlank": True}


def fleet_link(title: str, view: str) -> Json:
    """A link to the console's page of all clusters, in a new tab."""
    return {"title": title, "url": f"${{console:raw}}/{view and '#/'}{view}", "targetBlank": True}


def _one_of_fleet(name: str) -> Links:
    """Links to the Cluster dashboard and the console of the cluster that a variable names."""
    return (
        {
            "title": "Show the cluster",
            "url": "/d/kafka-twin-cluster?${datasource:queryparam}&${console:queryparam}&"
            f"${{__url_time_range}}&var-cluster=${{{name}:percentencode}}",
        },
        {
            "title": "Show the cluster in the console",
            "url": f"${{console:raw}}/clusters/${{{name}:percentencode}}/",
            "targetBlank": True,
        },
    )


def lose_broker(broker: str, rule: str = "kafka") -> Json:
    """A link to the console's view of the cluster without that broker, by an election policy."""
    return console_link("What if it were lost?", f"?lose={broker}&rule={rule}")


def cells(keys: tuple[str, ...], rule: str = "kafka") -> Mapping[str, Links]:
    """Links of a table's cells by the key labels of its rows. ``rule`` is for lost brokers.

    In a row about a partition, the topic links to the partition.
    """
    links: dict[str, Links] = {}
    if keys == ("cluster",):
        links["cluster"] = _one_of_fleet("__data.fields.cluster")
    if "partition" in keys:
        links["topic"] = _partition("${__data.fields.topic}", "${__data.fields.partition}")
    if "group" in keys:
        view = "consumers/${__data.fields.group:percentencode}"
        links["group"] = (console_link("Show the group in the console", view),)
    if "broker" in keys:
        links["broker"] = (lose_broker("${__data.fields.broker}", rule),)
    if "rack" in keys:
        view = f"?lose-rack=${{__data.fields.rack:percentencode}}&rule={rule}"
        links["rack"] = (console_link("What if it were lost?", view),)
    return links


def _partition(topic: str, number: str) -> Links:
    """Links to the Partition dashboard and the console; both arguments are Grafana variables."""
    variables = f"var-topic={topic}&var-partition={number}"
    return (
        dashboard_link("kafka-twin-partition", "Show the partition", variables),
        console_link("Show the partition in the console", f"partitions/{topic}/{number}"),
    )


SERIES_PARTITION: Final = _partition("${__field.labels.topic}", "${__field.labels.partition}")
"""Links of a bar or a line with these labels."""

SERIES_RISK: Final = (
    console_link("Show the partitions in the console", "partitions?risk=${__field.labels.risk}"),
)
"""Links of a bar of a risk."""

SERIES_BROKER: Final = (lose_broker("${__field.labels.broker}"),)
"""Links of a bar of a broker."""
