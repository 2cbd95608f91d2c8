"""A capsule: what is in it, what opening it needs, and what is refused."""

from __future__ import annotations

import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from streaming.cli.main import main
from streaming.exporter.capsule_server import source_of
from streaming.exporter.web_application import application
from streaming.history.capsules import arrow_sizes, file_format, opening
from streaming.history.capsules.file_format import FORMAT_VERSION
from streaming.history.capsules.opening import Capsule, CapsuleError
from streaming.history.capsules.saving import SaveError, save
from streaming.history.moment import MomentError
from streaming.lab.processes import free_base_port
from tests.history.recorded import SMALL, a_recording, an_event, at, message
from tests.waiting import until
from tests.web import get
from twin.builtin import CATALOG
from twin.engine import codec, frames
from twin.engine.frames import InvalidFrame

CYCLES = 8
RECORDED = a_recording(CYCLES, shards=1)

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("kafka", "pyspark", "py4j"):
            raise ImportError(f"{name} is imported")

sys.meta_path.insert(0, Blocked())
from streaming.cli.main import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("capsule") / "incident.capsule"
    save(RECORDED, CATALOG, at(2), at(CYCLES - 1), file)
    return file


def refusal(path: Path) -> str:
    with pytest.raises(CapsuleError) as refused:
        Capsule(path)
    line = str(refused.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    return line.removeprefix(f"{path}: ")


def changed(
    file: Path, path: Path, change: Callable[[dict[str, bytes]], Any], *, said: bool = False
) -> Path:
    """The capsule with changed members; ``said`` if the manifest says what they are."""
    with zipfile.ZipFile(file) as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    change(members)
    if said:
        manifest = msgspec.json.decode(members[file_format.MANIFEST])
        for name, content in members.items():
            if name != file_format.MANIFEST:
                digest = opening.sha256(content).hexdigest()
                manifest["members"][name] = {"size_bytes": len(content), "sha256": digest}
        members[file_format.MANIFEST] = msgspec.json.encode(manifest)
    with zipfile.ZipFile(path, "w") as other:
        for name, content in members.items():
            other.writestr(name, content, zipfile.ZIP_DEFLATED)
    return path


def manifest_with(**fields: Any) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        manifest = msgspec.json.decode(members[file_format.MANIFEST])
        members[file_format.MANIFEST] = msgspec.json.encode(manifest | fields)

    return change


# ---------------------------------------------------------------- saved


def test_a_capsule_says_what_it_is(file: Path):
    with closing(Capsule(file)) as opened:
        manifest = opened.manifest
        assert (manifest.cluster, manifest.shards, manifest.cycles) == ("sim", 1, CYCLES - 2)
        assert (manifest.begin_ms, manifest.end_ms) == (at(2), at(CYCLES - 1))
        assert manifest.observed_since_ms == at(0)
        assert manifest.observations == CYCLES - 3  # the state at the beginning has the first
        assert not manifest.anonymized
        assert opened.events == RECORDED.events[2:]
        assert opened.title == (
            "a capsule of sim from 2001-09-09T01:46:50.000Z to 2001-09-09T01:47:15.000Z"
        )


def test_a_span_begins_with_the_newest_cycle_before_it(tmp_path: Path):
    manifest = save(RECORDED, CATALOG, at(3) + 10, at(5) + 10, tmp_path / "c")
    assert (manifest.begin_ms, manifest.end_ms) == (at(3), at(5))


def test_a_span_before_what_the_bus_keeps_is_one_line(tmp_path: Path):
    with pytest.raises(MomentError, match="the bus keeps observations since 2001-09-09T01:46:40"):
        save(RECORDED, CATALOG, at(0) - 1, at(5), tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_the_past_of_a_shard_that_came_later_is_not_made_up(tmp_path: Path):
    recorded = a_recording(5, shards=2, shape=SMALL)
    late = replace(recorded, messages=recorded.messages[:1] + recorded.messages[2:])
    with pytest.raises(MomentError, match="the bus keeps observations since 2001-09-09T01:46:45"):
        save(late, CATALOG, at(0), at(4), tmp_path / "c")


def test_a_span_in_which_nothing_was_observed_is_one_line(tmp_path: Path):
    with pytest.raises(MomentError, match="the newest observation is of 2001-09-09T01:47:15"):
        save(RECORDED, CATALOG, at(CYCLES + 5), at(CYCLES + 9), tmp_path / "c")
    with pytest.raises(MomentError, match="no observation of all shards"):
        save(replace(RECORDED, messages=[]), CATALOG, at(0), at(1), tmp_path / "c")


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path):
    with pytest.raises(SaveError, match="No such file or directory"):
        save(RECORDED, CATALOG, at(2), at(4), tmp_path / "nowhere" / "c")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--from", "2999-01-01T00:00:00Z"], "--from 2999-01-01T00:00:00.000Z is in the future"),
        (["--from", "-1h", "--to", "-2h"], " is after --to "),
        (["--from", "yesterday"], "'yesterday' is not a moment"),
    ],
)
def test_a_span_that_is_none_is_one_line_before_the_bus_is_read(options: list[str], why: str):
    done = CliRunner().invoke(main, ["capsule", "save", *options, "x.capsule"])
    assert done.exit_code != 0
    assert why in done.output


