"""``kafka-twin plan`` before it asks anybody: what is refused, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streaming.cli.main import main
from streaming.plans.journal import FILE, Journal
from streaming.plans.plan import Origin


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments], env={"KAFKA_TWIN_CLUSTER_NAME": "c"})


def test_a_watch_changes_the_cluster_so_it_must_be_said():
    done = run("order", "--watch")
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert "--watch changes the cluster: give --apply as well" in done.output


@pytest.mark.parametrize("name", ["nothing.json", FILE])
def test_only_a_file_of_this_cluster_is_restored(tmp_path: Path, name: str):
    with Journal(tmp_path, Origin("another")):
        pass
    done = run("restore", str(tmp_path / name))
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    expected = "is of cluster another, not of c" if name == FILE else "No such file"
    assert expected in done.output


def test_the_most_changes_a_minute_are_at_least_one():
    assert run("order", "--max-changes-per-minute", "0").exit_code == 2
