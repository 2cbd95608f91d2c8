"""Programs on a broker that is as Amazon MSK: it verifies URLs that keys of AWS have signed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from streaming.lab.local_cluster import LocalCluster
from streaming.query.kafka_options import kafka_options
from streaming.runtime import jars
from streaming.runtime.kafka import clients, iam_tokens
from tests.logins import java_client
from tests.logins.aws import ARN, KEY, REGION, ROLE, SECRET, Aws, Key, serving
from tests.logins.brokers import with_signed_urls
from tests.logins.going_on import (
    asks_again_after_s,
    asks_for_s,
    go_on_for_s,
    live,
    running,
    why_not,
)

pytestmark = [pytest.mark.cluster, pytest.mark.logins]

SESSION_MS = 10_000
LASTS_S = float(os.environ.get("LOGINS_LAST_S", "60"))
LOST_KEY, ENDED = "ASIATWIN0000EXAMPLE2", "session-token-that-has-ended"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("msk")


@pytest.fixture(scope="module")
def aws(folder: Path) -> Iterator[Aws]:
    aws = Aws(folder / "keys", external_id="twin-1")
    aws.knows(KEY, Key(SECRET))
    aws.knows(LOST_KEY, Key(SECRET, ENDED, ended=True))
    with serving(aws):
        yield aws


@pytest.fixture(scope="module")
def broker(aws: Aws, folder: Path) -> Iterator[tuple[LocalCluster, str]]:
    """A broker, and the address at which it wants signed URLs."""
    with running(with_signed_urls(folder, aws.file, REGION, SESSION_MS)) as started:
        yield started


@pytest.fixture
def environment(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """The environment of the programs: one key, and nothing of the machine."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    given = {"ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET, "EC2_METADATA_DISABLED": "true",
             "ENDPOINT_URL_STS": aws.url, "CONFIG_FILE": str(tmp_path / "config"),
             "SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    iam_tokens.provider_of.cache_clear()
    yield monkeypatch
    iam_tokens.provider_of.cache_clear()


def section(folder: Path, **changed: str) -> dict[str, Any]:
    given = {"sasl_aws_region": REGION} | changed
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "AWS_MSK_IAM",
        "ssl_cafile": str(folder / "msk.pem"),
        **{name: value for name, value in given.items() if value},
    }


def logins(local: LocalCluster) -> list[str]:
    """The library of each login that the broker has let in."""
    log = "".join(path.read_text() for path in local.layout.folder(1).glob("*.log"))
    return re.findall(r"let in: \S+ with ([\w-]+)/", log)


@pytest.mark.usefixtures("environment")
def test_a_client_outlives_its_sessions(broker: tuple[LocalCluster, str], folder: Path):
    local, address = broker
    before = len(logins(local))
    asks_for_s(address, section(folder), 25)
    assert len(logins(local)) - before >= 2  # of 10 s each


@pytest.mark.usefixtures("environment")
def test_a_client_goes_on_after_it_was_idle_for_longer_than_a_session(
    broker: tuple[LocalCluster, str], folder: Path
):
    asks_again_after_s(broker[1], section(folder), 15)


ROLE_OF_OURS = {"sasl_aws_role_arn": ROLE, "sasl_aws_role_external_id": "twin-1"}


@pytest.mark.parametrize("given", [{}, ROLE_OF_OURS], ids=["key", "role"])
@pytest.mark.usefixtures("environment")
def test_the_java_client_outlives_its_sessions(
    broker: tuple[LocalCluster, str], folder: Path, tmp_path: Path, given: dict[str, str]
):
    local, address = broker
    before = len(logins(local))
    options = kafka_options(address, section(folder, **given))
    region = f"-Daws.region={REGION}"
    done = java_client.asks_for_s(tmp_path, options, 25, region, further=jars.ensure("iam"))
    assert done.returncode == 0, done.stderr[-2_000:]
    assert set(logins(local)[before:]) == {"aws-msk-iam-auth"}
    assert len(logins(local)) - before >= 2  # of 10 s each


@pytest.mark.usefixtures("environment")
def test_check_logs_in_with_the_java_client_too(
    broker: tuple[LocalCluster, str], folder: Path, monkeypatch: pytest.MonkeyPatch
):
    assert java_client.checked(broker[1], section(folder)) == java_client.ANSWERED
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    said = java_client.checked(broker[1], section(folder))
    assert said.startswith("missing: Java client of cluster: cluster.bootstrap ")
    assert "not-the-secret" not in said


def test_each_wrong_credential_is_one_line_that_says_which(
    broker: tuple[LocalCluster, str], folder: Path, environment: pytest.MonkeyPatch
):
    def line(region: str = REGION, **variables: str) -> str:
        with environment.context() as changed:
            for name, value in variables.items():
                changed.setenv(f"AWS_{name}", value)
            iam_tokens.provider_of.cache_clear()
            told = why_not(broker[1], section(folder, sasl_aws_region=region))
        assert not [secret for secret in (SECRET, ENDED, "not-the-secret") if secret in told]
        return told

    assert f"the secret key of the access key {KEY} is wrong" in line(
        SECRET_ACCESS_KEY="not-the-secret"
    )
    assert "AWS does not know the access key AKIANOBODY" in line(ACCESS_KEY_ID="AKIANOBODY")
    assert f"the session token of the access key {LOST_KEY} has ended" in line(
        ACCESS_KEY_ID=LOST_KEY, SESSION_TOKEN=ENDED
    )
    assert f"AWS calls the credentials right, of {ARN}: if the login was refused, " in (
        told := line(region="us-east-2")
    )
    assert told.endswith("is missing, or the cluster is not in us-east-2")


def test_a_client_logs_in_as_a_role(
    broker: tuple[LocalCluster, str], aws: Aws, folder: Path, environment: pytest.MonkeyPatch
):
    _, address = broker
    with closing(
        KafkaAdminClient(**clients.arguments(address, section(folder, **ROLE_OF_OURS), "cluster"))
    ) as admin:
        admin.list_topics()
    assert aws.assumed[-1]["RoleSessionName"] == "kafka-twin"
    role = ROLE_OF_OURS | {"sasl_aws_role_external_id": "another"}
    iam_tokens.provider_of.cache_clear()
    assert f"the role {ROLE} cannot be assumed: AWS answers AccessDenied" in why_not(
        address, section(folder, **role)
    )


@pytest.mark.usefixtures("environment")
def test_all_programs_go_on_while_sessions_end(
    broker: tuple[LocalCluster, str], folder: Path, tmp_path: Path
):
    local, _ = broker
    with live(broker, tmp_path, "iam", section(folder)) as pipeline:
        before = len(logins(local))
        go_on_for_s(pipeline, LASTS_S)
        during = logins(local)[before:]
        for library in ("aws-msk-iam-sasl-signer-python", "aws-msk-iam-auth"):
            assert during.count(library) > LASTS_S * 1_000 / SESSION_MS, library
        for name in pipeline.programs:
            assert SECRET not in pipeline.log(name)
