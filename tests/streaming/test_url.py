"""``--url``: the command line asks an exporter, and prints what it prints from the bus."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from streaming.cli.exporter_client import ExporterUnavailableError, ask
from streaming.cli.main import main
from streaming.cli.whatif import MOST_ROWS, print_answer
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.lab.processes import free_base_port
from streaming.questions.answer import Answer
from streaming.questions.gate.restart import judge
from streaming.questions.parameters import MAX_ROWS
from tests.asking import answered
from tests.builders import NOW_MS, Log, Partition, a_state
from tests.exporter.serving import served
from tests.exporter.test_exporter import a_store
from tests.twin.test_gate import quorum
from twin.builtin import CATALOG
from twin.engine.shard_state import ShardState
from twin.questions.gate import Reason, Terms

STATE: ShardState = a_state(
    Partition("orders", log=Log(local_start=50)),
    Partition("audit", replicas=(1,), log=Log(local_start=1, size_bytes=10)),
    topics={"orders": {"remote_storage": 1}},
    brokers=(1, 2, 3),
).with_tables(quorum(0, 0, 0))


@contextmanager
def exporting(state: ShardState, age_ms: int = 1_000) -> Iterator[str]:
    """The URL of an exporter of that state."""
    exposition = Exposition(a_store(state).view)
    with served(
        application(ViewSource(CATALOG, "c", lambda: exposition, lambda: NOW_MS + age_ms))
    ) as url:
        yield url


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with exporting(STATE) as url:
        yield url


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--url", url])


def printed(answer: Answer) -> str:
    out = io.StringIO()
    print_answer(answer, False, out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("lose --broker 1 --broker 2", answered("lose", STATE, broker=[1, 2])),
        ("lose --rack az-c", answered("lose", STATE, rack=["az-c"])),
        (
            "threshold --ms 10m --bytes 1MiB --grid",
            answered("threshold", STATE, ms=600_000, bytes=1 << 20, grid=True),
        ),
        (
            "threshold --ms 10m --topic orders",
            answered("threshold", STATE, ms=600_000, topic="orders"),
        ),
        (
            "bootstrap --broker 2 --rate 10MiB",
            answered("bootstrap", STATE, broker=2, rate=10 << 20),
        ),
        (
            "bootstrap --broker 9 --new",
            answered("bootstrap", STATE, broker=9, rate=50 << 20, new=True),
        ),
        ("retention --local-ms 1h", answered("retention", STATE, local_ms=3_600_000)),
    ],
)
def test_an_exporter_is_asked_the_same_question_and_its_answer_looks_the_same(
    url: str, arguments: str, answer: Answer
):
    done = run(url, "whatif", *arguments.split())
    assert (done.exit_code, done.stdout, done.stderr) == (0, printed(answer), "")
    as_json = json.loads(run(url, "whatif", *arguments.split(), "--json").stdout)
    about = {"observed_at_ms": NOW_MS, "stale": None}
    assert as_json == json.loads(json.dumps(answer.data)) | about


@pytest.mark.parametrize(
    ("arguments", "terms"),
    [
        ("", Terms()),
        ("--margin 1 --allow-rf1", Terms(1, frozenset({Reason.ONE_REPLICA}))),
        ("--cold-ok --allow-rf-min-isr --allow-small-quorum --allow-rf1",
         Terms(0, frozenset({Reason.ONE_REPLICA, Reason.COLD, Reason.NO_SPARE_REPLICA,
                             Reason.SMALL_QUORUM}))),
    ],
)  # fmt: skip
def test_the_gate_has_the_same_verdict_and_exit_code(url: str, arguments: str, terms: Terms):
    answer = judge(a_store(STATE).view, [1], terms, NOW_MS)
    done = run(url, "gate", "restart", "--broker", "1", *arguments.split())
    assert done.stdout == "\n".join(answer.lines()) + "\n"
    assert done.exit_code == (0 if answer.verdict == "safe" else 1)
    done = run(url, "gate", "restart", "--broker", "1", *arguments.split(), "--json")
    assert json.loads(done.stdout) == json.loads(json.dumps(answer.data()))


def test_brokers_that_are_restarted_together_and_the_time_are_asked_too(url: str):
    answer = judge(a_store(STATE).view, [1, 2], Terms(), NOW_MS)
    done = run(url, "gate", "restart", "--broker", "2", "--broker", "1")
    assert (done.exit_code, done.stdout) == (1, "\n".join(answer.lines()) + "\n")
    late = run(url, "gate", "restart", "--broker", "1", "--since", str(NOW_MS // 1_000 + 1))
    assert late.exit_code == 2
    assert "has not observed the whole cluster since that time" in late.stdout


def test_whether_all_brokers_are_in_sync_is_asked_too(url: str):
    answer = judge(a_store(STATE).view, (), Terms(), NOW_MS)
    done = run(url, "gate", "in-sync")
    assert (done.exit_code, done.stdout) == (0, "\n".join(answer.lines()) + "\n")


def test_a_stale_twin_is_asked_and_said_to_be_stale():
    with exporting(STATE, age_ms=600_000) as url:
        done = run(url, "whatif", "lose", "--broker", "1")
        assert (done.exit_code, done.stdout) == (0, printed(answered("lose", STATE, broker=[1])))
        assert done.stderr.startswith("note: the newest observation is 600 s old")
        done = run(url, "gate", "restart", "--broker", "1")
        assert done.exit_code == 2
        assert "unknown whether it is safe" in done.stdout


def test_more_rows_than_an_exporter_lists_are_counted():
    state = a_state(*(Partition("t", n) for n in range(MAX_ROWS + 5)))
    with exporting(state) as url:
        text = run(url, "whatif", "lose", "--broker", "1").stdout
    assert text.endswith(f"{MAX_ROWS + 5 - MOST_ROWS} more; --json has the worst {MAX_ROWS}\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("whatif lose --broker 9", "there is no broker 9; brokers are 1, 2, 3"),
        ("whatif threshold --ms 10m --topic rain", "there is no topic rain"),
        ("whatif bootstrap --broker 1 --new", "broker 1 is there already, so it is not new"),
        ("gate restart --broker 9", "there is no broker 9; brokers are 1, 2, 3"),
    ],
)
def test_what_the_exporter_refuses_is_one_clear_line(url: str, arguments: str, why: str):
    done = run(url, *arguments.split())
    assert done.exit_code == (2 if arguments.startswith("gate") else 1)
    assert done.output == f"Error: {why}\n"


def answering(response: Any) -> Starlette:
    return Starlette(routes=[Route("/{path:path}", lambda _: response)])


NONE = (
    "is not an exporter of kafka-twin, or has another version: HTTP status {}, "
    "and not the JSON that"
)


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (PlainTextResponse("Welcome"), NONE.format(200)),
        (PlainTextResponse("Not Found", 404), NONE.format(404)),
        (JSONResponse({"status": "success"}), NONE.format(200)),
        (JSONResponse({"message": "Unauthorized"}, 401), NONE.format(401)),
        (PlainTextResponse("", 302, {"Location": "http://127.0.0.1:1/"}), NONE.format(302)),
    ],
    ids=["page", "not-found", "other-json", "other-error", "redirect"],
)
def test_what_is_no_exporter_is_named(response: Any, why: str):
    with served(answering(response)) as url:
        for arguments, code in ((["whatif", "lose"], 1), (["gate", "restart"], 2)):
            done = run(url, *arguments, "--broker", "1")
            assert done.exit_code == code
            assert done.output.startswith(f"Error: {url}: {why}")
            assert done.output.count("\n") == 1


def test_an_exporter_that_has_read_nothing_yet_says_so():
    exposition = Exposition()
    with served(application(ViewSource(CATALOG, "c", lambda: exposition))) as url:
        done = run(url, "whatif", "lose", "--broker", "1")
        assert (done.exit_code, done.output) == (1, "Error: no snapshot has been read yet\n")
        assert run(url, "gate", "restart", "--broker", "1").exit_code == 2


def test_nobody_who_listens_is_one_clear_line():
    url = f"http://127.0.0.1:{free_base_port(1)}"
    done = run(url, "whatif", "lose", "--broker", "1")
    assert (done.exit_code, done.output) == (
        1,
        f"Error: {url}: does not answer: Connection refused\n",
    )
    assert run(url, "gate", "restart", "--broker", "1").exit_code == 2


def test_an_exporter_that_does_not_answer_is_not_waited_for_for_ever():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ExporterUnavailableError) as refusal:
            ask(url, "whatif/lose", {"broker": 1}, dict[str, Any], answer_within_s=0.2)
    assert str(refusal.value) == f"{url}: does not answer in time"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9410", "ftp://x", "http://", "http://u:p@x", "http://x?y"]
)
def test_what_is_no_url_is_refused(url: str):
    done = run(url, "whatif", "lose", "--broker", "1")
    assert done.exit_code == 2
    assert f"{url!r} is no URL like http://127.0.0.1:9410" in done.output


def test_an_exporter_below_a_path_is_asked_there(url: str):
    done = run(f"{url}/twin/", "whatif", "lose", "--broker", "1")
    assert done.output == "Error: there is nothing at /twin/api/v1/whatif/lose\n"
