"""The files of the console: what is vendored, how large it is, what it may not do."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from streaming.exporter.console_files import FOLDER, console_files
from tests.exporter.test_exporter import a_busy_store, a_client

FILES = console_files()
OWN = {name: file for name, file in FILES.items() if not name.startswith("vendor/")}
VENDORED = json.loads((FOLDER / "vendor" / "vendored.json").read_text())

ROOT = Path(__file__).parents[2]
MOST_BYTES = 300_000


@pytest.fixture(scope="module")
def client() -> TestClient:
    return a_client(a_busy_store())


def test_libraries_are_what_their_packages_hold_and_nothing_else():
    declared = {name: file for package in VENDORED for name, file in package["files"].items()}
    held = {path.name for path in (FOLDER / "vendor").iterdir()} - {"vendored.json"}
    assert held == set(declared)
    for name, file in declared.items():
        content = (FOLDER / "vendor" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"], name
    for package in VENDORED:
        assert package["version"]
        assert package["license"] in ("MIT", "Apache-2.0")
        assert f"{package['package']}.LICENSE" in declared


def test_all_of_it_is_small():
    assert sum(len(file.content) for file in FILES.values()) <= MOST_BYTES
    for name, file in OWN.items():
        assert len(file.content.splitlines()) < 400, name


def test_every_file_is_served_with_its_type_and_only_once(client: TestClient):
    types = {"js": "text/javascript", "mjs": "text/javascript", "css": "text/css",
             "html": "text/html", "svg": "image/svg+xml"}  # fmt: skip
    for name, file in FILES.items():
        answer = client.get(f"/console/{name}")
        assert answer.content == file.content
        assert answer.headers["content-type"].startswith(types[name.rpartition(".")[2]])
        tag = {"If-None-Match": answer.headers["etag"]}
        assert client.get(f"/console/{name}", headers=tag).status_code == 304
    assert client.get("/").content == FILES["index.html"].content
    for path in ("nothing.js", "vendor/vendored.json", "../api.py", "%2e%2e/api.py", ""):
        assert client.get(f"/console/{path}").status_code == 404


def test_every_file_that_is_named_exists_and_none_is_left_over():
    """From the page along all imports; no path leads out of the folder."""
    page = FILES["index.html"].content.decode()
    named = re.findall(r'(?:src|href)="console/([^"]+)"', page)
    reached, todo = {"index.html"}, list(named)
    while todo:
        name = todo.pop()
        assert name in FILES, name
        if name in reached:
            continue
        reached.add(name)
        if name.endswith("js"):
            folder = (FOLDER / name).parent
            for path in re.findall(r'from "(\.[^"]+)"', FILES[name].content.decode()):
                todo.append((folder / path).resolve().relative_to(FOLDER).as_posix())
    assert reached == set(FILES)
    loaded = re.findall(r'<(?:link rel="modulepreload" href|script .*src)="console/([^"]+)', page)
    assert sorted(loaded) == sorted(name for name in FILES if name.endswith("js"))


@pytest.mark.parametrize("name", OWN)
def test_nothing_is_inline_written_as_html_or_loaded_from_elsewhere(name: str):
    text = OWN[name].content.decode()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function",
                         text)  # fmt: skip
    assert not re.search(r'<style|\sstyle="|\son\w+="|javascript:', text)
    assert not re.search(r"(?<!xmlns=\")https?://", text)


def test_all_of_it_is_in_the_wheel(tmp_path: Path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [wheel] = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    below = FOLDER.relative_to(ROOT)
    held = {f"{below}/{p.relative_to(FOLDER)}" for p in FOLDER.rglob("*") if p.is_file()}
    assert held <= packed


def test_the_pages_only_script_is_a_file():
    page = FILES["index.html"].content.decode()
    assert re.findall(r"<script([^>]*)>(.*?)</script>", page) == [
        (' type="module" src="console/main.js"', "")
    ]
