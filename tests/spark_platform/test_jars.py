"""The servers of HDFS have the release of Spark's client."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyspark

from tests.spark_platform.hdfs import DECLARED


def test_hadoop_is_one_release() -> None:
    [servers] = ElementTree.parse(DECLARED / "jars.xml").iter("dependency")
    [client] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-runtime-*.jar")
    assert client.stem == f"hadoop-client-runtime-{servers.attrib['rev']}"
