"""One set of programs for many small clusters: what it takes, and what each further one adds.

Every cluster is the one of ``small``, five real brokers with 431 partitions, under another name and
with bus topics of its own: for the twin they are different clusters. With --against, a set of
programs of another build for one of them takes its turn on the same brokers, as one had to be run
for each of them.

    python -m tests.bench.fleet --against ../before
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Final

from streaming.lab.local_cluster import LocalCluster, free_base_port
from tests.bench import figure, small
from tests.strangers.setup import SETTINGS

CLUSTERS: Final = (1, 10, 20)

COMMON: Final = """\
[bus]
bootstrap = "{bootstrap}"
prefix = "bench-{home}"

[collector]
exclude_topics = "bench-.*"
"""

ONE: Final = """
[clusters.{name}]
bootstrap = "{bootstrap}"
"""


def main(arguments: list[str] | None = None) -> None:
    """Start brokers, then measure sets of programs for more and more clusters."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="the folder of another build")
    parser.add_argument("--clusters", type=int, nargs="+", default=CLUSTERS)
    parser.add_argument("--seconds", type=float, default=small.SECONDS)
    parser.add_argument("--warm-up", type=float, default=small.WARM_UP_S)
    chosen = parser.parse_args([] if arguments is None else arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-twin-bench-") as folder:
        home = Path(folder)
        with LocalCluster(
            home / "cluster", brokers=small.BROKERS - 3, base_port=free_base_port(),
            settings=SETTINGS, metrics=False,
        ) as cluster:  # fmt: skip
            small.make_topics(cluster.bootstrap)
            if chosen.against:
                text = small.CONFIG.format(
                    bootstrap=cluster.bootstrap, prefix="bench-before", shards=""
                )
                _measured(cluster, home / "before", chosen.against, text, 1, chosen)
            sums = {}
            for count in chosen.clusters:
                one = home / f"fleet-{count}"
                text = fleet(cluster.bootstrap, one.name, count)
                sums[count] = _measured(cluster, one, small.HERE, text, count, chosen)
            for fewer, more in pairwise(sorted(sums)):
                about = {"from_clusters": fewer, "clusters": more}
                for name, unit, at in (("cpu_percent_of_a_core", "%", 0), ("memory_bytes", "B", 1)):
                    further = (sums[more][at] - sums[fewer][at]) / (more - fewer)
                    figure(f"fleet_{name}_a_further_cluster", further, unit, **about)


def fleet(bootstrap: str, home: str, count: int) -> str:
    """The configuration of that many clusters on the same brokers."""
    each = (ONE.format(name=f"c{number:02d}", bootstrap=bootstrap) for number in range(count))
    return COMMON.format(bootstrap=bootstrap, home=home) + "".join(each)


def _measured(
    cluster: LocalCluster, home: Path, build: Path, text: str, count: int,
    chosen: argparse.Namespace,
) -> tuple[float, float]:  # fmt: skip
    about = {"build": "this" if build == small.HERE else "before", "clusters": count}
    with small.twin(cluster.bootstrap, home, build, text) as (pids, _):
        time.sleep(chosen.warm_up)
        return small.window("fleet", "idle", pids, chosen.seconds, about)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
