"""Several clusters in one configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.runtime.config import ConfigError
from streaming.runtime.configuration.loading import load, load_all

FLEET = """
[bus]
bootstrap = "bus:9092"
[collector]
interval_ms = 7000
[cluster.client]
security_protocol = "SSL"
[clusters.orders]
bootstrap = "orders:9092"
labels = {env = "prod"}
[clusters.orders.capacity]
bytes_in_per_s = 5
[clusters.pay-eu]
bootstrap = "pay:9092"
[clusters.pay-eu.client]
sasl_mechanism = "PLAIN"
[clusters.pay-eu.collector]
interval_ms = 9000
[clusters.pay-eu.bus]
prefix = "payments"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "twin.toml"
    path.write_text(FLEET)
    return path


def refusal(path: Path, environment: dict[str, str] | None = None, cluster: str = "") -> str:
    with pytest.raises(ConfigError) as refused:
        load(path, environment or {}, cluster)
    assert "\n" not in str(refused.value)
    return str(refused.value).removeprefix(str(path))


def test_each_cluster_has_its_own_over_what_is_common(file):
    each = load_all(file, {})
    assert list(each) == ["orders", "pay-eu"]
    orders, pay = each.values()
    assert [c.cluster.bootstrap for c in (orders, pay)] == ["orders:9092", "pay:9092"]
    assert [c.collector.interval_ms for c in (orders, pay)] == [7_000, 9_000]
    assert [c.bus.bootstrap for c in (orders, pay)] == ["bus:9092"] * 2
    assert [c.capacity.bytes_in_per_s for c in (orders, pay)] == [5, -1]
    assert orders.cluster.labels == {"env": "prod"}
    assert orders.cluster.client == {"security_protocol": "SSL"}
    assert pay.cluster.client == {"security_protocol": "SSL", "sasl_mechanism": "PLAIN"}


def test_no_two_clusters_share_topics_of_the_bus(file):
    assert [c.bus.prefix for c in load_all(file, {}).values()] == ["kafka-twin.orders", "payments"]


@pytest.mark.parametrize(
    ("archive", "path", "checkpoint"),
    [
        ('path = "past/"', "past/cluster={}", "past/checkpoint"),
        ('path = "past"\ncheckpoint = "c"', "past/cluster={}", "c"),
        ('path = "s3://b/past"', "s3://b/past/cluster={}", ""),
        ("", "", ""),
    ],
)
def test_each_cluster_has_tables_of_its_own_in_one_archive(
    tmp_path, archive: str, path: str, checkpoint: str
):
    file = tmp_path / "twin.toml"
    file.write_text(f"{FLEET}\n[archive]\n{archive}\n")
    for name, config in load_all(file, {}).items():
        assert config.archive.path == path.format(name)
        assert config.archive.checkpoint == checkpoint
    environment = {"KAFKA_TWIN_ARCHIVE_PATH": "/p"}
    found = {config.archive.path for config in load_all(file, environment).values()}
    assert found == {"/p/cluster=orders", "/p/cluster=pay-eu"}


def test_the_archive_of_a_configuration_of_one_cluster_stays_where_it_is(tmp_path):
    file = tmp_path / "one.toml"
    file.write_text('[cluster]\nname = "one"\n[archive]\npath = "past"\n')
    assert load(file, {}).archive.path == "past"
    assert load(file, {}).archive.checkpoint == ""


def test_a_configuration_of_one_cluster_means_what_it_meant(tmp_path):
    path = tmp_path / "one.toml"
    path.write_text('[cluster]\nname = "one"\nbootstrap = "one:9092"\n')
    [(name, config)] = load_all(path, {}).items()
    assert (name, config.bus.prefix) == ("one", "kafka-twin")
    assert load(path, {}) == load(path, {}, "one") == config
    assert load(None, {}).cluster.name == "kafka"


def test_a_command_about_one_of_several_clusters_must_say_which(file):
    assert load(file, {}, "orders").cluster.name == "orders"
    assert refusal(file) == ": has several clusters; say which by --cluster: orders, pay-eu"
    assert refusal(file, {}, "x") == ": there is no cluster x; there is orders, pay-eu"


