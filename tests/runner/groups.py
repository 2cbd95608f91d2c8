"""The groups of tests that are not played in each run.

A test belongs to the group that its file names as a mark (``pytest.mark.losses``). Modules that it
imports, directly or not, are known from the imports. ``paths`` has the rest: programs that tests
start, and files that are no Python.
"""

from __future__ import annotations

from typing import Final

from tests.runner.declared import Group

TURNS: Final = 4
"""A group is played at least at every fourth merge."""

GROUPS: Final = (
    Group(
        "incidents", "the demo's incidents, and day one of a cluster that nobody tuned", 0,
        (
            "twin/rules/", "twin/cluster_rules/", "streaming/lab/", "streaming/exporter/console/",
            "streaming/query/", "grafana/", "deploy/prometheus/", "deploy/alertmanager/",
            "docs/day-one",
        ),
    ),
    Group(
        "console", "the console's past, plans, files, accessibility and size", 0,
        ("streaming/exporter/", "streaming/history/"),
    ),
    Group(
        "releases", "other Kafka releases, and a cluster's life", 1,
        ("streaming/collector/", "tests/versions/"),
    ),
    Group(
        "containers", "containers, an installed package, and Spark on several machines", 2,
        (
            "deploy/docker/", "deploy/jars", "docker-compose", ".env", ".dockerignore",
            ".ci/engine", "pyproject.toml", "streaming/packing/", "streaming/submit/",
            "streaming/query/session", "streaming/query/buses/restarts", "tests/containers/",
            "tests/spark_platform/",
        ),
    ),
    Group(
        "kubernetes", "the webhook and the chart on a Kubernetes API server", 1,
        (
            "deploy/helm/", "deploy/kubernetes/", "deploy/manifests", "deploy/examples/",
            "deploy/strimzi", "streaming/admission/",
        ),
    ),
    Group(
        "logins", "logins at brokers, right, wrong and renewed", 1,
        (
            "streaming/runtime/kafka/", "streaming/query/kafka_options", "streaming/query/logins/",
            "tests/logins/",
        ),
    ),
    Group(
        "losses", "long losses and returns of brokers and programs", 3,
        (
            "twin/rules/election/", "twin/rules/groups/", "twin/rules/load/", "twin/plans/",
            "streaming/archive/", "streaming/history/archive/", "streaming/query/",
            "streaming/tap/",
        ),
    ),
)  # fmt: skip

BY_NAME: Final = {group.name: group for group in sorted(GROUPS, key=lambda group: group.name)}
