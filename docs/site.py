"""Builds the site of docs/ into a folder: ``python -m docs.site [FOLDER]``, by default build/site.

To the pages of docs/ come those that are on the site alone (``docs.generate``). On GitHub the pages
lead to files beside them, such as ``../deploy/kubernetes``. A site has no such files, so copies of
the pages lead to the repository. A link to what is not there is refused, here and by Zensical.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from docs.generate import ON_SITE
from docs.pages.markdown import SITE

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
BUILT: Final = ROOT / "build" / "site"
CONFIG: Final = DOCS / "site.yml"
REPOSITORY: Final = "https://github.com/kafka-twin/kafka-twin"

_SHOWN: Final = ("*.md", "*.png", "config.toml", "site.css")
_LINK: Final = re.compile(r"(\]\()(\.\./[^)\s#]+)")
_ON_SITE: Final = re.compile(rf"\]\({re.escape(SITE)}([a-z-]+)/")
_DROPPED: Final = re.compile(r"[^\w\- ]")


class SiteError(Exception):
    """The site cannot be built; one line says why."""


def build(folder: Path) -> None:
    """Build the site into a folder, which is replaced.

    Raises:
        SiteError: a link leads nowhere, or Zensical refuses a page.
    """
    with tempfile.TemporaryDirectory() as made:
        prepare(Path(made))
        done = subprocess.run(
            [Path(sys.executable).with_name("zensical"), "build", "--strict"], cwd=made,
            env=os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            said = done.stdout.partition("Traceback")[0].strip()
            raise SiteError(f"Zensical refuses the pages:\n{said}")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(made) / "site", folder)


def prepare(folder: Path) -> None:
    """Copy configuration and pages, with links as a site needs them.

    Raises:
        SiteError: a page leads to a file that is not there.
    """
    shutil.copy(CONFIG, folder / "mkdocs.yml")
    for pattern in _SHOWN:
        for file in sorted(DOCS.rglob(pattern)):
            copy = folder / "docs" / file.relative_to(DOCS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".md":
                page = file.relative_to(ROOT).as_posix()
                copy.write_text(led_outside(file.read_text("utf-8"), page), "utf-8")
            else:
                shutil.copy(file, copy)
    for name, made in ON_SITE.items():
        (folder / "docs" / name).write_text(led_outside(made(), f"docs/{name}"), "utf-8")


def led_outside(markdown: str, page: str) -> str:
    """The page, with links to the repository in place of links to files outside docs/.

    A link to the site itself leads to its page.

    Raises:
        SiteError: a linked file does not exist.
    """

    def led(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[2]))
        file = ROOT / path
        if path.startswith("..") or not file.exists():
            raise SiteError(f"{page}: {link[2]} is not there")
        return f"{link[1]}{REPOSITORY}/{'tree' if file.is_dir() else 'blob'}/main/{path}"

    return _LINK.sub(led, _ON_SITE.sub(r"](\1.md", markdown))


def slug(text: str, separator: str) -> str:
    """The anchor of a heading as GitHub makes it, so that a link holds in both places."""
    return _DROPPED.sub("", text.strip().lower()).replace(" ", separator)


def main() -> None:
    """Build the site."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILT
    try:
        build(folder)
    except SiteError as error:
        sys.exit(str(error))
    print(folder / "index.html")


if __name__ == "__main__":
    main()
