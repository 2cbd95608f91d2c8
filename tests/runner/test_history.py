"""The commit that is tested, in repositories of git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.runner.history import BASE, WORK_S, change

AUTHOR = ("-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main")
START_S = 1_790_000_000


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder, self.now_s = folder, START_S
        self.git("init", "-q", ".")

    def git(self, *arguments: str) -> str:
        date = f"{self.now_s} +0000"
        dates = {"GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date}
        done = subprocess.run(
            ["git", *AUTHOR, *arguments], cwd=self.folder, capture_output=True, text=True,
            check=True, env=os.environ | dates,
        )  # fmt: skip
        return done.stdout.strip()

    def commit(self, name: str, later_s: int = 60) -> str:
        """A commit with one new file."""
        self.now_s += later_s
        (self.folder / name).write_text(name)
        self.git("add", name)
        self.git("commit", "-q", "-m", name)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.commit("first")
    return made


def test_on_a_branch_it_is_compared_with_where_it_left_the_main_branch(
    repository: Repository,
) -> None:
    base = repository.commit("second")
    repository.git("update-ref", "refs/remotes/origin/main", base)
    repository.git("checkout", "-q", "-b", "work")
    repository.commit("third")
    repository.commit("fourth")
    assert change(repository.folder, {}).base == base
    assert change(repository.folder, {}).paths == frozenset({"third", "fourth"})


def test_a_merge_is_compared_with_what_it_was_merged_into_and_counts_as_one(
    repository: Repository,
) -> None:
    base = repository.commit("second")
    repository.git("checkout", "-q", "-b", "work")
    for name in ("third", "fourth", "fifth"):
        repository.commit(name)
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge work", "work")
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    found = change(repository.folder, {})
    assert (found.number, found.base) == (3, base)
    assert found.paths == frozenset({"third", "fourth", "fifth"})


def test_commits_on_the_main_branch_are_compared_with_the_last_one_of_before_this_work(
    repository: Repository,
) -> None:
    base = repository.commit("second")
    repository.commit("third", later_s=2 * WORK_S)
    repository.commit("fourth")
    assert change(repository.folder, {}).base == base
    assert change(repository.folder, {}).paths == frozenset({"third", "fourth"})


def test_exactly_at_the_limit_a_commit_belongs_to_this_work(repository: Repository) -> None:
    base = repository.git("rev-parse", "HEAD")
    repository.commit("second")
    repository.commit("third", later_s=WORK_S)
    assert change(repository.folder, {}).base == base


def test_a_history_of_this_work_alone_begins_with_its_first_commit(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.commit("second")
    assert change(repository.folder, {}).base == first


def test_what_is_not_committed_has_changed_too(repository: Repository) -> None:
    repository.commit("second")
    (repository.folder / "first").write_text("other")
    (repository.folder / "new").write_text("new")
    assert change(repository.folder, {BASE: "HEAD"}).paths == frozenset({"first", "new"})


def test_a_named_commit_is_what_it_is_compared_with(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.commit("second")
    repository.commit("third")
    assert change(repository.folder, {BASE: "HEAD~2"}).base == first


def test_a_named_commit_that_is_not_there_is_refused_in_one_line(repository: Repository) -> None:
    with pytest.raises(SystemExit, match="TEST_BASE=nowhere: there is no such commit here"):
        change(repository.folder, {BASE: "nowhere"})


def test_without_a_repository_nothing_is_known(tmp_path: Path) -> None:
    found = change(tmp_path, {})
    assert (found.number, found.paths) == (None, None)


def test_a_shallow_clone_knows_nothing_either(repository: Repository, tmp_path: Path) -> None:
    repository.commit("second")
    clone = tmp_path / "clone"
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.folder}", str(clone))
    assert change(clone, {}).number is None
