"""``kafka-twin spark-package``: the lines that it prints, and what it refuses."""

from __future__ import annotations

import platform
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("pyspark", reason="pyspark is not installed")

from streaming.cli.main import main
from streaming.packing.distributions import PackingError, files_of, needed
from streaming.packing.environment import LAUNCHER, PYTHON
from streaming.packing.submit_lines import Package, kind, line
from streaming.runtime import jars

CHECKPOINT = {"KAFKA_TWIN_QUERY_CHECKPOINT": "s3a://bucket/twin"}
PACKAGE = Package(Path("/srv/kafka twin"), ("a.jar", "b.jar"), Path("/etc/twin.toml"))


def invoked(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["spark-package", *arguments], env=environment)


def settings(words: list[str]) -> dict[str, str]:
    """The settings that are given with ``--conf``."""
    given = [words[i + 1] for i, word in enumerate(words) if word == "--conf"]
    return dict(each.split("=", 1) for each in given)


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("spark://host:7077", "spark"),
        ("spark://a:7077,b:7077", "spark"),
        ("yarn", "yarn"),
        ("k8s://https://host:6443", "k8s"),
    ],
)
def test_a_platform_is_known_by_its_master(master: str, expected: str) -> None:
    assert kind(master) == expected


@pytest.mark.parametrize("master", ["local[2]", "spark://host", "mesos://host:1", "", "k8s://"])
def test_another_master_is_refused_in_one_line(master: str, tmp_path: Path) -> None:
    result = invoked(str(tmp_path / "package"), "--master", master, **CHECKPOINT)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {master!r} is not the master of a Spark platform; ")
    assert result.output.count("\n") == 1
    assert not (tmp_path / "package").exists()


def test_a_checkpoint_that_executors_would_not_find_is_refused_before_anything_is_packed(
    tmp_path: Path,
) -> None:
    result = invoked(
        str(tmp_path / "package"), "--master", "yarn", KAFKA_TWIN_QUERY_CHECKPOINT="/var/twin"
    )
    assert result.exit_code == 1
    assert "query.checkpoint: /var/twin is a folder of this machine" in result.output
    assert not (tmp_path / "package").exists()


def test_a_fleet_is_packed_without_a_choice_of_its_clusters(tmp_path: Path) -> None:
    config = tmp_path / "twin.toml"
    config.write_text("".join(f'[clusters.{n}]\nbootstrap = "{n}:9092"\n' for n in "ab"))
    master = ["--master", "k8s://https://host:6443"]
    arguments = ["--config", str(config), "spark-package", str(tmp_path / "package"), *master]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.output.count("spark-submit") == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "package")
    result = invoked(folder, "--master", "spark://host:7077", **CHECKPOINT)
    assert result.exit_code == 1
    assert result.output == f"Error: {folder}: Not a directory\n"


def test_a_standalone_driver_runs_in_the_folder_of_the_package() -> None:
    words = shlex.split(line("spark://host:7077", PACKAGE).replace("\\\n", ""))
    assert words[:3] == ["cd", "/srv/kafka twin", "&&"]
    submit = words.index("spark-submit")
    assert set(words[3:submit]) == {
        "PYSPARK_PYTHON=./environment/bin/python",
        "PYSPARK_DRIVER_PYTHON=./environment/bin/python",
        "KAFKA_TWIN_CONFIG=/etc/twin.toml",
    }
    assert words[words.index("--jars") + 1] == "jars/a.jar,jars/b.jar"
    assert words[words.index("--archives") + 1] == "environment.tar.gz#environment"
    assert words[-1] == "query.py"


def test_a_driver_on_yarn_gets_the_configuration_as_a_file() -> None:
    words = shlex.split(line("yarn", PACKAGE))
    assert words[words.index("--files") + 1] == "log4j2.properties,/etc/twin.toml"
    given = settings(words)
    assert given["spark.yarn.appMasterEnv.KAFKA_TWIN_CONFIG"] == "twin.toml"
    assert given["spark.yarn.appMasterEnv.PYSPARK_PYTHON"] == "./environment/bin/python"
    assert given["spark.executorEnv.PYSPARK_PYTHON"] == "./environment/bin/python"