def test_files_of_a_folder_are_clusters_as_well(tmp_path, file):
    file.write_text('[fleet]\nfolder = "clusters.d"\n' + FLEET)
    assert refusal(file) == ": fleet.folder: there is no folder clusters.d"
    (tmp_path / "clusters.d").mkdir()
    (tmp_path / "clusters.d/stock.toml").write_text('bootstrap = "stock:9092"\n')
    each = load_all(file, {})
    assert [*each] == ["orders", "pay-eu", "stock"]
    assert each["stock"].cluster.bootstrap == "stock:9092"
    (tmp_path / "clusters.d/orders.toml").write_text("")
    assert "orders.toml: the cluster orders is in" in refusal(file)


def test_variables_may_be_of_one_cluster(file):
    each = load_all(
        file,
        {
            "KAFKA_TWIN_COLLECTOR_INTERVAL_MS": "500",
            "KAFKA_TWIN_CLUSTERS_PAY_EU_CLIENT_SASL_PLAIN_PASSWORD": "s3cret",
            "KAFKA_TWIN_CLUSTERS_ORDERS_BOOTSTRAP": "other:9092",
            "KAFKA_TWIN_CLUSTERS_ORDERS_DISK_WARN_BEFORE_MS": "1",
        },
    )
    orders, pay = each.values()
    assert (orders.collector.interval_ms, pay.collector.interval_ms) == (500, 9_000)
    assert pay.cluster.client["sasl_plain_password"] == "s3cret"
    assert "sasl_plain_password" not in orders.cluster.client
    assert (orders.cluster.bootstrap, orders.disk.warn_before_ms) == ("other:9092", 1)
    assert "s3cret" not in str(pay.shown())


@pytest.mark.parametrize(
    ("variable", "why"),
    [
        ("KAFKA_TWIN_CLUSTERS_STOCK_BOOTSTRAP", "names no cluster of [clusters]"),
        ("KAFKA_TWIN_CLUSTERS_ORDERS_QUERY_MASTER", "is not a setting of a cluster"),
        ("KAFKA_TWIN_CLUSTERS_ORDERS_NAME", "is not a setting of a cluster"),
    ],
)
def test_a_variable_of_no_setting_is_refused(file, variable, why):
    with pytest.raises(ConfigError, match="environment: ") as refused:
        load_all(file, {variable: "1"})
    assert str(refused.value) == f"environment: {variable} {why}"


def test_names_that_variables_cannot_tell_apart_are_refused_where_one_is_used(file):
    file.write_text(FLEET + '[clusters.pay_eu]\nbootstrap = "x:9092"\n')
    variable = "KAFKA_TWIN_CLUSTERS_PAY_EU_BOOTSTRAP"
    either = "names either of the clusters pay-eu and pay_eu of [clusters]"
    assert len(load_all(file, {})) == 3
    with pytest.raises(ConfigError) as refused:
        load_all(file, {variable: "y:9092"})
    assert str(refused.value) == f"environment: {variable} {either}"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ('[cluster]\nbootstrap = "x:1"\n', ": cluster.bootstrap: is of one cluster; set it in "
         "[clusters.NAME]"),
        ("clusters = 3\n", ": clusters: must be tables, e.g. [clusters.orders]"),
        ('[clusters."a b"]\n', ": clusters.a b: must be letters, digits, '.', '_' or '-'"),
        ("[clusters.a.query]\n", ": clusters.a: cluster: Object contains unknown field `query`"),
        ('[clusters.a]\nbootstrap = "x"\n',
         ": clusters.a: cluster.bootstrap: 'x' is not host:port"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(tmp_path, more, why):
    path = tmp_path / "twin.toml"
    clusters = "" if "clusters" in more else '[clusters.a]\nbootstrap = "a:9092"\n'
    path.write_text(more + clusters)
    assert refusal(path) == why
