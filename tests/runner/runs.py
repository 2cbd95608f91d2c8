"""The runs: what is played at all, in processes of its own. A run stands after those it waits for.

Minutes are those of a whole run of CI on two cores that do nothing else.
"""

from __future__ import annotations

from typing import Final

from tests.runner.declared import Run
from tests.runner.groups import BY_NAME

STARTING: Final = ("alone", "browser", "cluster", "demo", "docker", "helm", "spark")
"""Marks of tests that start something."""

STARTS_NOTHING: Final = f"not ({' or '.join((*STARTING, *BY_NAME))})"
_GROUPED: Final = f"not ({' or '.join(BY_NAME)})"
_BY_FILE: Final = ("--dist", "loadfile")
_TWO_FILES: Final = ("-n", "2", *_BY_FILE, "--no-loadscope-reorder")
"""Two files at a time, in order."""


_JVMS: Final = ("archives",)
"""For runs that start brokers or Spark on this machine."""


def _marked(expression: str, *options: str) -> tuple[str, ...]:
    return ("pytest", *options, "-m", expression)


RUNS: Final = (
    Run(
        "archives", "makes CDS archives, with which JVMs start faster, where there are none",
        ("python", "-m", "tests.class_archives"), 0.4, 0.4,
    ),
    Run(
        "lint", "style, types and import rules",
        ("make", "--no-print-directory", "lint"), 0.9, 0.7, fills=True,
    ),
    Run(
        "unit", "tests that start nothing, and Kafka's own classes as judge",
        # Some tests wait, so two processes leave a core idle; each more imports all tests again.
        _marked(STARTS_NOTHING, "-n", "3", *_BY_FILE), 8, 8, fills=True,
    ),
    Run(
        "browser", "the console's main views in Chromium",
        _marked(f"browser and {_GROUPED}"), 2, 1.7, browser=True, fills=True,
    ),
    Run(
        "spark", "Spark without brokers",
        _marked(f"spark and not cluster and not docker and {_GROUPED}"), 2, 0.8, after=_JVMS,
    ),
    Run(
        "alone", "predictions against elections, with no other brokers beside them",
        _marked(f"alone and {_GROUPED}"), 1.6, 0.9, brokers=True, alone=True, after=_JVMS,
    ),
    Run(
        "brokers", "each program on real brokers, and all of them with Spark",
        _marked(f"cluster and not alone and not docker and {_GROUPED}", *_TWO_FILES),
        4.5, 3.3, brokers=True, after=_JVMS,
    ),
    Run(
        "start", "the demo starts, answers and ends",
        _marked("demo"), 0.8, 0.7, brokers=True, in_test=False, after=_JVMS,
    ),
    Run(
        "images", "images are built, and say how they are",
        _marked(f"docker and {_GROUPED}"), 3, 3, in_test=False, fills=True,
    ),
    Run(
        "helm", "fetches Helm",
        ("python", "-m", "tests.kubernetes.tools", "helm"), 0.1, 0.1, fills=True, in_test=False,
    ),
    Run(
        "chart", "the chart, as Helm renders it",
        _marked("helm"), 0.6, 0.6, after=("helm",), in_test=False, fills=True,
    ),
    # Groups
    Run(
        "pages", "what else the console shows",
        _marked("console"), 4, 3, "console", browser=True, fills=True,
    ),
    Run(
        "demo", "all incidents of the demo", _marked("incidents", "tests/demo"), 10, 6,
        "incidents", brokers=True, after=_JVMS,
    ),
    Run(
        "day-one", "a cluster of 126 topics that nobody tuned, and a roll by the gate",
        _marked("incidents", "tests/strangers"), 10, 6, "incidents", brokers=True, after=_JVMS,
    ),
    Run(
        "jars", "fetches other Kafka releases", ("python", "-m", "tests.versions", "--fetch"),
        0.5, 0.2, "releases",
    ),
    Run(
        "versions", "the twin on other Kafka releases, held to their own tools",
        _marked("releases", "tests/versions"), 2, 1.2, "releases", brokers=True,
        after=(*_JVMS, "jars"),
    ),
    Run(
        "life", "five minutes of topics that come, go and move, and the demo's own cluster",
        _marked("releases", "tests/strangers", "tests/cluster"), 7.5, 4.5, "releases",
        brokers=True, after=_JVMS,
    ),
    Run(
        "kerberos", "builds the package by which Python logs in with Kerberos",
        ("python", "-m", "tests.logins.kerberos_setup"), 0.9, 0.9, "logins", fills=True,
    ),
    Run(
        "logins", "logins at brokers, right, wrong and renewed",
        _marked("logins"), 8, 4, "logins", brokers=True, after=(*_JVMS, "kerberos"),
    ),
    Run(
        "compose", "docker compose, and a cluster with passwords and few rights",
        _marked("containers and docker"), 10, 9, "containers", brokers=True, networks=True,
        after=("images",),
    ),
    Run(
        "machines", "Spark on several machines, and an installed package",
        _marked("containers and not docker"), 4, 1.6, "containers", brokers=True, after=_JVMS,
    ),
    Run(
        "api-server", "builds a Kubernetes API server with Go",
        ("python", "-m", "tests.kubernetes.tools"), 9, 6, "kubernetes", fills=True,
        after=("helm",),
    ),
    Run(
        "kubernetes", "the webhook and releases of the chart on it",
        _marked("kubernetes"), 1.5, 1, "kubernetes", after=("api-server",),
    ),
    Run(
        "losses-alone", "losses with no other brokers beside them",
        _marked("losses and alone"), 11, 8, "losses", brokers=True, alone=True, after=_JVMS,
    ),
    Run(
        "losses", "other losses and returns",
        _marked("losses and not alone", *_TWO_FILES), 10, 7, "losses", brokers=True, after=_JVMS,
    ),
)  # fmt: skip