# ---------------------------------------------------------------- opened


@pytest.fixture(scope="module")
def served(file: Path) -> Iterator[str]:
    """A capsule that is open in a process in which neither Kafka nor Spark can be imported."""
    port = str(free_base_port(1))
    call = [sys.executable, "-c", BLOCKED, "capsule", "open", str(file), "--port", port]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True, cwd=file.parent) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            url = f"http://127.0.0.1:{port}"
            assert said == (
                "a capsule of sim from 2001-09-09T01:46:50.000Z to 2001-09-09T01:47:15.000Z: "
                f"{url}/\n"
            )
            until(lambda: answers(url), pause_s=0.05)
            yield url
        finally:
            process.terminate()
            assert process.wait(60) == 0


def answers(url: str) -> bool:
    try:
        return get(f"{url}/healthz")[0] == 503
    except OSError:
        return False


def test_a_capsule_opens_without_kafka_and_spark_and_does_not_pretend_to_be_live(served: str):
    status, why = get(f"{served}/healthz")
    assert status == 503
    assert why == (
        "a capsule of sim from 2001-09-09T01:46:50.000Z to 2001-09-09T01:47:15.000Z; "
        "shown is 2001-09-09T01:47:15.000Z\n"
    )
    summary = msgspec.json.decode(get(f"{served}/api/v1/summary")[1])
    assert summary["not_live"] == why.strip()
    assert summary["why_not_up"] == why.strip()
    assert (summary["up"], summary["observed_at_ms"]) == (False, at(CYCLES - 1))
    assert (summary["at"], summary["complete"]) == ("2001-09-09T01:47:15.000Z", True)
    status, said = get(f"{served}/metrics")
    assert (status, said) == (404, f"{why.strip()}: no metrics\n")
    assert get(f"{served}/")[0] == 200


def test_every_path_of_a_capsule_answers_for_its_moments(served: str):
    asked = "at=2001-09-09T01:46:52Z"
    for path in (
        "summary", "brokers", "partitions", "partitions/topic-0-0/1", "partitions/topic-0-0/1/why",
        "partitions/topic-0-0/1/segments", "groups", "groups/group-0", "matrix", "predictions",
        "problems", "whatif/lose?broker=1", "brokers/1/restart", "brokers/in-sync", "plans/order",
        "plans/demote?broker=1", "plans/roll",
    ):  # fmt: skip
        status, body = get(f"{served}/api/v1/{path}{'&' if '?' in path else '?'}{asked}")
        assert status == 200, body
        answer = msgspec.json.decode(body)
        assert answer["at"] == "2001-09-09T01:46:50.000Z", path
        assert (answer["resolution_ms"], answer["complete"]) == (5_000, True)


