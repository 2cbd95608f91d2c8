"""Promises of the bus that need no broker."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.bus import bus_topics, record
from streaming.bus.bus_topics import shard_of
from streaming.bus.connection import BusError, settings
from streaming.bus.sender import Sender
from streaming.runtime.config import BusConfig, ClusterConfig, Config, ConfigError
from streaming.runtime.kafka import clients
from streaming.runtime.kafka.bootstrapping import UnreachableError
from tests.waiting import patient_ms


@pytest.mark.parametrize(
    ("name", "murmur2"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_shards_are_kafkas_own_hash(name: str, murmur2: int) -> None:
    """The vectors are those of org.apache.kafka.common.utils.UtilsTest."""
    for shards in (1, 3, 16, 4_096):
        assert shard_of(name, shards) == (murmur2 & 0x7FFFFFFF) % shards


@given(st.text(min_size=1), st.integers(1, 4_096))
def test_every_topic_has_a_shard(name: str, shards: int) -> None:
    assert 0 <= shard_of(name, shards) < shards


def test_keys_name_cluster_and_shard() -> None:
    assert record.key("prod", 12) == b"prod/12"


def test_topics_carry_the_prefix() -> None:
    assert list(bus_topics.topics(Config(bus=BusConfig(prefix="x")))) == [
        "x.observations",
        "x.snapshots",
        "x.events",
    ]


def test_snapshots_are_compacted_and_the_rest_expires() -> None:
    configs = bus_topics.topic_configs(Config(bus=BusConfig(observations_retention_ms=600_000)))
    policies = {name.partition(".")[2]: c["cleanup.policy"] for name, c in configs.items()}
    assert policies == {"observations": "delete", "snapshots": "compact", "events": "delete"}
    assert configs["kafka-twin.observations"]["retention.ms"] == "600000"
    assert configs["kafka-twin.observations"]["segment.ms"] == "150000"
    assert configs["kafka-twin.events"]["retention.ms"] == "604800000"


IMPATIENT = {"bootstrap_timeout_ms": patient_ms(300)}
CLUSTER = ClusterConfig(bootstrap="a:1, b:2", client={"security_protocol": "SSL"})


def test_the_bus_is_the_watched_cluster_unless_it_has_its_own_address() -> None:
    same = settings(Config(cluster=CLUSTER))
    assert same["bootstrap_servers"] == ["a:1", "b:2"]
    assert same["security_protocol"] == "SSL"
    other = settings(Config(cluster=CLUSTER, bus=BusConfig(bootstrap="c:3")))
    assert other["bootstrap_servers"] == ["c:3"]
    assert "security_protocol" not in other


def test_settings_from_the_environment_get_the_type_the_client_wants() -> None:
    made = clients.settings(
        {
            "ssl_check_hostname": "false",
            "request_timeout_ms": "15000",
            "api_version": "3.9.0",
            "sasl_plain_password": "12345",
            "security_protocol": "SASL_SSL",
        },
        "cluster",
    )
    assert made == {
        "ssl_check_hostname": False,
        "request_timeout_ms": 15_000,
        "api_version": (3, 9, 0),
        "sasl_plain_password": "12345",
        "security_protocol": "SASL_SSL",
    }


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("sasl_pasword", "not a setting"),
        ("ssl_check_hostname", "must be true or false"),
        ("request_timeout_ms", "must be a number"),
        ("api_version", "must be a number"),
        ("bootstrap_servers", "set bootstrap"),
        ("sasl_oauth_token_provider", "is a Python object"),
        ("ssl_context", "is a Python object"),
    ],
)
def test_a_setting_that_cannot_be_is_named_and_its_value_never_shown(key: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^bus\.client\.{key}: .*{says}") as error:
        clients.settings({key: "hunter2"}, "bus")
    assert "hunter2" not in str(error.value)


def test_an_address_where_nobody_listens_is_one_line() -> None:
    nowhere = Config(cluster=ClusterConfig(bootstrap="127.0.0.1:1", client=IMPATIENT))
    for use in (bus_topics.ensure_topics, bus_topics.recorded_shards, Sender):
        with pytest.raises(BusError, match=r"^bus 127.0.0.1:1: .*REFUSED$") as error:
            use(nowhere)
        assert "\n" not in str(error.value)


def test_secrets_stay_out_of_errors() -> None:
    secret = msgspec.structs.replace(
        Config(),
        cluster=ClusterConfig(
            bootstrap="127.0.0.1:1",
            client={
                **IMPATIENT,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": "me",
                "sasl_plain_password": "hunter2",
            },
        ),
    )
    with pytest.raises(BusError) as error:
        Sender(secret)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_by_password_without_one_is_refused_before_a_client_fails(mechanism: str):
    client = {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism}
    with pytest.raises(ConfigError) as raised:
        clients.settings(client, "cluster")
    assert str(raised.value) == f"cluster.client.sasl_plain_username: {mechanism} needs it"
    with pytest.raises(ConfigError) as raised:
        clients.settings({**client, "sasl_plain_username": "twin"}, "bus")
    assert str(raised.value) == (
        f"bus.client.sasl_plain_password: {mechanism} needs it; a secret is best in "
        "KAFKA_TWIN_BUS_CLIENT_SASL_PLAIN_PASSWORD"
    )
    whole = {**client, "sasl_plain_username": "twin", "sasl_plain_password": "x-y-z"}
    assert clients.settings(whole, "cluster")["sasl_plain_password"] == "x-y-z"


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "see ssl_cafile and"),
        ("[SSL: SSLV3_ALERT_BAD_CERTIFICATE] sslv3 alert bad certificate", "see ssl_certfile"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] required", "see ssl_certfile"),
        ("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred", "See security_protocol"),
    ],
)
def test_a_failure_of_tls_names_the_setting(words: str, meaning: str):
    said = clients.one_line(UnreachableError({"a:1": f"KafkaConnectionError: {words}"}))
    assert said.startswith(f"cannot be reached: KafkaConnectionError: {words} (")
    assert meaning in said
