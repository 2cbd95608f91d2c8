"""``kafka-twin mcp`` as a process, and both doors where the SDK is not installed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import urllib.error
import urllib.request
from functools import cache

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from starlette.testclient import TestClient

from streaming.bus.view import SnapshotStore
from tests.builders import NOW_MS, Group, Partition, a_state
from tests.exporter.agents.asking import Call, an_application, an_exporter, called, of_api, text_of
from tests.exporter.serving import served
from tests.exporter.test_exporter import a_full_store, a_store, in_groups
from tests.exporter.test_server import a_free_port, answer_of, configured
from tests.exporter.test_server import an_exporter as an_exporter_process
from twin.step import step


@cache
def store() -> SnapshotStore:
    return a_full_store()


WITHOUT_SDK = "import sys; sys.modules['mcp'] = None; from streaming.cli.main import main; main()"
"""A Python in which ``import mcp`` fails as if it were not installed."""

NOT_INSTALLED = "MCP needs packages that are not installed: pip install 'kafka-twin[mcp]'"


def over_stdio(url: str, *calls: Call) -> list:
    """The results of calls to a process that asks the URL."""
    arguments = ["-m", "streaming", "mcp", "--url", url]

    async def converse() -> list:
        server = StdioServerParameters(command=sys.executable, args=arguments)
        async with Client(server) as client:
            assert "never instructions" in (client.instructions or "")
            return [await client.call_tool(name, given) for name, given in calls]

    return asyncio.run(converse())


def test_over_stdio_it_answers_what_the_exporter_answers():
    with an_exporter(store(), mcp=False) as url:  # it needs the API alone
        lose, wrong, group = over_stdio(
            url,
            ("what_if_lose", {"broker": [2], "limit": 5}),
            ("partitions", {"limit": 3_000}),
            ("group", {"group": "reader"}),
        )
    api = TestClient(an_application(store()))
    assert lose.structured_content == of_api(api, "whatif/lose", broker=2, limit=5)
    assert (wrong.is_error, text_of(wrong)) == (True, "limit: at most 1000")
    assert group.structured_content == of_api(api, "groups/reader")


def test_a_name_is_what_it_is_in_a_path_through_both_doors():
    read, names = Partition("t"), ["team/a b?#%2F", "..", "ä"]
    groups = [Group(name, [(read, 10)]) for name in names]
    state, _ = step(a_state(read), in_groups(groups, NOW_MS), NOW_MS)
    calls = [("group", {"group": name}) for name in names]
    with an_exporter(a_store(state)) as url:
        answers = [*called(url, *calls), *over_stdio(url, *calls)]
    for answer, name in zip(answers, [*names, *names], strict=True):
        assert not answer.is_error, text_of(answer)
        assert answer.structured_content["group"] == name


def test_an_exporter_that_does_not_answer_is_one_line_and_the_process_goes_on():
    url = f"http://127.0.0.1:{a_free_port()}"
    for result in over_stdio(url, ("summary", {}), ("brokers", {})):
        assert result.is_error
        assert text_of(result) == f"{url}: does not answer: Connection refused"


def test_a_server_that_is_no_exporter_is_one_line():
    async def elsewhere(scope, receive, send):
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>hello</html>"})

    with served(elsewhere) as url:
        [result] = over_stdio(url, ("summary", {}))
    assert text_of(result) == "no answer of an exporter of kafka-twin: HTTP status 200"


def test_an_exporter_that_has_read_nothing_yet_says_so_to_an_agent(tmp_path):
    port = a_free_port()
    with an_exporter_process(configured(tmp_path, port)) as process:
        assert answer_of(port, "/healthz")[0] == 503
        summary, lose = called(
            f"http://127.0.0.1:{port}", ("summary", {}), ("what_if_lose", {"broker": [1]})
        )
        process.terminate()
        _, printed = process.communicate(timeout=200)
    # On a busy machine also since when the bus, which is not there, has not answered.
    assert summary.structured_content["why_not_up"].startswith("no snapshot has been read yet")
    assert lose.is_error
    assert text_of(lose).startswith("no snapshot has been read yet")
    assert "outcome=answered tool=summary" in printed
    assert process.returncode == 0
    assert "Traceback" not in printed


@pytest.mark.parametrize("arguments", [[], ["--url", "nonsense"]])
def test_it_needs_the_url_of_an_exporter(arguments):
    done = subprocess.run(
        [sys.executable, "-m", "streaming", "mcp", *arguments],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--url" in done.stderr
    assert done.stdout == ""


def test_without_the_sdk_the_command_says_how_to_install_it():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SDK, "mcp", "--url", "http://127.0.0.1:1"],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, f"Error: {NOT_INSTALLED}\n")


@pytest.mark.parametrize("setting", ["", "mcp = true"])
def test_without_the_sdk_the_exporter_serves_and_says_where_asked_how_to_install_it(
    tmp_path, setting
):
    port = a_free_port()
    path = configured(tmp_path, port)
    path.write_text(f"{path.read_text()}{setting}\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KAFKA_TWIN_")}
    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT_SDK, "--config", str(path), "exporter"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert answer_of(port, "/metrics")[0] == 200
        request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", data=b"{}")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=200)
        process.terminate()
        _, printed = process.communicate(timeout=200)
    assert refused.value.code == 404
    assert NOT_INSTALLED in refused.value.read().decode()
    assert (NOT_INSTALLED in printed) is bool(setting)  # nobody asked for it by default
    assert "Traceback" not in printed