@pytest.mark.parametrize(
    ("asked", "status", "why"),
    [
        ("2001-09-09T01:46:49Z", 404, "is before the beginning: 2001-09-09T01:46:50.000Z"),
        ("2001-09-09T01:47:16Z", 404, "is after the end: 2001-09-09T01:47:15.000Z"),
        ("2999-01-01T00:00:00Z", 404, "at: 2999-01-01T00:00:00.000Z is in the future"),
        ("-1h", 404, "at: 2001-09-09T00:47:15.000Z is before the beginning"),
        ("noon", 400, "at: 'noon' is not a moment; write 2026-11-24T03:12:00Z, or -15m"),
    ],
)
def test_a_moment_that_is_not_there_is_one_line(served: str, asked: str, status: int, why: str):
    answered, body = get(f"{served}/api/v1/summary?at={asked}")
    assert answered == status
    assert why in msgspec.json.decode(body)["error"]


def test_a_time_ago_counts_from_the_end_of_a_capsule(served: str):
    summary = msgspec.json.decode(get(f"{served}/api/v1/summary?at=-10s")[1])
    assert summary["at"] == "2001-09-09T01:47:05.000Z"
    assert summary["not_live"].endswith("; shown is 2001-09-09T01:47:05.000Z")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments)


def test_the_command_line_asks_about_a_moment_of_a_capsule(served: str):
    note = "note: this is of 2001-09-09T01:46:50.000Z\n"
    moment = ["--url", served, "--at", "2001-09-09T01:46:50Z"]
    for command in (
        ["whatif", "lose", "--broker", "1"], ["gate", "restart", "--broker", "1"],
        ["gate", "in-sync"], ["plan", "order"], ["plan", "demote", "--broker", "1"],
        ["plan", "roll"],
    ):  # fmt: skip
        done = run(*command, *moment)
        assert done.stderr == note, done.output
        assert done.stdout
        assert run(*command, *moment, "--json").stdout.startswith("{")


def test_a_script_that_asks_a_capsule_gets_no_verdict_of_now(served: str):
    for command in (["restart", "--broker", "1"], ["in-sync"]):
        done = run("gate", *command, "--url", served)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == f"Error: {served} shows the past: --at asks about it\n"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("whatif lose --broker 1 --at -15m", "--at asks an exporter that knows the past"),
        ("plan order --at -15m", "--at asks an exporter that knows the past"),
        ("plan order --apply --at -15m --url http://x", "--apply, --watch and --out cannot be"),
        (
            "plan demote --broker 1 --apply --at -1m --url http://x",
            "--apply, --watch and --out cannot",
        ),
        ("gate restart --broker 1 --wait 1m --at -15m --url http://x", "--wait cannot be combined"),
        ("plan roll --wait 1m --at -15m --url http://x", "--wait cannot be combined with --at"),
        ("gate restart --broker 1 --at -15m", "--at asks an exporter that knows the past"),
    ],
)
def test_what_cannot_be_asked_about_the_past_is_one_line(command: str, why: str):
    done = run(*command.split())
    assert done.exit_code == (2 if command.startswith(("gate", "plan roll")) else 1)
    assert why in done.output
    assert done.output.count("\n") == 1


# ---------------------------------------------------------------- refused


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path):
    assert refusal(tmp_path / "none") == "No such file or directory"


@pytest.mark.parametrize("content", [b"", b"PK", b"a text\n" * 1_000, b"PK\x05\x06" + bytes(18)])
def test_what_is_no_capsule_is_one_line(tmp_path: Path, content: bytes):
    path = tmp_path / "c"
    path.write_bytes(content)
    assert refusal(path).startswith("is not a capsule, or is damaged: ")


