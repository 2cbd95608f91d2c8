"""A log directory that has failed is a risk of its broker, until it is there again."""

from __future__ import annotations

from tests.builders import NOW_MS, brokers_frame
from tests.log_dir_frames import Directory, failed
from tests.twin.test_log_dir_use import cycle, plain, used
from twin.engine.cluster_risks import ClusterRisks

WELL = [Directory(1, 0), Directory(1, 1), Directory(2)]
BROKEN = [Directory(1, 0), failed(1, 1), Directory(2)]


def at_risk(*of_cycles: tuple[list[Directory], int], shards: int = 1) -> list[int] | None:
    """The brokers with the risk after those cycles, given as directories and seconds."""
    cycles = [cycle([plain()], disks, at_ms=NOW_MS + s * 1_000) for disks, s in of_cycles]
    return used(*cycles, shards=shards)[ClusterRisks].brokers("log_dir_failed")


def test_the_first_answer_that_names_it_opens_the_risk():
    assert at_risk((WELL, 0)) == []
    for shards in (1, 4):
        assert at_risk((WELL, 0), (BROKEN, 5), shards=shards) == [1]


def test_it_closes_once_the_directory_has_been_there_for_a_minute():
    assert at_risk((BROKEN, 0), (WELL, 5), (WELL, 64)) == [1]
    assert at_risk((BROKEN, 0), (WELL, 5), (WELL, 65)) == []


def test_it_stays_while_the_broker_is_silent_and_is_unknown_of_one_that_was_well():
    silent = [Directory(2)]
    assert at_risk((BROKEN, 0), (silent, 5), (silent, 90), (silent, 600)) == [1]
    assert at_risk((WELL, 0), (silent, 30)) == []
    assert at_risk((WELL, 0), (silent, 61)) is None


def test_it_ends_with_a_broker_that_is_no_longer_registered():
    later = [cycle([plain()], [Directory(2)], at_ms=NOW_MS + s * 1_000) for s in (5, 10, 80)]
    for frames, at_ms in later:
        frames[0] = brokers_frame((2, 3), at_ms)
    state = used(cycle([plain()], BROKEN), *later)
    assert state[ClusterRisks].brokers("log_dir_failed") == []


def test_other_errors_of_a_directory_are_no_failure():
    assert at_risk(([Directory(1, error=-1)], 0)) == []
