"""What is played beside what, how long, and what is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runner import inside, playing, schedule
from tests.runner.again import again
from tests.runner.budget import REPORT_S, Budget
from tests.runner.declared import Run
from tests.runner.playing import Playing
from tests.runner.schedule import NO_TIME, Played, Say, fits, in_order, play
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SILENT: Say = list[str]().append
UNLIMITED = Budget(None, time.monotonic)
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.runner import inside
def pytest_configure(config):
    inside.register(config)
"""


def a_run(name: str, *command: str, minutes: float = 1, cores: float = 1, **how: object) -> Run:
    return Run(name, "", command or ("python", "-c", ""), minutes, minutes * cores, **how)  # type: ignore[arg-type]


def test_runs_begin_while_they_want_fewer_cores_than_there_are() -> None:
    one, half = a_run("one"), a_run("half", cores=0.5)
    assert fits(one, [one], cores=2)
    assert not fits(half, [one, one], cores=2)
    brokers = a_run("brokers", brokers=True)
    assert fits(half, [brokers], cores=2)
    assert not fits(one, [brokers], cores=2), "they wait for nothing"
    assert not fits(brokers, [one], cores=2)
    assert fits(a_run("four", cores=4), [], cores=2), "something always plays"


def test_a_run_that_takes_what_is_left_begins_beside_any_others_but_only_two_of_them() -> None:
    filler = a_run("filler", cores=2, fills=True)
    assert fits(filler, [a_run("one"), a_run("two")], cores=2)
    assert fits(a_run("one"), [filler], cores=1), "another run always plays"
    assert not fits(a_run("one"), [filler, a_run("two")], cores=2), "something is left for it"
    assert not fits(filler, [filler, filler], cores=2)


def test_a_run_that_is_alone_has_no_brokers_beside_it() -> None:
    alone, brokers = a_run("alone", brokers=True, alone=True), a_run("brokers", brokers=True)
    assert not fits(alone, [brokers], cores=8)
    assert not fits(brokers, [alone], cores=8)
    assert fits(brokers, [brokers], cores=8)
    assert fits(a_run("other"), [alone], cores=8)


def test_chromium_is_not_beside_networks_that_come_and_go() -> None:
    browser, networks = a_run("browser", browser=True), a_run("compose", networks=True)
    assert not fits(browser, [networks], cores=8)
    assert not fits(networks, [browser], cores=8)


def test_the_longest_way_to_the_end_begins_first() -> None:
    first, long = a_run("first", "pytest", minutes=5), a_run("long", "pytest", minutes=8)
    last, makes = a_run("last", "pytest", minutes=4, after=("first",)), a_run("makes")
    alone = a_run("alone", "pytest", alone=True, brokers=True)
    due = a_run("due", "pytest", minutes=9, group="console")
    assert [run.name for run in in_order([due, last, long, first, makes, alone])] == [
        "makes", "alone", "first", "long", "last", "due",
    ]  # fmt: skip


def played(tmp_path: Path, *runs: Run, budget: Budget = UNLIMITED) -> tuple[Played, list[str]]:
    printed: list[str] = []
    return play(runs, tmp_path, os.environ, budget, printed.append), printed


def test_a_run_begins_when_those_that_it_waits_for_have_ended(tmp_path: Path) -> None:
    file = tmp_path / "made"
    first = a_run("first", "python", "-c", f"open({str(file)!r}, 'w')")
    last = a_run("last", "python", "-c", f"open({str(file)!r})", after=("first",))
    result, printed = played(tmp_path, last, first)
    assert [(each.run.name, each.is_good) for each in result.ended] == [
        ("first", True),
        ("last", True),
    ]
    assert [line.split("] ")[1] for line in printed if "begins" in line] == [
        "first begins",
        "last begins",
    ]


def test_a_run_that_cannot_end_in_time_does_not_begin_and_shorter_ones_do(tmp_path: Path) -> None:
    budget = Budget(REPORT_S + 120, time.monotonic)
    result, _ = played(tmp_path, a_run("long", minutes=3), a_run("short"), budget=budget)
    assert [each.run.name for each in result.ended] == ["short"]
    assert result.left_out == {"long": "it takes 3 minutes, 2 are left"}


def test_a_run_that_waits_for_one_that_was_left_out_is_left_out_too(tmp_path: Path) -> None:
    budget = Budget(REPORT_S + 120, time.monotonic)
    result, _ = played(
        tmp_path, a_run("long", minutes=3), a_run("short", after=("long",)), budget=budget
    )
    assert result.ended == []
    assert result.left_out["short"] == "long was left out"


