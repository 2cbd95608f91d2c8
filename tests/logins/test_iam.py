"""The settings of AWS_MSK_IAM, and what both clients make of them."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from streaming.query.kafka_options import kafka_options
from streaming.query.logins import java_iam as of_java
from streaming.runtime.config import ConfigError
from streaming.runtime.configuration.loading import load
from streaming.runtime.kafka import clients, iam_tokens
from streaming.runtime.kafka.iam import Iam
from streaming.runtime.kafka.tokens import TokenError
from tests.logins.aws import KEY, REGION, ROLE, SECRET, Aws, Key, serving

MSK = {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"}
BROKER = "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com:9098"


@pytest.fixture(autouse=True)
def one_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment has one key, and nothing of the machine."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in (
        ("ACCESS_KEY_ID", KEY), ("SECRET_ACCESS_KEY", SECRET), ("EC2_METADATA_DISABLED", "true"),
        ("CONFIG_FILE", tmp_path / "config"), ("SHARED_CREDENTIALS_FILE", tmp_path / "credentials"),
    ):  # fmt: skip
        monkeypatch.setenv(f"AWS_{name}", str(value))
    iam_tokens.provider_of.cache_clear()


def configured(folder: Path, bootstrap: str = "b:1", **client: str):
    lines = [f"{key} = '{value}'" for key, value in client.items()]
    path = folder / "twin.toml"
    path.write_text(
        "\n".join(["[cluster]", f'bootstrap = "{bootstrap}"', "[cluster.client]", *lines])
    )
    return load(path, {})


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ({"security_protocol": "SASL_PLAINTEXT"}, "security_protocol: AWS_MSK_IAM needs SASL_SSL"),
        ({"sasl_aws_region": "Ireland"}, "sasl_aws_region: must be like eu-west-1"),
        ({"sasl_aws_role_arn": "kafka"}, "sasl_aws_role_arn: must be like arn:aws:iam::"),
        ({"sasl_aws_role_arn": ROLE, "sasl_aws_profile": "p"}, "role_arn: set either this or"),
        ({"sasl_aws_role_external_id": "x"}, "role_external_id: needs sasl_aws_role_arn"),
        ({"sasl_aws_role_session_name": "x"}, "role_session_name: must be 2 to 64 letters"),
        ({"sasl_aws_secret": "x"}, "sasl_aws_secret: is none of sasl_aws_profile"),
        (
            {"sasl_aws_region": "us-east-1"},
            "sasl_aws_region: is us-east-1, and bootstrap has an address in eu-west-1",
        ),
        ({"sasl_mechanism": "PLAIN", "sasl_aws_region": "eu-west-1"}, "needs sasl_mechanism = "),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_when_the_file_is_read(
    tmp_path: Path, client: dict[str, str], message: str
):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, BROKER, **(MSK | client))
    assert "cluster.client." in str(caught.value)
    assert message in str(caught.value)


def test_a_mechanism_that_nobody_knows_gets_the_list_of_those_that_are(tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, sasl_mechanism="DIGEST-MD5")
    for known in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"):
        assert known in str(caught.value)


def test_kafka_python_gets_a_url_that_the_key_has_signed():
    given = clients.settings({**MSK, "sasl_aws_region": REGION}, "cluster")
    assert given["sasl_mechanism"] == "OAUTHBEARER"
    assert not {name for name in given if name.startswith("sasl_aws_")}
    text = given["sasl_oauth_token_provider"].token()
    url = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
    fields = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert url.hostname == f"kafka.{REGION}.amazonaws.com"
    assert fields["X-Amz-Credential"].startswith(f"{KEY}/")
    assert fields["X-Amz-Expires"] == "900"
    assert SECRET not in url.geturl()


def test_a_token_says_when_it_ends_and_is_kept_for_a_third_of_its_life():
    assert iam_tokens.Signer(Iam(REGION))().ends_s == pytest.approx(time.time() + 900, abs=5)
    provider = iam_tokens.provider_of(Iam(REGION))
    first = provider.token()
    assert provider.token() == first
    assert provider._until_s == pytest.approx(time.time() + 300, abs=5)


def test_the_region_is_that_of_the_setting_the_environment_or_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "config").write_text("[profile ops]\nregion = eu-north-1\n")
    assert iam_tokens.Signer(Iam(profile="ops")).region() == "eu-north-1"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    assert iam_tokens.Signer(Iam()).region() == "eu-west-2"
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    assert iam_tokens.Signer(Iam()).region() == "eu-west-3"
    assert iam_tokens.Signer(Iam(REGION)).region() == REGION


def test_keys_that_something_else_renews_in_a_file_are_used_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"AWS_{name}")
    signer = iam_tokens.Signer(Iam(REGION))
    for key in ("AKIAFIRST", "AKIASECOND"):
        (tmp_path / "credentials").write_text(
            f"[default]\naws_access_key_id = {key}\naws_secret_access_key = x\n"
        )
        text = signer().text
        assert f"Credential={key}%2F" in base64.urlsafe_b64decode(text + "==").decode()


@pytest.mark.parametrize(
    ("iam", "gone", "reason"),
    [
        (Iam(REGION), ("ACCESS_KEY_ID",), "there are no credentials of AWS: none in the env"),
        (Iam(), (), "sasl_aws_region: is missing, and neither AWS_REGION"),
        (Iam(REGION, profile="lost"), (), "The config profile (lost) could not be found"),
        (Iam(REGION, role_arn=ROLE), (), f"the role {ROLE} cannot be assumed: AWS answers Sig"),
    ],
    ids=["no keys", "no region", "no profile", "no role"],
)
def test_what_gives_no_token_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, iam: Iam, gone: tuple[str, ...], reason: str
):
    for name in gone:
        monkeypatch.delenv(f"AWS_{name}")
    aws = Aws(tmp_path / "keys")
    aws.knows(KEY, Key("another secret"))
    with serving(aws):
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", aws.url)
        with pytest.raises(TokenError) as caught:
            iam_tokens.Signer(iam)()
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)


def test_where_aws_cannot_be_asked_all_that_may_be_wrong_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9")
    told = iam_tokens.Signer(Iam(REGION)).why_refused()
    assert told.startswith(f"the access key {KEY}, its secret, its session token, the region")
    assert "AWS could not be asked which: Could not connect to the endpoint URL" in told


def test_a_web_identity_gives_keys_of_its_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"AWS_{name}")
    (tmp_path / "token").write_text("from the cluster")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "twin-pod")
    with serving(Aws(tmp_path / "keys")) as aws:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", aws.url)
        signer = iam_tokens.Signer(Iam(REGION))
        assert signer().text
        assert signer().text
    assert [form["RoleSessionName"] for form in aws.assumed] == ["twin-pod"]  # and kept


def test_without_the_signer_one_line_says_how_to_install_it():
    program = (
        "import sys; sys.modules['aws_msk_iam_sasl_signer'] = None\n"
        "from streaming.runtime.kafka import clients\n"
        f"clients.settings({MSK!r}, 'cluster')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(
        "AWS_MSK_IAM needs AWS' signer: pip install 'kafka-twin[iam]'"
    )


def test_the_java_client_logs_in_with_the_usual_chain_of_credentials():
    assert kafka_options("b:1", {**MSK, "sasl_aws_region": REGION}) == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.login.callback.handler.class": (
            "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
        ),
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerLoginModule required;",
    }


@pytest.mark.parametrize(
    ("client", "options"),
    [
        ({"sasl_aws_profile": 'o"ps'}, 'awsProfileName="o\\"ps"'),
        (
            {"sasl_aws_role_arn": ROLE, "sasl_aws_role_external_id": "x"},
            f'awsRoleArn="{ROLE}" awsRoleSessionName="kafka-twin" awsRoleExternalId="x" '
            f'awsStsRegion="{REGION}"',
        ),
    ],
)
def test_a_profile_or_role_of_the_java_client_has_nobody_else_to_fall_back_to(
    client: dict[str, str], options: str
):
    made = kafka_options("b:1", {**MSK, "sasl_aws_region": REGION, **client})
    assert made["kafka.sasl.jaas.config"].endswith(
        f'LoginModule required {options} awsAddDefaultProviders="false";'
    )


def test_only_who_asks_for_it_gets_the_jar_and_the_region():
    assert of_java.jars_for([{}]) == []
    assert of_java.of_executors([{}]) == {}
    msk = [{}, {**MSK, "sasl_aws_region": REGION}]
    assert of_java.of_executors(msk) == {"spark.executorEnv.AWS_REGION": REGION}
    assert [jar.name for jar in of_java.jars_for(msk)] == ["aws-msk-iam-auth-2.4.0-all.jar"]


def test_a_bus_without_a_region_does_not_stop_the_others():
    assert of_java.of_executors([MSK, {**MSK, "sasl_aws_region": REGION}])
    with pytest.raises(TokenError, match="sasl_aws_region: is missing"):
        of_java.of_executors([MSK])
