"""Clusters that come, go and change while programs run."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from streaming.cli import main as command_line
from streaming.runtime.config import ConfigError
from streaming.runtime.configuration.chosen import chosen
from streaming.runtime.configuration.following import Followed
from streaming.runtime.configuration.loading import load

ORDERS = '[clusters.orders]\nbootstrap = "orders:9092"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "pay.toml").write_text('bootstrap = "pay:9092"\n')
    path = tmp_path / "twin.toml"
    path.write_text(f'{ORDERS}[fleet]\nfolder = "clusters"\n')
    return path


def replace(path: Path, text: str) -> None:
    """Replace it, so that another file is there, as editors do."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def test_a_cluster_comes_and_goes_with_its_file(file):
    followed = Followed(file, {})
    assert (list(followed.configs), followed.look()) == (["orders", "pay"], False)
    added = file.parent / "clusters" / "test.toml"
    added.write_text('bootstrap = "test:9092"\n')
    assert followed.look()
    assert list(followed.configs) == ["orders", "pay", "test"]
    assert followed.configs["test"].bus.prefix == "kafka-twin.test"
    added.unlink()
    assert followed.look()
    assert list(followed.configs) == ["orders", "pay"]


def test_a_changed_section_changes_its_cluster_alone(file):
    followed = Followed(file, {})
    before = followed.configs
    replace(file, file.read_text().replace("orders:9092", "orders:9093"))
    assert followed.look()
    assert followed.configs["orders"].cluster.bootstrap == "orders:9093"
    assert followed.configs["pay"] == before["pay"]


def test_a_file_that_cannot_be_used_leaves_its_cluster_as_it_was(file):
    followed = Followed(file, {})
    before = dict(followed.configs)
    pay = file.parent / "clusters" / "pay.toml"
    with capture_logs() as logs:
        for broken in ("no toml", "bootstrap = 5\n", 'bootstraps = "a:1"\n'):
            replace(pay, broken)
            assert not followed.look()
            assert followed.configs == before
    said = [each["why"] for each in logs]
    assert len(said) == 3
    assert all(each.endswith("; what was read before stays") for each in said)
    replace(pay, 'bootstrap = "pay:9099"\n')
    assert followed.look()
    assert followed.configs["pay"].cluster.bootstrap == "pay:9099"


def test_common_sections_that_cannot_be_used_leave_all_as_they_were(file):
    followed = Followed(file, {})
    whole = file.read_text()
    for broken in (f"{whole}[collector]\nnothing = 5\n", "no toml", "[collector]\n"):
        replace(file, broken)
        with capture_logs() as logs:
            assert not followed.look()
        assert list(followed.configs) == ["orders", "pay"]
        assert logs


def test_one_cluster_that_cannot_be_used_does_not_keep_the_others_from_starting(file):
    (file.parent / "clusters" / "pay.toml").write_text("bootstrap = 5\n")
    followed = Followed(file, {})
    assert list(followed.configs) == ["orders"]
    (file.parent / "clusters" / "pay.toml").write_text('bootstrap = "pay:9092"\n')
    assert followed.look()
    assert list(followed.configs) == ["orders", "pay"]


def test_nothing_usable_is_refused(file):
    file.write_text('[fleet]\nfolder = "clusters"\n')
    (file.parent / "clusters" / "pay.toml").write_text("bootstrap = 5\n")
    with pytest.raises(ConfigError, match="pay"):
        Followed(file, {})
    (file.parent / "clusters" / "pay.toml").unlink()
    with pytest.raises(ConfigError, match="no file of a cluster"):
        Followed(file, {})


def test_a_program_of_one_cluster_sees_no_other(file):
    followed = Followed(file, {}, "pay")
    assert list(followed.configs) == ["pay"]
    (file.parent / "clusters" / "test.toml").write_text('bootstrap = "test:9092"\n')
    assert not followed.look()
    with pytest.raises(ConfigError, match="there is no cluster other; there is orders, pay"):
        Followed(file, {}, "other")