def test_settings_of_this_shell_that_a_driver_on_yarn_lacks_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")  # so nothing is packed
    secret = {"KAFKA_TWIN_CLUSTER_CLIENT_SASL_PLAIN_PASSWORD": "hidden"}
    for master, note in (
        ("yarn", "Not part of the command: KAFKA_TWIN_CLUSTER_CLIENT_SASL_PLAIN_PASSWORD, "
                 "KAFKA_TWIN_QUERY_CHECKPOINT. A driver on YARN reads"),
        ("spark://host:7077", "Error: "),
    ):  # fmt: skip
        folder = str(tmp_path / "file" / "package")
        result = invoked(folder, "--master", master, **CHECKPOINT, **secret)
        assert result.output.startswith(note)
        assert "hidden" not in result.output


def test_on_kubernetes_the_image_has_all_and_nothing_is_written(tmp_path: Path) -> None:
    result = invoked(str(tmp_path / "package"), "--master", "k8s://https://host:6443")
    assert result.exit_code == 0
    words = shlex.split(result.output)
    version = distribution("kafka-twin").version
    assert settings(words)["spark.kubernetes.container.image"] == f"kafka-twin-spark:{version}"
    assert words[-1] == "local:///opt/kafka-twin/query.py"
    assert not (tmp_path / "package").exists()


def test_what_the_query_needs_is_packed_and_what_the_platform_brings_is_not() -> None:
    names = {one.name.lower() for one in needed()}
    assert {"kafka-twin", "pandas", "numpy", "pyarrow", "protobuf", "kafka-python"} <= names
    assert not names & {"pyspark", "py4j", "pytest", "mypy"}


def test_tests_and_scripts_are_left_out() -> None:
    with files_of(distribution("numpy")) as files:
        assert any(name.name == "numeric.py" for name in files)
        assert not any("tests" in name.parts or ".." in name.parts for name in files)


def test_of_an_installation_without_a_list_of_files_the_remedy_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "something-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: something\nVersion: 1.0\n")
    one = type(distribution("numpy")).at(folder)
    with pytest.raises(PackingError, match=r"^something: nothing lists its files; install"):
        files_of(one).__enter__()


def launched(folder: Path, path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The launcher of a packed environment, on a machine with these programs."""
    (folder / "packages").mkdir(parents=True)
    (folder / "packages" / "packed.py").write_text("print(__file__)")
    (folder / "bin").mkdir()
    launcher = folder / "bin" / "python"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    return subprocess.run(["bin/python", *arguments], cwd=folder, env={"PATH": str(path)},
                          capture_output=True, text=True, timeout=300)  # fmt: skip


def test_the_packed_python_finds_its_packages_wherever_it_is(tmp_path: Path) -> None:
    python = Path(sys.executable).resolve().parent
    done = launched(tmp_path / "a folder", python, "-m", "packed")
    assert done.stdout == f"{tmp_path}/a folder/packages/packed.py\n", done.stderr


def test_a_machine_without_that_python_is_named(tmp_path: Path) -> None:
    (tmp_path / "uname").symlink_to(shutil.which("uname") or "")
    done = launched(tmp_path / "environment", tmp_path, "-m", "packed")
    assert done.returncode == 127
    expected = f"kafka-twin: {platform.node()} has no {PYTHON} on its PATH ({tmp_path})\n"
    assert done.stderr == expected


def test_the_line_in_the_documentation_is_the_one_that_is_printed() -> None:
    checksums = (jars.declared_in() / "jars.sha256").read_text().splitlines()
    names = sorted(each.partition("  spark/")[2] for each in checksums if "  spark/" in each)
    package = Package(Path("/srv/kafka-twin"), names, Path("/etc/kafka-twin/twin.toml"))
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    assert line("spark://master:7077", package) in page