def test_a_capsule_of_another_format_is_refused_with_what_to_do(file: Path, tmp_path: Path):
    change = manifest_with(format_version=FORMAT_VERSION + 1, product_version="9.9", unknown=[1])
    assert refusal(changed(file, tmp_path / "c", change)).endswith(
        f"reads format {FORMAT_VERSION}: open it with kafka-twin 9.9, which saved it"
    )


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_capsule_that_was_cut_off_is_one_line(file: Path, tmp_path: Path, share: float):
    content = file.read_bytes()
    path = tmp_path / "c"
    path.write_bytes(content[: int(len(content) * share)])
    assert refusal(path).startswith("is not a capsule, or is damaged: ")


def test_a_damaged_capsule_is_one_line_or_answers_what_it_did(file: Path, tmp_path: Path):
    """Any byte of the file may be wrong; no other exception comes out."""
    content, path = file.read_bytes(), tmp_path / "c"
    refused = 0
    for place in range(0, len(content), max(len(content) // 60, 1)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            with closing(Capsule(path)) as opened:
                for cycle in range(2, CYCLES):
                    opened.replay.view(at(cycle))
                assert len(opened.events) == CYCLES - 2
        except CapsuleError:
            refused += 1
    assert refused > 30


def test_a_moment_whose_observations_are_damaged_is_one_line(file: Path, tmp_path: Path):
    path = changed(file, tmp_path / "c", lambda members: members.update({"observations/0": b"x"}))
    with closing(Capsule(path)) as opened:
        client = TestClient(application(source_of(opened)))
        assert client.get("/api/v1/summary").status_code == 200  # the end has a whole state
        answer = client.get("/api/v1/summary", params={"at": "-5s"})
        assert answer.status_code == 503
        assert answer.json() == {
            "error": f"at: {path}: is not a capsule, or is damaged: observations/0 is not as the "
            "manifest says"
        }


def test_a_table_of_another_version_is_named(file: Path, tmp_path: Path):
    def change(members: dict[str, bytes]) -> None:
        state = members["states/5/0"]
        assert b"growth=1" in state
        members["states/5/0"] = state.replace(b"growth=1", b"growth=7")

    path = changed(file, tmp_path / "c", change, said=True)
    with closing(Capsule(path)) as opened:
        assert "growth: version 7, this version has 1" in opened.discarded


@pytest.mark.parametrize("name", ["index", "events", "observations/0", "states/0/0", "cluster/0"])
def test_a_member_that_is_missing_or_another_one_is_refused(file: Path, tmp_path: Path, name: str):
    def opened(path: Path) -> None:
        with closing(Capsule(path)) as whole:
            assert whole.replay.view(at(3))
            assert whole.events

    for change in (lambda members: members.pop(name), lambda members: members.update({name: b"x"})):
        with pytest.raises(CapsuleError, match=r"is missing|is not as the manifest says"):
            opened(changed(file, tmp_path / "c", change))


def test_members_are_not_read_beyond_their_limits(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    large = changed(file, tmp_path / "c", lambda members: members.update({"index": bytes(5 << 20)}))
    assert large.stat().st_size < 2 << 20  # it is small on disk
    monkeypatch.setattr(file_format, "MOST_INDEX_BYTES", 1 << 20)
    assert "index has 5242880 bytes; the limit is 1048576" in refusal(large)
    monkeypatch.setattr(file_format, "MOST_MEMBERS", 3)
    assert "too many members" in refusal(file)
    monkeypatch.setattr(file_format, "MOST_FILE_BYTES", 1_000)
    assert "the limit is 1000" in refusal(file)


def test_a_member_that_lies_about_its_size_is_refused(file: Path, tmp_path: Path):
    content = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as whole:
        size = whole.getinfo("index").file_size
    directory = content.index(b"PK\x01\x02")
    place = content.index(struct.pack("<I", size), directory)
    content[place : place + 4] = struct.pack("<I", size - 1)
    path = tmp_path / "c"
    path.write_bytes(content)
    assert "is not a capsule, or is damaged" in refusal(path)


def test_a_message_that_would_take_much_memory_is_refused_before_it_is_decompressed():
    large = RECORDED.messages[-1][1]
    arrow_sizes.check(large, 10 << 20)
    with pytest.raises(InvalidFrame, match="more than 1000 bytes, decompressed"):
        arrow_sizes.check(large, 1_000)


def test_a_message_that_says_that_it_holds_a_terabyte_is_refused(file: Path, tmp_path: Path):
    def change(members: dict[str, bytes]) -> None:
        state = bytearray(members["states/5/0"])
        lz4 = state.index(b"\x04\x22\x4d\x18")  # after the size, which is in front of the frame
        state[lz4 - 8 : lz4] = struct.pack("<q", 1 << 40)
        members["states/5/0"] = bytes(state)

    path = changed(file, tmp_path / "c", change, said=True)
    assert "bytes, decompressed" in refusal(path)


def test_an_assignment_that_makes_every_table_wide_is_refused(monkeypatch: pytest.MonkeyPatch):
    state = codec.encode(a_state())
    opening._check_slots(state)
    monkeypatch.setattr(opening, "MOST_REPLICA_SLOTS", 5)
    for wide in (state, RECORDED.messages[0][1]):
        with pytest.raises(InvalidFrame, match="4 rows of 3 replicas"):
            opening._check_slots(wide)


def a_state() -> Any:
    with_all = a_recording(1, shards=1)
    sent = frames.decode(with_all.messages[0][1], CATALOG.observations).frames
    from twin.engine.shard_state import ShardState
    from twin.step import step

    samples = [each for each in sent if each.header.kind not in ("segments", "epochs")]
    return step(ShardState.empty(CATALOG, "sim", 0, 1), samples, at(0))[0]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"shards": 0}, "it has 0 shards"),
        ({"shards": 1 << 40}, "it has 1099511627776 shards"),
        ({"begin_ms": -1}, "its span is invalid"),
        ({"proposals": ["../../x"]}, "proposals that this kafka-twin does not have"),
        ({"cluster": "a\nb"}, "the cluster's name is too long or not printable"),
        ({"cycles": "many"}, "Expected `int`"),
    ],
)
def test_a_manifest_that_says_what_cannot_be_is_refused(
    file: Path, tmp_path: Path, fields: dict[str, Any], why: str
):
    assert why in refusal(changed(file, tmp_path / "c", manifest_with(**fields)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda index: index["cycles"].clear(), "it has 0 cycles"),
        (lambda index: index["cycles"].reverse(), "its cycles are not those of its span"),
        (lambda index: index["messages"].append([99, 0, 0, 0, 1]), "belongs to no cycle or shard"),
        (lambda index: index["messages"].append([1, 9, 0, 0, 1]), "belongs to no cycle or shard"),
        (lambda index: index["whole"].clear(), "the state at its beginning is missing"),
    ],
)
def test_an_index_that_says_what_cannot_be_is_refused(
    file: Path, tmp_path: Path, change: Callable[[Any], None], why: str
):
    def in_index(members: dict[str, bytes]) -> None:
        index = msgspec.json.decode(members["index"])
        change(index)
        members["index"] = msgspec.json.encode(index)

    assert why in refusal(changed(file, tmp_path / "c", in_index, said=True))


def test_names_of_members_are_no_paths(file: Path, tmp_path: Path):
    path = changed(file, tmp_path / "c", lambda members: members.update({"../../x": b"y"}))
    with closing(Capsule(path)) as opened:
        assert opened.replay.view(at(4)).complete
    assert [each.name for each in tmp_path.iterdir()] == ["c"]


def test_messages_that_are_of_no_kind_change_nothing(tmp_path: Path):
    recorded = replace(
        RECORDED,
        messages=[*RECORDED.messages, (0, b"?"), (0, message([]))],
        events=[b"?", an_event("sim", at(3))],
    )
    manifest = save(recorded, CATALOG, at(2), at(CYCLES), tmp_path / "c")
    assert (manifest.cycles, manifest.events) == (CYCLES - 2, 1)
