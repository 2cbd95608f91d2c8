"""A configuration is right, or one line says what is wrong, where."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from streaming.bus.shards import with_shards
from streaming.runtime.config import SHARDS_BY_SIZE, BusConfig, Config, ConfigError, QueryConfig
from streaming.runtime.configuration.loading import load

DOCUMENTED = Path(__file__).parents[2] / "docs" / "config.toml"


def loaded(tmp_path: Path, text: str, **environment: str) -> Config:
    path = tmp_path / "twin.toml"
    path.write_text(text)
    return load(path, environment)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[cluster]\nnmae = 'x'", "cluster: Object contains unknown field `nmae`"),
        ("[colector]", "top level: Object contains unknown field `colector`"),
        ("[collector]\ninterval_ms = 'fast'", "collector.interval_ms: Expected `int`, got `str`"),
        ("[collector]\ninterval_ms = 5", "collector.interval_ms: must be at least 200"),
        (
            "[proposals]\nkip501_fetch_processing_max_ms = 0",
            "proposals.kip501_fetch_processing_max_ms: must be positive",
        ),
        ("[cluster]\nbootstrap = 'nowhere'", "cluster.bootstrap: 'nowhere' is not host:port"),
        ("[cluster]\nbootstrap = 'h:99999'", "cluster.bootstrap: 'h:99999' is not host:port"),
        ("[cluster]\nname = 'a/b'", "cluster.name: must be a text without '/'"),
        ("[bus]\nshards = -1", "bus.shards: must be 0 to 4096; 0: one that fits"),
        ("[query]\nmaster = 'spark://h:7077'", "spark-submit --master spark://h:7077"),
        ("[exporter]\ngranularity = 'all'", "exporter.granularity: Invalid enum value 'all'"),
        ("[collector]\ninclude_topics = '('", "'(' is not a regular expression"),
        ("[collector]\nmetrics_url = 'h:7071'", "collector.metrics_url: 'h:7071' is not like"),
        ("[collector]\nmetrics_url = 'http://{hots}'", "'http://{hots}' is not like http://{host}"),
        ("[collector]\nmetrics_url = 'http://h:99999/'", "collector.metrics_url: "),
        ("[collector]\nmetrics_url = 'http://me:secret@h/'", "collector.metrics_url: "),
        ("[collector]\nmetrics_interval_ms = 1", "collector.metrics_interval_ms: must be at least"),
        ("[collector.metrics_urls]\none = 'http://h/'", "metrics_urls: 'one' is not the id of a"),
        ("[collector.metrics_urls]\n01 = 'http://h/'", "metrics_urls: '01' is not the id of a"),
        ("[collector.metrics_urls]\n1 = ''", "collector.metrics_urls.1: '' is not like http://"),
        ("[[eligibility.topics]]\nlocal_log_ms = 1", "eligibility.topics[0]: needs either name or"),
        ("[query]\ndriver_memory = 'lots'", "query.driver_memory: must look like 512m or 2g"),
        ("[metrics]\ntap_port = 65536", "metrics.tap_port: must be 0 to 65535"),
        ("[metrics]\nquery_port = -1", "metrics.query_port: must be 0 to 65535"),
        ("[archive]\nmeasurements_ms = 10", "archive.measurements_ms: must be 1000 to 3600000"),
        ("[archive]\nretention_ms = 60000", "archive.retention_ms: must be at least 7200000"),
        ("[archive]\ntrigger_ms = 10", "archive.trigger_ms: must be at least 1000"),
        ('[archive]\ndriver_memory = "1t"', "archive.driver_memory: must look like 512m or 2g"),
        ("[exporter]\nmcp = 'maybe'", "exporter.mcp: Invalid enum value 'maybe'"),
        (
            "[exporter]\nhost = '0.0.0.0'\nmcp = true",
            "exporter.mcp_token: must be set: exporter.mcp is true, and others reach 0.0.0.0",
        ),
        ("[access]\nproxies = '10.0.0.0/8, gate'", "access.proxies: 'gate' is no address or"),
        (
            "[access]\noperators = 'alice'",
            "access.operators: names users of a proxy: access.proxies",
        ),
        ("[access]\ncertificate = 'tls.crt'", "access.key: certificate and key belong together"),
        ("[capacity]\ndisk_bytes = 0", "capacity.disk_bytes: must be positive, or -1"),
        ("[capacity]\nbytes_in_per_s = 0", "capacity.bytes_in_per_s: must be positive, or -1"),
        ("[capacity.brokers.x]", "capacity.brokers: 'x' is not the id of a broker"),
        (
            "[capacity.brokers.7]\nbytes_out_per_s = 0",
            "capacity.brokers.7.bytes_out_per_s: must be positive, -1 (off) or -2",
        ),
        (
            "[capacity.brokers.7]\ndisk_bytes = -3",
            "capacity.brokers.7.disk_bytes: must be positive",
        ),
        (
            "[[eligibility.topics]]\nname = 't'\nlocal_log_ms = -3",
            "eligibility.topics[0].local_log_ms: must be positive, -1: off, or -2: inherited",
        ),
        (
            "[collector.metrics_urls]\n1 = 2",
            "collector.metrics_urls[...]: Expected `str`, got `int`",
        ),
        ("x = = 1", "is not valid TOML"),
    ],
)
def test_what_cannot_be_is_refused_with_file_key_and_reason(tmp_path, text, says):
    with pytest.raises(ConfigError) as refusal:
        loaded(tmp_path, text)
    assert says in str(refusal.value)
    assert str(tmp_path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(ConfigError, match="there is no such file"):
        load(tmp_path / "none.toml", {})


def test_every_key_can_come_from_the_environment_and_wins_over_the_file(tmp_path):
    config = loaded(
        tmp_path, "[collector]\ninterval_ms = 1000\n[bus]\nshards = 3",
        KAFKA_TWIN_COLLECTOR_INTERVAL_MS="700", KAFKA_TWIN_CLUSTER_NAME="prod",
        KAFKA_TWIN_EXPORTER_GRANULARITY="topic", KAFKA_TWIN_COLLECTOR_TIMESTAMPS="false",
    )  # fmt: skip
    assert (config.collector.interval_ms, config.bus.shards) == (700, 3)
    assert (config.cluster.name, config.exporter.granularity) == ("prod", "topic")
    assert config.collector.timestamps is False


def test_defaults_of_an_image_are_below_the_file_and_the_environment_above_it(tmp_path):
    below = tmp_path / "defaults.toml"
    below.write_text("[exporter]\nhost = '::'\nport = 1\n[metrics]\ntap_port = 9411\n")
    config = loaded(
        tmp_path,
        "[exporter]\nhost = '127.0.0.1'\n[cluster]\nname = 'west'",
        KAFKA_TWIN_DEFAULTS=str(below),
        KAFKA_TWIN_EXPORTER_PORT="2",
    )
    assert (config.exporter.host, config.exporter.port) == ("127.0.0.1", 2)
    assert (config.metrics.tap_port, config.cluster.name) == (9_411, "west")
    alone = load(None, {"KAFKA_TWIN_DEFAULTS": str(below)})
    assert (alone.exporter.host, alone.exporter.port) == ("::", 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[exporter]\ncolour = 1", r"defaults.toml: exporter: .*`colour`"),
        ("exporter", "defaults.toml: is not valid TOML"),
        (None, "defaults.toml: there is no such file"),
    ],
)
def test_what_is_wrong_with_defaults_is_said_of_their_file(tmp_path, text, says):
    below = tmp_path / "defaults.toml"
    if text is not None:
        below.write_text(text)
    with pytest.raises(ConfigError, match=says):
        loaded(tmp_path, "", KAFKA_TWIN_DEFAULTS=str(below))


def test_the_defaults_of_the_images_are_settings_and_hold_for_each_that_the_file_leaves_out():
    path = Path(__file__).resolve().parents[2] / "deploy" / "docker" / "defaults.toml"
    config = load(None, {"KAFKA_TWIN_DEFAULTS": str(path)})
    assert (config.exporter.host, config.metrics.host) == ("::", "::")
    assert config.query.checkpoint == "/var/lib/kafka-twin/checkpoint"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("KAFKA_TWIN_COLLECTOR_INTERVAL_MS", "soon", "KAFKA_TWIN_COLLECTOR_INTERVAL_MS"),
        ("KAFKA_TWIN_COLLECTOR_INTERVALL_MS", "5", "is not a setting"),
        ("KAFKA_TWIN_EXPORTER_PORT", "70000", "EXPORTER_PORT: must be 0 to 65535"),
    ],
)
def test_a_wrong_variable_is_named(name, value, says):
    with pytest.raises(ConfigError, match=says):
        load(None, {name: value})


def test_metrics_are_asked_for_by_a_template_and_by_broker(tmp_path):
    config = loaded(
        tmp_path,
        "[collector.metrics_urls]\n2 = 'https://b/metrics'",
        KAFKA_TWIN_COLLECTOR_METRICS_URL="http://{host}:7071/metrics?broker={broker}&at={port}",
        KAFKA_TWIN_COLLECTOR_METRICS_INTERVAL_MS="2000",
    )
    assert config.collector.metrics_url.startswith("http://{host}:7071")
    assert config.collector.metrics_urls == {"2": "https://b/metrics"}
    assert config.collector.metrics_interval_ms == 2_000


def test_a_broker_has_its_own_capacity_or_that_of_all(tmp_path):
    capacity = loaded(
        tmp_path,
        "[capacity]\nbytes_in_per_s = 5\npeak_percent = 200\ndisk_bytes = 7\n[capacity.brokers]\n"
        "7 = { bytes_out_per_s = 9, disk_bytes = 8 }\n"
        "8 = { bytes_in_per_s = -1, peak_percent = -1 }",
        KAFKA_TWIN_CAPACITY_BYTES_OUT_PER_S="6",
    ).capacity
    of_brokers = [tuple(capacity.of_broker(broker).values()) for broker in (1, 7, 8)]
    assert of_brokers == [(5, 6, 200, 7), (5, 9, 200, 8), (-1, 6, -1, 7)]
    assert set(Config().capacity.of_broker(1).values()) == {-1}


def test_secrets_come_from_the_environment_and_are_never_shown(tmp_path):
    config = loaded(
        tmp_path,
        "[cluster.client]\nsecurity_protocol = 'SASL_SSL'",
        KAFKA_TWIN_CLUSTER_CLIENT_SASL_PLAIN_PASSWORD="hunter2",
    )
    assert config.cluster.client["sasl_plain_password"] == "hunter2"
    assert "hunter2" not in str(config.shown())
    assert config.shown()["cluster"]["client"]["security_protocol"] == "SASL_SSL"


SECTIONS = {
    section.name: [field.name for field in msgspec.structs.fields(section.type)]
    for section in msgspec.structs.fields(Config)
}


@pytest.mark.parametrize(
    "url", ["https://me:hunter2@host/path", "//hunter2@host:1", "s3://me:hunter2@x, y"]
)
@pytest.mark.parametrize("section", SECTIONS)
def test_a_password_in_a_url_is_never_shown_whatever_setting_it_stands_in(
    section: str, url: str, tmp_path: Path
) -> None:
    for key in SECTIONS[section]:
        variable = f"KAFKA_TWIN_{section}_{key}".upper()
        for toml, environment in ((f'[{section}]\n{key} = "{url}"', {}), ("", {variable: url})):
            try:
                said = str(loaded(tmp_path, toml, **environment).shown())
            except ConfigError as error:
                said = str(error)
            assert "hunter2" not in said, key


@pytest.mark.parametrize(
    "key", ["collector.metrics_url", "admission.exporter", "admission.kubernetes", "grafana.url"]
)
def test_a_url_with_a_password_is_refused_by_the_name_of_the_setting(key: str, tmp_path: Path):
    section, _, name = key.partition(".")
    with pytest.raises(ConfigError, match=rf"{key}: must hold no user and no password"):
        loaded(tmp_path, f"[{section}]\n{name} = 'https://me:hunter2@host:1/metrics'")


@pytest.mark.parametrize("mechanism", ["gssapi", "plain", "NTLM"])
@pytest.mark.parametrize("section", ["cluster", "bus"])
def test_a_login_that_one_of_both_clients_does_not_know_is_refused_by_name(
    section: str, mechanism: str, tmp_path: Path
):
    with pytest.raises(ConfigError, match=rf"{section}.client.sasl_mechanism: '{mechanism}' is "):
        loaded(tmp_path, f"[{section}.client]\nsasl_mechanism = '{mechanism}'")


def test_the_bus_is_on_the_watched_cluster_unless_it_has_an_address(tmp_path):
    shared = loaded(tmp_path, "[cluster]\nbootstrap='a:1'\n[cluster.client]\nx='1'")
    assert (shared.bus_bootstrap, shared.bus_client) == ("a:1", {"x": "1"})
    apart = loaded(tmp_path, "[cluster]\nbootstrap='a:1'\n[bus]\nbootstrap='b:2'")
    assert (apart.bus_bootstrap, apart.bus_client) == ("b:2", {})


def test_the_documented_file_holds_every_key_at_its_default():
    assert load(DOCUMENTED, {}) == with_shards(Config(), SHARDS_BY_SIZE)
    documented = tomllib.loads(DOCUMENTED.read_text())
    for section in msgspec.structs.fields(Config):
        keys = {f.name for f in msgspec.structs.fields(section.type)} - {"client", "topics"}
        assert keys == set(documented[section.name]) - {"client", "topics"}, section.name


@pytest.mark.parametrize(
    ("master", "set_to", "made"),
    [
        ("local[2]", 0, 4),
        ("local[8]", 0, 8),
        ("local[6,3]", 0, 6),
        ("local", 0, 4),
        ("", 0, 4),
        ("local[8]", 3, 3),
    ],
)
def test_the_bus_has_a_partition_for_each_core_of_the_query_unless_it_is_set(master, set_to, made):
    config = Config(bus=BusConfig(partitions=set_to), query=QueryConfig(master=master))
    assert config.bus_partitions == made


@pytest.mark.parametrize(
    ("given", "means"), [("true", True), ("false", False), ("auto", "auto"), (None, "auto")]
)
def test_agents_are_a_setting_of_the_environment_too(tmp_path, given, means):
    environment = {} if given is None else {"KAFKA_TWIN_EXPORTER_MCP": given}
    config = loaded(tmp_path, "", **environment, KAFKA_TWIN_EXPORTER_MCP_TOKEN="s3cret")
    assert config.exporter.mcp == means
    assert "s3cret" not in str(config.shown())
