"""``make versions``: the twin on real clusters of several Kafka releases, one after the other.

ARGS names some (``3.5 3.7``), or ``upgrade``; without, it takes all. It prints a table and writes
docs/compatibility.md. The exit code is 1 if anything that the twin said was wrong.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from docs.pages import compatibility
from docs.pages.compatibility import Measured
from docs.pages.markdown import DOCS
from tests.versions.releases import ALL, IN_CI, UPGRADES, Release
from tests.versions.stage import Stage, cluster_of, stage
from tests.versions.story import Account, play, upgrade

_UPGRADES = {" to ".join(pair): pair for pair in UPGRADES}
"""By the name in the table."""


def main(arguments: Sequence[str]) -> int:
    """Play what was asked for; returns the exit code."""
    if list(arguments) == ["--fetch"]:
        for version in IN_CI:
            release = Release(version)
            release.tools(cluster_of(release, Path()).jars())
        return 0
    chosen = _chosen(arguments)
    measured = compatibility.load() if compatibility.RESULTS.exists() else {}
    for name in chosen:
        print(f"Kafka {name} ...", file=sys.stderr, flush=True)
        measured[name] = _measured(name)
        compatibility.save(measured)
    measured = compatibility.load()
    (DOCS / "compatibility.md").write_text(compatibility.page(), encoding="utf-8")
    print("\n".join(compatibility.table(measured, chosen)))
    return 0 if all(measured[name].is_good for name in chosen) else 1


def _chosen(arguments: Sequence[str]) -> list[str]:
    """Names of what is played; an argument is the beginning of a version."""
    if not arguments:
        return [*ALL, *_UPGRADES]
    names = []
    for argument in arguments:
        of_it = [v for v in ALL if v == argument or v.startswith(f"{argument}.")]
        of_it += _UPGRADES if argument == "upgrade" else []
        if not of_it:
            sys.exit(f"{argument}: there are {', '.join(ALL)} and upgrade")
        names += of_it
    return names


def _measured(name: str) -> Measured:
    """Play one story; what was wrong goes to standard error."""
    if name in _UPGRADES:
        before, after = map(Release, _UPGRADES[name])
        account = _on(before, lambda here, folder: upgrade(here, after, folder))
    else:
        account = _on(Release(name), play)
    for moment, numbers in account.numbers.items():
        print(f"  {moment}: {numbers.right} of {numbers.compared} right", file=sys.stderr)
        for wrong in numbers.wrong:
            print(f"    {wrong}", file=sys.stderr)
    for key, predicted, elected in account.wrong_predictions:
        print(f"  {key}: predicted {predicted}, Kafka elected {elected}", file=sys.stderr)
    if account.check.returncode:
        print(account.check.stdout + account.check.stderr, file=sys.stderr)
    numbers = account.numbers.values()
    return Measured(
        check_exit_code=account.check.returncode,
        right=sum(each.right for each in numbers),
        unknown=sum(each.unknown for each in numbers),
        wrong=sum(len(each.wrong) for each in numbers),
        predictions=len(account.predicted),
        predictions_right=len(account.predicted) - len(account.wrong_predictions),
        known_fields=tuple(sorted(account.known_fields)),
    )


def _on(release: Release, story: Callable[[Stage, Path], Account]) -> Account:
    """Play a story on a new cluster, of which nothing is left."""
    with tempfile.TemporaryDirectory(prefix="kafka-twin-versions-") as folder:
        cluster = cluster_of(release, Path(folder) / "cluster")
        try:
            cluster.start()
            with stage(cluster, release) as here:
                return story(here, Path(folder))
        finally:
            cluster.wipe()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
