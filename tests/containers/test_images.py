"""The three images as they are built, before a container starts."""

from __future__ import annotations

import docker
import pytest
from docker import DockerClient

TARGETS = ("kafka", "twin", "twin-spark")
MOST_BYTES = 270_000_000


@pytest.mark.parametrize("target", TARGETS)
def test_no_image_runs_as_root_and_each_says_how_it_is(engine: DockerClient, images, target):
    config = engine.images.get(images[target]).attrs["Config"]
    assert config["User"] == "10001:10001"
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert config["StopSignal"] == "SIGTERM"


def test_the_collectors_image_is_small(engine: DockerClient, images):
    assert engine.images.get(images["twin"]).attrs["Size"] <= MOST_BYTES


def run(engine: DockerClient, image: str, *command: str, **options) -> str:
    """Run a command as a careful operator would: nothing may be written, nothing reached."""
    return engine.containers.run(
        image, list(command), remove=True, read_only=True, network_mode="none",
        tmpfs={"/tmp": "exec,mode=1777"}, cap_drop=["ALL"], **options,
    ).decode()  # fmt: skip


@pytest.mark.parametrize("target", ["twin", "twin-spark"])
def test_the_command_line_is_there_without_network(engine: DockerClient, images, target):
    assert run(engine, images[target], "--version").startswith("kafka-twin, version")


def test_collector_and_exporter_go_without_spark_and_java(engine: DockerClient, images):
    code = "import importlib.util as u, shutil; print(u.find_spec('pyspark'), shutil.which('java'))"
    assert run(engine, images["twin"], "-c", code, entrypoint="python").split() == ["None"] * 2


def test_spark_starts_without_network_or_a_disk_to_write_to(engine: DockerClient, images):
    """Jars are in the image: a query of Kafka is planned, as the query's own session does it."""
    code = (
        "from streaming.runtime.configuration.loading import load\n"
        "from streaming.query.session import spark_session\n"
        "with spark_session(load(None)) as spark:\n"
        "    stream = spark.readStream.format('kafka').option('kafka.bootstrap.servers', 'x:1')\n"
        "    print(stream.option('subscribe', 'a').load().schema.names[0], spark.version)\n"
    )
    output = run(engine, images["twin-spark"], "-c", code, entrypoint="python",
               environment={"KAFKA_TWIN_QUERY_CHECKPOINT": "/tmp/checkpoint"})  # fmt: skip
    assert output.split() == ["key", "4.2.0"]


def test_what_is_no_program_is_said_in_one_line(engine: DockerClient, images):
    with pytest.raises(docker.errors.ContainerError) as failed:
        run(engine, images["twin"], "collekt")
    assert failed.value.exit_status == 2
    assert "No such command" in failed.value.stderr.decode()


def test_a_program_that_has_not_worked_is_not_alive(engine: DockerClient, images):
    with pytest.raises(docker.errors.ContainerError):
        run(engine, images["twin"], entrypoint="kafka-twin-alive")
    touched = "touch /tmp/collector.alive && kafka-twin-alive && kafka-twin-alive collector 1"
    assert run(engine, images["twin"], "-c", touched, entrypoint="sh") == ""
    old = "touch -d '61 seconds ago' /tmp/query.alive && kafka-twin-alive query"
    with pytest.raises(docker.errors.ContainerError):
        run(engine, images["twin-spark"], "-c", old, entrypoint="sh")