def test_a_program_of_one_cluster_does_not_need_what_others_need(file):
    """As a container of each cluster, which has the secrets of that cluster alone."""
    (file.parent / "clusters" / "broken.toml").write_text("bootstrap = 5\n")
    replace(
        file,
        f"{ORDERS}[clusters.stock]\nbootstrap = 'stock:9092'\n[clusters.stock.client]\n"
        "security_protocol = 'SASL_SSL'\nsasl_mechanism = 'PLAIN'\nssl_cafile = '/nowhere'\n"
        '[fleet]\nfolder = "clusters"\n',
    )
    environment = {"KAFKA_TWIN_CLUSTERS_ORDERS_CLIENT_SASL_PLAIN_PASSWORD": "hidden-of-orders"}
    with capture_logs() as logs:
        followed = Followed(file, environment, "orders")
        assert not followed.look(again=True)
    assert not logs
    assert followed.configs == {"orders": load(file, environment, "orders")}
    with pytest.raises(ConfigError, match="broken"):
        Followed(file, environment, "broken")


def test_a_program_of_one_cluster_names_the_error_of_that_cluster(file):
    (file.parent / "clusters" / "a-first.toml").write_text("bootstrap = 5\n")
    (file.parent / "clusters" / "pay.toml").write_text("bootstrap = 6\n")
    with pytest.raises(ConfigError, match="pay"):
        Followed(file, {}, "pay")


def test_files_that_seem_unchanged_are_read_again_on_request(file):
    followed = Followed(file, {})
    pay = file.parent / "clusters" / "pay.toml"
    stat = pay.stat()
    pay.write_text('bootstrap = "pAy:9092"\n')  # as long as before
    os.utime(pay, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not followed.look()
    assert followed.look(again=True)
    assert followed.configs["pay"].cluster.bootstrap == "pAy:9092"


def test_why_a_cluster_is_not_what_its_file_says(file):
    followed = Followed(file, {})
    assert followed.why_not("pay") == ""
    replace(file.parent / "clusters" / "pay.toml", "bootstrap = 5\n")
    followed.look()
    assert "pay.toml" in followed.why_not("pay") or "clusters.pay" in followed.why_not("pay")
    assert followed.why_not("orders") == ""
    replace(file, "no toml")
    followed.look()
    assert "is not valid TOML" in followed.why_not("orders")


def test_a_variable_may_outlive_the_file_of_its_cluster(file):
    secret = {"KAFKA_TWIN_CLUSTERS_PAY_CLIENT_SASL_PLAIN_PASSWORD": "hidden-of-pay"}
    followed = Followed(file, secret)
    assert followed.configs["pay"].cluster.client["sasl_plain_password"] == "hidden-of-pay"
    (file.parent / "clusters" / "pay.toml").unlink()
    assert followed.look()
    assert list(followed.configs) == ["orders"]


def test_a_configuration_of_one_cluster_needs_a_restart(tmp_path):
    path = tmp_path / "twin.toml"
    path.write_text('[cluster]\nbootstrap = "a:1"\n')
    followed = Followed(path, {})
    assert not followed.is_fleet
    replace(path, '[cluster]\nbootstrap = "b:1"\n')
    assert not followed.look()


@pytest.mark.parametrize(
    ("given", "variable"), [(["--cluster", "pay"], {}), ([], {"KAFKA_TWIN_CLUSTER": "pay"})]
)
def test_each_command_takes_a_cluster(file, given, variable):
    seen: list[str] = []

    @click.command()
    @click.pass_context
    def probe(ctx: click.Context) -> None:
        seen.append(chosen(ctx).config().cluster.bootstrap)

    command_line.main.add_command(probe, "probe")
    try:
        line = ["--config", str(file), "probe", *given]
        CliRunner().invoke(command_line.main, line, env=variable)
    finally:
        command_line.main.commands.pop("probe")
    assert seen == ["pay:9092"]


def test_a_command_asks_which_of_several_clusters_is_meant(file):
    ran = CliRunner().invoke(command_line.main, ["--config", str(file), "tail", "events"])
    assert "has several clusters; say which by --cluster: orders, pay" in ran.output
