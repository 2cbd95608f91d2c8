"""Why the Java client failed, in one line with the setting, and without a secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.query.why_failed import in_one_line
from streaming.runtime.errors import keep_secret

KAFKA = "org.apache.kafka.common."
CREATED = [
    "org.apache.spark.sql.streaming.StreamingQueryException: Failed to create new KafkaAdminClient",
    f"{KAFKA}KafkaException: Failed to create new KafkaAdminClient",
    f"{KAFKA}KafkaException: Failed to create new NetworkClient",
]
TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed "
    "12 times, most recent failure: Lost task 0.11 in stage 1.0 (TID 3) (10.0.0.1 executor "
)


@pytest.mark.parametrize(
    ("thrown", "said"),
    [
        (
            [f"{KAFKA}errors.SaslAuthenticationException: An error: (java.security."
             "PrivilegedActionException) occurred when evaluating SASL token",
             "software.amazon.awssdk.core.exception.SdkClientException: Unable to load credentials "
             "from any of the providers in the chain"],
            "bus b:1: SaslAuthenticationException: An error: (PrivilegedActionException) occurred "
            "when evaluating SASL token: SdkClientException: Unable to load credentials from any "
            "of the providers in the chain (AWS' chain has no credentials: see the login "
            "AWS_MSK_IAM)",
        ),
        (
            [f"{KAFKA}errors.InvalidConfigurationException: Invalid PEM keystore configs",
             "java.security.InvalidKeyException: IOException : algid parse error, not a sequence"],
            "bus b:1: InvalidConfigurationException: Invalid PEM keystore configs: "
            "InvalidKeyException: IOException : algid parse error, not a sequence "
            "(see ssl_certfile, ssl_keyfile and ssl_password)",
        ),
        (
            [f"{KAFKA}errors.InvalidConfigurationException: Failed to load PEM SSL keystore /ca",
             "java.io.IOException: Unable to read file /ca",
             "java.nio.file.NoSuchFileException: /ca"],
            "bus b:1: NoSuchFileException: /ca (see ssl_cafile)",
        ),
        (
            [f"{KAFKA}KafkaException: javax.security.auth.login.LoginException: No LoginModule "
             "found for a.Module",
             "javax.security.auth.login.LoginException: No LoginModule found for a.Module"],
            "bus b:1: LoginException: No LoginModule found for a.Module (see sasl_mechanism)",
        ),
        ([], "bus b:1: KafkaException: Failed to create new NetworkClient"),
    ],
)  # fmt: skip
def test_the_innermost_exception_of_a_client_is_named_with_its_setting(
    thrown: list[str], said: str
) -> None:
    assert in_one_line([*CREATED, *thrown], "bus b:1") == said


def test_of_a_task_its_own_exception_is_named_also_where_spark_has_only_its_text():
    trace = (
        f"{TASK}1): {KAFKA}KafkaException: Failed to construct kafka consumer\n\tat x\n"
        f"Caused by: {KAFKA}errors.SaslAuthenticationException: Authentication failed\n\tat y\n"
    )
    assert in_one_line([trace], "bus b:1") == (
        "bus b:1: SaslAuthenticationException: Authentication failed (see sasl_*)"
    )
    python = (
        f"{TASK}driver): org.apache.spark.api.python.PythonException: Traceback (most recent call "
        'last):\n  File "x"\nValueError: a frame is cut off\n'
    )
    assert in_one_line([python], "bus b:1") == "ValueError: a frame is cut off"


def test_what_is_no_exception_and_what_spark_says_of_its_plan():
    text = "[STREAM_FAILED] Query [id = x] ended: boom\n\n=== Streaming Query ===\nException: plan"
    assert in_one_line([text]) == "[STREAM_FAILED] Query [id = x] ended: boom"
    assert in_one_line([""]) == ""


def test_a_secret_in_an_exception_is_not_shown():
    keep_secret("hunter-2")
    thrown = [*CREATED, f"{KAFKA}config.ConfigException: Invalid value 'hunter-2'"]
    assert in_one_line(thrown, "bus b:1") == "bus b:1: ConfigException: Invalid value '***'"


PROGRAM = """
import sys, time
from pyspark.sql import SparkSession
from streaming.query.why_failed import cause
from streaming.query.kafka_options import kafka_options
from streaming.runtime import jars
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.jars", ",".join(map(str, jars.ensure("spark")))).getOrCreate()
)
folder, at = sys.argv[1:]
oauth = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
for bootstrap, client in (
    ("nowhere.invalid:9092", {}),
    (at, {"security_protocol": "SSL", "ssl_cafile": f"{folder}/ca.pem"}),
    (at, oauth | {"sasl_oauthbearer_token_endpoint_url": f"http://{at}/token",
                  "sasl_oauthbearer_client_id": "twin",
                  "sasl_oauthbearer_client_secret": "hunter-2"}),
):
    source = spark.readStream.format("kafka").options(**kafka_options(bootstrap, client))
    query = (
        source.option("subscribe", "x").option("fetchOffset.numRetries", "1").load()
        .writeStream.format("noop").option("checkpointLocation", f"{folder}/{time.time()}").start()
    )
    while query.isActive:
        time.sleep(0.1)
    print("said:", cause(query, f"bus {bootstrap}"))
"""


@pytest.mark.spark
def test_a_query_that_cannot_connect_says_why(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "127.0.0.1:9"],
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    said = [line for line in done.stdout.splitlines() if line.startswith("said:")]
    assert len(said) == 3, done.stderr[-2_000:]
    name, trust, endpoint = said
    assert name.startswith("said: bus nowhere.invalid:9092: ")
    assert name.endswith("(no name in bootstrap can be resolved)")
    assert trust.endswith("No matching CERTIFICATE entries in PEM file (see ssl_cafile)")
    assert endpoint.endswith("(sasl_oauthbearer_* gives no token, kafka-twin check says why)")
    assert "hunter" not in done.stdout
