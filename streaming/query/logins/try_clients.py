"""Tries Kafka's Java client as the query uses it, in a JVM without a Spark session.

``python -m streaming.query.logins.try_clients`` reads JSON from its standard input: ``bootstrap``
and ``client`` of each section by its name, and the time that each client has. It prints JSON: why
the client of a section cannot reach its cluster, empty where it can. It is a process of its own,
so that whoever starts it can end it with its JVM, and runs without PySpark.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from streaming.query.kafka_options import kafka_options
from streaming.query.logins import java_iam
from streaming.query.why_failed import in_one_line, thrown
from streaming.runtime import jars
from streaming.runtime.errors import UserError
from streaming.runtime.kafka.kerberos import java_option

_SMALL: Final = "-Xmx128m"


def why_not(sections: Mapping[str, Mapping[str, Any]], within_ms: int) -> dict[str, str]:
    """Why the client of each section cannot describe its cluster; empty where it can.

    Args:
        sections: ``bootstrap`` and ``client`` of each, by name.
        within_ms: the time that each client has.
    """
    texts: dict[str, str] = {}
    options: dict[str, dict[str, str]] = {}
    for name, section in sections.items():
        try:
            options[name] = kafka_options(section["bootstrap"], section["client"])
        except UserError as error:
            texts[name] = str(error)
    if not options:
        return texts
    try:
        with _gateway(*(section["client"] for section in sections.values())) as jvm:
            for name, given in options.items():
                place = f"{name}.bootstrap {sections[name]['bootstrap']}"
                texts[name] = _ask(jvm, given, within_ms, place)
    except UserError as error:
        texts |= dict.fromkeys(options, str(error))
    return texts


@contextmanager
def _gateway(*clients: Mapping[str, Any]) -> Iterator[Any]:
    """The JVM of a gateway, with the jars and options that the query's has.

    Raises:
        UserError: Java or a jar is missing, or the JVM does not start.
    """
    os.environ["JAVA_HOME"] = str(Path(jars.java()).resolve().parents[1])
    needed = [*jars.ensure("spark"), *java_iam.jars_for(clients)]
    own = [_SMALL, *jars.QUICK_START, java_option(os.environ, *clients)]
    if region := java_iam.region_of(clients):
        own.append(f"-D{java_iam.REGION}={region}")
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(filter(None, [given, *own]))
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.driver.extraClassPath", os.pathsep.join(map(str, needed)))
    with tempfile.TemporaryFile("w+") as said:
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stdout": said, "stderr": said}
            )
        except PySparkRuntimeError:
            said.seek(0)
            why = in_one_line([said.read()]) or "it says nothing"
            raise jars.JarError(f"Java {jars.java()} does not start Spark's JVM: {why}") from None
        try:
            yield gateway.jvm
        finally:
            gateway.shutdown()


def _ask(jvm: Any, options: Mapping[str, str], within_ms: int, place: str) -> str:
    """Why a client with these options cannot describe its cluster; empty if it can."""
    properties = jvm.java.util.Properties()
    for name, value in options.items():
        properties.setProperty(name.removeprefix("kafka."), value)
    for name in ("request.timeout.ms", "default.api.timeout.ms"):
        properties.setProperty(name, str(within_ms))
    try:
        client = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            client.describeCluster().nodes().get()
        finally:
            client.close(jvm.java.time.Duration.ZERO)
    except Py4JJavaError as error:
        return in_one_line(thrown(error.java_exception), place)
    return ""


def main() -> None:
    """Answer the question of the standard input."""
    asked = json.load(sys.stdin)
    print(json.dumps(why_not(asked["sections"], asked["within_ms"])))


if __name__ == "__main__":
    main()
