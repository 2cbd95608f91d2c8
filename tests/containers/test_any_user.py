"""The images as a cluster runs them that gives out users: any number with group 0, nothing writable
but /tmp and the volumes, as OpenShift's restricted-v2 has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import docker
import pytest
from docker import DockerClient
from docker.models.containers import Container

from tests.containers.test_images import run
from tests.waiting import until

USER: Final = "1000680123"
WITHIN_S: Final = 120
AT_LEAST: Final = 100
"""Public authorities; Debian's package has some 140."""

NOBODY: Final = {"KAFKA_TWIN_CLUSTER_BOOTSTRAP": "127.0.0.1:1"}

_AUTHORITIES: Final = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"


@contextmanager
def started(engine: DockerClient, image: str, *command: str, **options: Any) -> Iterator[Container]:
    """A container that runs as that user until the block ends."""
    container = engine.containers.run(
        image, list(command), detach=True, read_only=True, user=USER, network_mode="none",
        tmpfs={"/tmp": "exec,mode=1777"}, cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"], **options,
    )  # fmt: skip
    try:
        yield container
    finally:
        container.remove(force=True, v=True)


def succeeds(container: Container, *command: str) -> bool:
    """Whether a command in the container ends well, now or soon."""
    return until(
        lambda: container.exec_run(list(command)).exit_code == 0,
        WITHIN_S,
        f"{command} fails",
    )


def test_a_collector_gets_as_far_as_its_brokers(engine: DockerClient, images):
    with pytest.raises(docker.errors.ContainerError) as failed:
        run(engine, images["twin"], "collector", user=USER, environment=NOBODY)
    *_, first, last = failed.value.stderr.decode().splitlines()
    assert "the environment wins over the file" in first
    assert last.startswith("Error: cluster.bootstrap 127.0.0.1:1: cannot be reached: ")


def test_an_exporter_answers_probes_of_both_families_and_says_it_is_not_fresh(
    engine: DockerClient, images
):
    asked = "import urllib.request as r; print(r.urlopen('http://{}:9410{}').read().decode())"
    # Docker leaves IPv6 off in a network without it.
    on = {"net.ipv6.conf.all.disable_ipv6": "0"}
    with started(engine, images["twin"], "exporter", environment=NOBODY, sysctls=on) as container:
        for host in ("127.0.0.1", "[::1]"):
            for path in ("/-/healthy", "/-/ready"):
                assert succeeds(container, "python", "-c", asked.format(host, path))
        assert succeeds(container, "kafka-twin-alive", "exporter")
        fresh = container.exec_run(["kafka-twin-fresh"])
        assert fresh.exit_code == 1
        assert fresh.output.decode().startswith("no snapshot has been read yet")


def test_a_broker_starts(engine: DockerClient, images):
    one = {"INTERNAL": "localhost", "REPLICATION": "1"}
    with started(engine, images["kafka"], environment=one) as container:
        assert succeeds(container, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9092")


def test_spark_writes_its_checkpoint_also_where_somebody_looks_in_later(
    engine: DockerClient, images
):
    """Hadoop refuses a user without a name, but only once it writes."""
    code = (
        "from streaming.runtime.configuration.loading import load\n"
        "from streaming.query.session import spark_session\n"
        "with spark_session(load(None)) as spark:\n"
        "    spark.range(3).write.parquet('/var/lib/kafka-twin/written')\n"
        "    print(spark.read.parquet('/var/lib/kafka-twin/written').count())\n"
    )
    script = f'/opt/kafka-twin/entrypoint --version >&2 && exec python -c "{code}"'
    output = run(engine, images["twin-spark"], "-c", script, entrypoint="bash", user=USER)
    assert output.split() == ["3"]


@pytest.mark.parametrize("target", ["twin", "twin-spark"])
def test_python_knows_the_public_authorities(engine: DockerClient, images, target: str):
    output = run(engine, images[target], "-c", _AUTHORITIES, entrypoint="python", user=USER)
    assert int(output) > AT_LEAST


@pytest.mark.parametrize("target", ["kafka", "twin-spark"])
def test_java_knows_the_public_authorities(engine: DockerClient, images, target: str):
    output = run(engine, images[target], "-list", "-cacerts", "-storepass", "changeit",
                 entrypoint="keytool", user=USER)  # fmt: skip
    assert output.count("trustedCertEntry") > AT_LEAST


@pytest.mark.parametrize("target", ["twin", "twin-spark"])
def test_a_mounted_file_wins_over_what_the_image_sets(engine: DockerClient, images, target: str):
    code = (
        "from pathlib import Path\n"
        "from streaming.runtime.configuration.loading import load\n"
        "Path('/tmp/twin.toml').write_text('[exporter]\\nhost = \"127.0.0.1\"\\n')\n"
        "for path in (None, Path('/tmp/twin.toml')):\n"
        "    config = load(path)\n"
        "    print(config.exporter.host, config.metrics.host, config.metrics.query_port)\n"
    )
    output = run(engine, images[target], "-c", code, entrypoint="python", user=USER)
    assert output.split() == ["::", "::", "9413", "127.0.0.1", "::", "9413"]
