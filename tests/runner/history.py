"""The tested commit by git: its number, the commit it is compared with, the changed files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BASE: Final = "TEST_BASE"
"""The environment variable that names the commit to compare with."""

_MAIN: Final = ("origin/HEAD", "origin/main")
WORK_S: Final = 4 * 3_600
"""Commits to the main branch that are no merge: those of the last hours came together."""


@dataclass(frozen=True, slots=True)
class Change:
    """The commit that is tested.

    Attributes:
        number: of it and the commits before it, where a merge counts as one; None without history.
        base: the commit that it is compared with, "" if none is known.
        paths: files that differ from it, uncommitted ones included; None if that is unknown.
    """

    number: int | None
    base: str
    paths: frozenset[str] | None


def change(folder: Path, environment: Mapping[str, str] = os.environ) -> Change:
    """The commit in a working copy."""
    git = _Git(folder)
    number = git.ask("rev-list", "--count", "--first-parent", "HEAD")
    if number is None or git.ask("rev-parse", "--is-shallow-repository") != "false":
        return Change(None, "", None)
    base = _base(git, environment.get(BASE, ""))
    return Change(int(number), base, git.paths_since(base) if base else None)


class _Git:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ask(self, *arguments: str) -> str | None:
        """What git prints; None if it fails."""
        try:
            done = subprocess.run(
                ["git", *arguments], cwd=self._folder, capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def paths_since(self, base: str) -> frozenset[str] | None:
        changed = self.ask("diff", "--name-only", "--no-renames", "-z", base)
        new = self.ask("ls-files", "--others", "--exclude-standard", "-z")
        if changed is None or new is None:
            return None
        return frozenset(path for path in (changed + "\0" + new).split("\0") if path)


def _base(git: _Git, named: str) -> str:
    """The commit that the tested one is merged into, or was.

    Raises:
        SystemExit: a commit is named that is not there.
    """
    if named:
        known = git.ask("rev-parse", "--verify", f"{named}^{{commit}}")
        if known is None:
            raise SystemExit(f"{BASE}={named}: there is no such commit here; fetch it or unset it")
        return known
    head = git.ask("rev-parse", "HEAD")
    for main in _MAIN:
        base = git.ask("merge-base", "HEAD", main)
        if base and base != head:
            return base
    if git.ask("rev-parse", "--verify", "HEAD^2") is not None:  # a merge
        return git.ask("rev-parse", "HEAD^1") or ""
    return _before_this_work(git)


def _before_this_work(git: _Git) -> str:
    log = git.ask("log", "--first-parent", "--format=%H %ct") or ""
    commits = [line.split() for line in log.splitlines()]
    newest_s = int(commits[0][1])
    older = (commit for commit, at_s in commits if int(at_s) < newest_s - WORK_S)
    return next(older, commits[-1][0])