def test_its_output_and_what_it_took_are_kept(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint('3 passed in 1.0s')"
    [ended] = played(tmp_path, a_run("busy", "python", "-c", busy))[0].ended
    assert ended.last_line == "3 passed in 1.0s"
    assert 0.3 <= ended.cpu_s <= ended.wall_s * 2
    assert playing.counts("= 1 failed, 2 passed, 3 skipped, 1 error in 4s =") == {
        "failed": 1, "passed": 2, "skipped": 3, "error": 1,
    }  # fmt: skip


def suite(folder: Path, text: str) -> Run:
    """A run of a file of tests."""
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return a_run("it", "pytest", "-q", str(folder))


HANGS = """
import subprocess, sys, time
def test_hangs():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                             start_new_session=True)
    open({file!r}, "w").write(str(child.pid))
    waits_for_something_that_never_comes()
def waits_for_something_that_never_comes():
    time.sleep(600)
"""


def test_a_run_that_hangs_is_ended_with_its_stacks_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "child"
    run = suite(tmp_path / "suite", HANGS.format(file=str(file)))
    playing_it = Playing(run, tmp_path / "it", os.environ)
    until(lambda: file.exists() and file.read_text())
    other = Playing(a_run("other"), tmp_path / "other", os.environ)
    ended = playing_it.end("it hangs")
    assert not ended.is_good
    log = ended.log.read_text()
    assert "it: it hangs" in log
    assert "in waits_for_something_that_never_comes" in log
    child = int(file.read_text())
    until(lambda: not Path(f"/proc/{child}").exists() or is_dead(child))
    until(lambda: other.ended() is not None, otherwise="another run does not go on")


def is_dead(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")


def test_a_run_hangs_after_a_multiple_of_its_minutes_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "HANGS_AFTER_MIN", 0.01)
    monkeypatch.setattr(schedule, "HANGS_AFTER", 0.0)
    monkeypatch.setattr(schedule, "patience", lambda **_: 1.0)
    sleeps = a_run("sleeps", "python", "-c", "import time; time.sleep(600)")
    result, _ = played(tmp_path, sleeps, a_run("other", after=("sleeps",)))
    why = {each.run.name: each.why for each in result.ended}
    assert why["sleeps"].startswith("it hangs")
    assert why["other"] == ""


def test_where_no_time_is_left_what_plays_is_ended(tmp_path: Path) -> None:
    budget = Budget(REPORT_S + 1, time.monotonic)
    sleeps = a_run("sleeps", "python", "-c", "import time; time.sleep(600)", minutes=0.001)
    [ended] = played(tmp_path, sleeps, budget=budget)[0].ended
    assert (ended.why, ended.is_good) == (NO_TIME, False)


WAITS_FOR_ITS_SHARE = """
import pathlib, sys, time
own = pathlib.Path("/proc/self/autogroup")
end_s = time.monotonic() + 60
while own.exists() and not own.read_text().rstrip().endswith("nice 0"):
    if time.monotonic() > end_s: sys.exit(own.read_text())
    time.sleep(0.05)
"""


def test_a_run_that_fills_gaps_has_its_whole_share_once_no_other_is_left(tmp_path: Path) -> None:
    filler = a_run("filler", "python", "-c", WAITS_FOR_ITS_SHARE, fills=True)
    [ended] = played(tmp_path, filler)[0].ended
    assert ended.is_good, ended.log.read_text()


FLAKY = """
from pathlib import Path
def test_passes(): pass
def test_fails_once():
    file = Path(__file__).with_name("was-here")
    was_here = file.exists()
    file.touch()
    assert was_here
def test_fails(): assert False
"""


def test_what_failed_is_played_again_and_what_passed_then_is_told_apart(tmp_path: Path) -> None:
    result, _ = played(tmp_path / "logs", suite(tmp_path / "suite", FLAKY))
    [ended] = result.ended
    assert len(ended.failed) == 2
    late = again(result.ended, tmp_path / "logs", os.environ, UNLIMITED, SILENT)
    [passed], [failed] = late.passed, late.failed
    assert passed.endswith("test_fails_once")
    assert failed.endswith("test_fails")
    assert ended.last_line.startswith("2 failed, 1 passed"), "its own log is still there"


def test_what_failed_in_a_run_that_time_ended_is_played_again_and_of_one_that_hung_it_is_not(
    tmp_path: Path,
) -> None:
    result, _ = played(tmp_path / "logs", suite(tmp_path / "suite", FLAKY))
    [ended] = result.ended
    for why, tried in (("it hangs", 0), (NO_TIME, 2)):
        late = again([replace(ended, why=why)], tmp_path / "logs", os.environ, UNLIMITED, SILENT)
        assert len(late.passed) + len(late.failed) == tried
        assert len(late.not_tried) == 2 - tried


def test_of_too_many_failed_tests_none_is_played_again(tmp_path: Path) -> None:
    many = "import pytest\n@pytest.mark.parametrize('n', range(21))\ndef test_it(n): assert False"
    result, _ = played(tmp_path / "logs", suite(tmp_path / "suite", many))
    late = again(result.ended, tmp_path / "logs", os.environ, UNLIMITED, SILENT)
    assert len(late.not_tried) == 21
    assert not late.passed | late.failed


def test_without_time_nothing_is_played_again(tmp_path: Path) -> None:
    result, _ = played(tmp_path / "logs", suite(tmp_path / "suite", FLAKY))
    none = Budget(REPORT_S, time.monotonic)
    late = again(result.ended, tmp_path / "logs", os.environ, none, SILENT)
    assert len(late.not_tried) == 2


def test_cpu_seconds_of_a_process_are_those_of_its_children_too() -> None:
    before_s = inside.cpu_s()
    busy = "import time\nwhile time.process_time() < 0.4: pass\nprint('done', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        assert inside.cpu_s() - before_s >= 0.3, "of one that runs"
        child.communicate("\n")
    assert inside.cpu_s() - before_s >= 0.3, "of one that has ended"
