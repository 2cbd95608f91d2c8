"""Dashboards and annotations against a Grafana that answers like the real ones, or badly."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from streaming.cli.main import main
from streaming.grafana.client import GrafanaClient, GrafanaError
from streaming.grafana.commands import dashboards
from streaming.runtime.config import GrafanaConfig
from tests.grafana.stub import Stub, a_grafana, slow


@pytest.fixture
def stub() -> Iterator[Stub]:
    with a_grafana() as running:
        yield running


@pytest.fixture
def client(stub: Stub) -> GrafanaClient:
    return GrafanaClient(GrafanaConfig(url=stub.url, token="secret", timeout_ms=30_000))


def run(stub: Stub, *arguments: str, **environment: str):
    given = {"KAFKA_TWIN_GRAFANA_URL": stub.url, "KAFKA_TWIN_GRAFANA_TOKEN": "secret",
             "KAFKA_TWIN_CLUSTER_NAME": "prod"}  # fmt: skip
    return CliRunner().invoke(main, ["grafana", *arguments], env=given | environment)


def test_publish_makes_the_folder_and_saves_every_dashboard_in_it(stub: Stub):
    done = run(stub, "publish")
    assert done.exit_code == 0, done.output
    assert stub.folders == {"kafka-twin": "kafka-twin"}
    assert len(stub.dashboards) == len(dashboards()) == 7
    for body in stub.dashboards.values():
        assert (body["folderUid"], body["overwrite"], body["dashboard"]["id"]) == (
            "kafka-twin",
            True,
            None,
        )
    assert f"{stub.url}/d/kafka-twin-cluster/x" in done.output


def test_published_dashboards_lead_to_the_console_that_is_named(stub: Stub):
    assert run(stub, "publish", "--console", "https://twin.example.org/").exit_code == 0
    for body in stub.dashboards.values():
        [console] = [v for v in body["dashboard"]["templating"]["list"] if v["name"] == "console"]
        shown = [console["query"], console["current"]["value"]]
        shown += [option["value"] for option in console["options"]]
        assert set(shown) == {"https://twin.example.org"}
    wrong = run(stub, "publish", "--console", "twin.example.org")
    assert wrong.exit_code == 2
    assert "neither http:// nor https://" in wrong.output


def test_publish_without_an_address_keeps_that_of_before(stub: Stub):
    assert run(stub, "publish", "--console", "https://twin.example.org").exit_code == 0
    assert run(stub, "publish").exit_code == 0
    for body in stub.dashboards.values():
        [console] = [v for v in body["dashboard"]["templating"]["list"] if v["name"] == "console"]
        assert console["query"] == console["current"]["value"] == "https://twin.example.org"


@pytest.mark.parametrize("code", [409, 412])
def test_publish_again_is_fine(stub: Stub, code: int):
    stub.existing_folder_code = code
    assert run(stub, "publish").exit_code == run(stub, "publish").exit_code == 0


def test_a_provisioned_dashboard_is_one_line_that_says_so(stub: Stub):
    stub.provisioned = {"kafka-twin-cluster"}
    done = run(stub, "publish")
    assert done.exit_code == 1
    assert done.output.splitlines()[-1].endswith("400: Cannot save provisioned dashboard")
    assert len(done.output.splitlines()) == 1


def test_a_wrong_token_is_one_line_without_the_token(stub: Stub):
    done = run(stub, "publish", KAFKA_TWIN_GRAFANA_TOKEN="wr0ng")
    assert done.exit_code == 1
    assert done.output.endswith("folder kafka-twin: 401: Invalid API key\n")
    assert "wr0ng" not in done.output


def test_a_user_and_a_password_will_do(stub: Stub):
    done = run(stub, "annotate", "hello", KAFKA_TWIN_GRAFANA_TOKEN="",
               KAFKA_TWIN_GRAFANA_USER="admin", KAFKA_TWIN_GRAFANA_PASSWORD="pw")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert stub.asked[0][3].startswith("Basic ")


def test_annotate_marks_a_time_with_tags(stub: Stub):
    done = run(stub, "annotate", "restart of broker 3", "--tag", "planned", "--at-ms", "1234")
    assert done.exit_code == 0, done.output
    assert stub.annotations == [
        {"dashboardId": None, "panelId": None, "time": 1234, "timeEnd": None,
         "tags": ["kafka-twin", "cluster:prod", "by-hand", "planned"],
         "text": "restart of broker 3"}
    ]  # fmt: skip


def test_without_a_url_or_a_login_it_says_what_to_set(stub: Stub):
    no_url = run(stub, "publish", KAFKA_TWIN_GRAFANA_URL="")
    no_login = run(stub, "publish", KAFKA_TWIN_GRAFANA_TOKEN="")
    assert "grafana.url is not set" in no_url.output
    assert "KAFKA_TWIN_GRAFANA_TOKEN" in no_login.output
    wrong = run(stub, "publish", KAFKA_TWIN_GRAFANA_URL="grafana.example.org")
    assert "must be like https://grafana.example.org" in wrong.output


@pytest.mark.parametrize("answer", [(204, b""), (200, b""), (200, b"  \n")])
def test_an_empty_answer_is_done(stub: Stub, client: GrafanaClient, answer):
    stub.next_answers = [answer, answer]
    client.annotate("text", ["a"], 1)
    client.ensure_folder("u", "t")


@pytest.mark.parametrize(
    ("answer", "again", "says"),
    [
        ((200, b"<html>login</html>"), False, "no JSON; is this Grafana?"),
        ((500, b'{"message":"database is locked"}'), True, "500: database is locked"),
        ((502, b"<html>bad gateway</html>"), True, "502: <html>bad gateway</html>"),
        ((503, b""), True, "503: no reason given"),
        ((400, b'{"message":"no"}'), False, "400: no"),
        ((403, b'["odd"]'), False, "403: ['odd']"),
        ((429, b'{"message":"slow down"}'), True, "429: slow down"),
        ((412, b'{"message":"version mismatch"}'), False, "412: version mismatch"),
    ],
)
def test_what_goes_wrong_is_one_line_and_says_if_trying_again_helps(
    stub: Stub, client: GrafanaClient, answer, again, says
):
    stub.next_answers = [answer]
    with pytest.raises(GrafanaError) as error:
        client.annotate("text", ["a"], 1)
    assert str(error.value) == f"{stub.url}: annotation: {says}" or says in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.again is again


def test_no_answer_in_time_is_worth_another_try(stub: Stub):
    client = GrafanaClient(GrafanaConfig(url=stub.url, token="secret", timeout_ms=100))
    stub.next_answers = [slow(1.0)]
    with pytest.raises(GrafanaError, match="annotation: no answer in time") as error:
        client.annotate("text", ["a"], 1)
    assert error.value.again


def test_nobody_at_that_address_is_worth_another_try():
    client = GrafanaClient(GrafanaConfig(url="http://127.0.0.1:1", token="secret"))
    with pytest.raises(GrafanaError, match="Connection refused") as error:
        client.annotate("text", [], 1)
    assert error.value.again


def test_the_committed_dashboards_are_what_is_published():
    assert [json.loads(p.read_text())["uid"] for p in dashboards()] == [
        p.stem for p in dashboards()
    ]
