"""The files of the console: what is vendored, how large it is, what it may not do."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from streaming.exporter.console_bundle import BundleError, bundled
from streaming.exporter.console_files import BUNDLES, FOLDER, console_files, modules, styles
from streaming.exporter.views.partitions import partition_objects
from tests.console.cluster import small
from tests.exporter.test_exporter import a_busy_store, a_client

FILES = console_files()
PAGES = {"index.html": "console.js", "fleet.html": "fleet.js"}
SOURCES = {**modules(), **{name: (FOLDER / name).read_text() for name in (*styles(), *PAGES)}}
OWN = {name: text for name, text in SOURCES.items() if not name.startswith("vendor/")}
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
    assert sum(len(text.encode()) for text in SOURCES.values()) <= MOST_BYTES
    for name, text in OWN.items():
        assert len(text.splitlines()) < 400, name


def test_a_page_of_a_moment_asks_first_about_that_moment(client: TestClient):
    page = client.get("/", params={"at": '2026-11-24T03:12:00+01:00"><script>x'}).text
    asked = re.findall(r'rel="preload" href="([^"]*)"', page)
    moment = "?at=2026-11-24T03%3A12%3A00%2B01%3A00%22%3E%3Cscript%3Ex"
    assert asked == [f"api/v1/summary{moment}", f"api/v1/brokers{moment}"]
    assert "<script>x" not in page
    now = re.findall(r'rel="preload" href="([^"]*)"', client.get("/").text)
    assert now == ["api/v1/summary", "api/v1/brokers"]


def test_every_file_is_served_with_its_type_and_only_once(client: TestClient):
    types = {"js": "text/javascript", "css": "text/css", "html": "text/html",
             "svg": "image/svg+xml"}  # fmt: skip
    for name, file in FILES.items():
        answer = client.get(f"/console/{name}")
        assert answer.content == file.content
        assert answer.headers["content-type"].startswith(types[name.rpartition(".")[2]])
        tag = {"If-None-Match": answer.headers["etag"]}
        assert client.get(f"/console/{name}", headers=tag).status_code == 304
    assert client.get("/").content == FILES["index.html"].content
    for path in ("nothing.js", "main.js", "vendor/vendored.json", "../api.py", "%2e%2e/api.py", ""):
        assert client.get(f"/console/{path}").status_code == 404


def test_files_are_compressed_for_clients_that_accept_it(client: TestClient):
    for name, file in FILES.items():
        small = client.get(f"/console/{name}", headers={"Accept-Encoding": "gzip"})
        plain = client.get(f"/console/{name}", headers={"Accept-Encoding": "identity"})
        assert small.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert int(small.headers["content-length"]) == len(file.gzipped)
        assert small.content == plain.content == file.content
        assert small.headers["etag"] != plain.headers["etag"]
        assert small.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"


def test_every_file_that_is_named_exists_and_none_is_left_over():
    pages = {name for name in FILES if name.endswith(".html")}
    text = "".join(FILES[name].content.decode() for name in pages)
    named = re.findall(r'(?:src|href)="console/([^"]+)"', text)
    assert {*named, *pages} == set(FILES)
    bundles = [FILES[name].content.decode() for name in BUNDLES]
    packed = [re.findall(r"^// (\S+\.m?js)$", each, re.M) for each in bundles]
    assert all(len(each) == len({*each}) for each in packed)
    assert set().union(*packed) == set(modules())
    kept = {p.relative_to(FOLDER).as_posix() for p in FOLDER.rglob("*") if p.is_file()}
    assert {name for name in kept if not name.startswith("vendor/")} == {*OWN, "icon.svg"}


def test_modules_are_put_together_behind_those_that_they_import(tmp_path: Path):
    modules = {
        "main.js": 'import { twice as double, ONE } from "./a/b.js";\n'
        'import named from "./c.mjs";\n'
        'import {\n  both,\n} from "./a/d.js";\n'
        "console.log(double(ONE), named(), both);\n",
        "a/b.js": "export const ONE = 1;\nexport function twice(n) { return 2 * n; }\n",
        "a/d.js": 'import named from "../c.mjs";\nconst x = named();\nexport { x as both };\n',
        "c.mjs": "var n=3;export default function(){return n}",
    }
    order = re.findall(r"^// (.*)$", bundled(modules, "main.js"), re.M)
    assert order == ["a/b.js", "c.mjs", "a/d.js", "main.js"]
    if node := shutil.which("node"):
        script = tmp_path / "all.mjs"
        script.write_text(bundled(modules, "main.js"))
        done = subprocess.run(
            [node, script], capture_output=True, text=True, timeout=600, check=True
        )
        assert done.stdout == "2 3 3\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('import * as b from "./b.js";', "is not a form that is known"),
        ('export * from "./b.js";', "is not a form that is known"),
        ('import { b } from "./b.js"', "is not a form that is known"),
        ('import { b } from "./b.js";', "imports itself: a.js → b.js → a.js"),
        ('import { c } from "./c.js";', "c.js is imported by a.js, and missing"),
    ],
)
def test_modules_that_cannot_be_put_together_are_refused(text: str, why: str):
    with pytest.raises(BundleError, match=re.escape(why)):
        bundled({"a.js": text, "b.js": 'import { a } from "./a.js";'}, "a.js")


@pytest.mark.parametrize("name", OWN)
def test_nothing_is_inline_written_as_html_or_loaded_from_elsewhere(name: str):
    text = OWN[name]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", text
    )
    assert not re.search(r'<style|\sstyle="|\son\w+="|javascript:', text)
    assert not re.search(r"(?<!xmlns=\")https?://", text)


def test_all_of_it_is_in_the_wheel(tmp_path: Path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=600)
    [wheel] = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    below = FOLDER.relative_to(ROOT)
    held = {f"{below}/{p.relative_to(FOLDER)}" for p in FOLDER.rglob("*") if p.is_file()}
    assert held <= packed


@pytest.mark.parametrize(("name", "script"), PAGES.items())
def test_the_only_script_of_a_page_is_a_file(name: str, script: str):
    page = FILES[name].content.decode()
    assert re.findall(r"<script([^>]*)>(.*?)</script>", page) == [
        (f' type="module" src="console/{script}"', "")
    ]


IN_JSON_ALONE = {
    "a number behind one that is shown": {
        "bytes_estimate",
        "caught_up_uncertainty_seconds",
        "controller_min_isr",
        "high_watermark_source",
        "is_complete",
        "lag_at_most_records",
        "lost_by_s",
        "last_stable_offset",
        "lineage_bytes",
        "local_start_batch",
        "local_start_timestamp_ms",
        "orphan_since_ms",
        "dangling_since_ms",
        "orphaned_segments",
        "overlaps",
        "pending_upload_leader_epoch",
        "read_at_ms",
        "refused_transitions",
        "remote_log_start_offset",
        "highest_remote_offset",
        "seconds_at_50_mib_per_s",
        "seconds_to_lead",
        "tier_state",
        "topic_id",
        "upload_lag_bytes",
        "last_tiered_fetch",
        "remote_records",
        "remote_bytes",
        "leader_epochs",
        "assigned",
    },
    "said as a risk, whose sentence is shown": {
        "compacted_only_grows",
        "end_below_stable",
        "is_overdue",
        "isr_shrink_near",
        "overdue_bytes",
        "reads_cold",
        "remote_end_below_local_start",
        "stable_below_local_start",
        "stable_below_remote_end",
    },
    "said in a sentence by why, which the console shows": {"what_stops"},
    "what a tap has read, for who looks into KIP-501 or KIP-1023": {
        "in_sync_kip501",
        "last_fetch_at_ms",
        "last_fetch_leader_end_offset",
        "pending_upload_lookup",
    },
    "of KIP-1303 and KIP-392, for who compares their rules": {
        "balancer_noop",
        "cold_leader_kept",
        "eligible_kip1303",
        "oldest_on_disk_tier_aware",
        "out_of_range",
        "replica_selector",
        "too_large",
        "too_small",
        "unavailable",
        "uncommitted",
    },
    "of a replica, said by its square": {"error_code", "last_known_elr", "removing"},
}


def fields_of(value: object) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(fields_of, value))
    if not isinstance(value, dict):
        return set()
    by_rack = value.keys() <= {"", "az-a", "az-b", "az-c"}
    return (set() if by_rack else set(value)) | fields_of(list(value.values()))


def test_each_field_of_a_partition_is_shown_or_has_a_reason_not_to_be():
    state = small()
    objects = partition_objects(state, np.arange(state.partitions), state.observed_at_ms)
    source = "\n".join(text for name, text in OWN.items() if name.endswith(".js"))
    hidden = {name for name in fields_of(objects) if not re.search(rf"\b{name}\b", source)}
    reasons = set().union(*IN_JSON_ALONE.values())
    assert hidden <= reasons, hidden - reasons
    assert reasons & set(re.findall(r"\w+", source)) <= {
        "bytes_estimate",
        "remote_bytes",
        "remote_records",
        "unavailable",
    }, "shown now: not in JSON alone"
