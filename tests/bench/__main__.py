"""Figures that the documentation quotes, one JSON line each, part by part."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench import against


class Part(NamedTuple):
    """A module of this package whose ``main`` prints figures."""

    about: str
    takes_full: bool = False  # has a larger size, for --full


PARTS: Final = {
    "step": Part("a step of one shard, with and without its encoding; bytes of a state"),
    "step_groups": Part("the same with groups of consumers"),
    "lazy": Part("rules of a cycle of which no input has changed"),
    "history": Part("the archive: bytes, CPU, and the view of a past moment"),
    "archive": Part("the archive's program beside the query's, on real brokers: CPU of each"),
    "reader": Part("a reader of snapshots: CPU of a cycle, of a scrape, of its first picture"),
    "exporter": Part("a scrape of 20 000 partitions with every series"),
    "questions": Part("questions over HTTP, and a scrape beside them", takes_full=True),
    "console": Part("the console's first picture and clicks, 100 000 partitions"),
    "fleet_rows": Part("the rows of 150 clusters over HTTP"),
    "collector": Part("a cycle of the collector, on a real cluster"),
    "small": Part("CPU and memory of a whole twin of five brokers, idle and busy"),
    "fleet": Part("CPU and memory of one set of programs for 1, 10 and 20 such clusters"),
    "neighbours": Part("what a cluster that floods costs the others of its query"),
    "fleet_scale": Part(
        "a simulated fleet of large clusters: cycles, CPU, memory, bytes, kill -9", takes_full=True
    ),
    "end_to_end": Part(
        "Kafka in, the whole twin, Kafka out, beside one Spark key a partition", takes_full=True
    ),
}
"""In the order in which they run."""


def main(arguments: list[str] | None = None) -> None:
    """Run the parts; each prints its figures as it has them."""
    given, more = _parser().parse_known_args(arguments)
    if given.sizes:
        import_module("tests.bench.sizes").main([*["--full"] * given.full, *more])
        return
    if more:
        _parser().error(f"unknown: {' '.join(more)}; only --sizes takes more")
    if given.against:
        if not (given.against / "tests/bench/__main__.py").is_file():
            _parser().error(f"--against {given.against}: no build with a bench is in that folder")
        against.main(given.against, given.pairs, [*given.parts, *["--full"] * given.full])
        return
    for name in given.parts or PARTS:
        part = PARTS[name]
        options = [["--full"] * given.full] if part.takes_full else []
        import_module(f"tests.bench.{name}").main(*options)


def _parser() -> argparse.ArgumentParser:
    parts = "\n".join(f"  {name:<12} {part.about}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=f"{__doc__}\nparts, all unless some are named:\n{parts}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART", help="see above")
    parser.add_argument("--full", action="store_true", help="also the largest published cluster")
    parser.add_argument(
        "--against", type=Path, metavar="FOLDER", help="take turns with the build there"
    )
    parser.add_argument("--pairs", type=int, default=3, help="turns of each build")
    parser.add_argument(
        "--sizes", action="store_true", help="instead: what is needed at which size, for deploy.md"
    )
    return parser


if __name__ == "__main__":
    main()
