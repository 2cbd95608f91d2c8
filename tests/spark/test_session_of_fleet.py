"""How a Spark session is set up to log in to the buses of several clusters by AWS_MSK_IAM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = pytest.mark.spark

PROBE = """
import json, sys
from pathlib import Path
from streaming.query.kafka_options import kafka_stream
from streaming.query.session import spark_session
from streaming.runtime.configuration.following import Followed
from streaming.runtime.errors import UserError

followed = Followed(Path(sys.argv[1]))
buses = [followed.configs[name] for name in sys.argv[3:]]
refused = {}
with spark_session(followed.common, buses) as spark:
    for name, config in followed.configs.items():
        try:
            kafka_stream(spark, config.bus_bootstrap, config.bus_client, 1, subscribe="t")
        except UserError as error:
            refused[name] = str(error)
    jars = spark.sparkContext.getConf().get("spark.jars")
    region = spark.sparkContext.getConf().get("spark.executorEnv.AWS_REGION")
Path(sys.argv[2]).write_text(json.dumps([refused, "aws-msk-iam-auth" in jars, region]))
"""

FLEET = """
[query]
master = "local[1]"
checkpoint = "checkpoint"
[clusters.plain]
bootstrap = "plain:9092"
"""
IAM = """
[clusters.{name}]
bootstrap = "{name}:9098"
[clusters.{name}.client]
security_protocol = "SASL_SSL"
sasl_mechanism = "AWS_MSK_IAM"
sasl_aws_region = "{region}"
"""


def probed(folder: Path, *buses: str) -> tuple[dict[str, str], bool, str | None]:
    """Why the buses of clusters are refused; whether AWS' login is there; the region."""
    script, config, result = folder / "probe.py", folder / "twin.toml", folder / "result.json"
    script.write_text(PROBE)
    regions = {"dublin": "eu-west-1", "cork": "eu-west-1", "ohio": "us-east-2"}
    config.write_text(FLEET + "".join(IAM.format(name=n, region=r) for n, r in regions.items()))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    subprocess.run(
        [sys.executable, str(script), str(config), str(result), *buses],
        env=environment, check=True, timeout=600, cwd=folder, capture_output=True,
    )  # fmt: skip
    refused, has_login, region = json.loads(result.read_text())
    return refused, has_login, region


def test_any_bus_may_log_in_by_iam_and_buses_of_one_region_share_a_session(tmp_path: Path) -> None:
    refused, has_login, region = probed(tmp_path, "plain", "dublin", "cork", "ohio")
    assert has_login
    assert region == "eu-west-1"
    assert refused.keys() == {"ohio"}
    assert "is in us-east-2, and this program signs requests for eu-west-1" in refused["ohio"]


def test_a_bus_that_comes_later_with_iam_says_that_a_start_is_needed(tmp_path: Path) -> None:
    refused, has_login, region = probed(tmp_path, "plain")
    assert not has_login
    assert region is None
    assert refused.keys() == {"dublin", "cork", "ohio"}
    assert all("restart the program" in why for why in refused.values())
