"""Translates kafka-python's client settings to those of Kafka's Java client, which Spark uses.

Source: kafka-python 3.0 KafkaClient, Kafka 3.9 CommonClientConfigs, SaslConfigs and SslConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from streaming.query.logins.jaas import jaas
from streaming.query.logins.java_iam import options as iam_options
from streaming.query.logins.java_iam import require_region
from streaming.query.logins.private_keys import KeyFormatError, pkcs8, require_pair
from streaming.query.logins.token_endpoint import endpoint_of
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.kafka.dialing import SETTING as ELSEWHERE
from streaming.runtime.kafka.iam import PREFIX as IAM
from streaming.runtime.kafka.iam import iam_of
from streaming.runtime.kafka.kerberos import PREFIX as KERBEROS
from streaming.runtime.kafka.kerberos import Kerberos, kerberos_of, require_keytab
from streaming.runtime.kafka.oauth import PREFIX as OAUTH
from streaming.runtime.kafka.oauth import OAuth, oauth_of
from streaming.runtime.kafka.pem_files import other_form

_SAME_WORDS = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "request_timeout_ms": "request.timeout.ms",
    "ssl_ciphers": "ssl.cipher.suites",
}
_LOGIN_MODULE = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

_OAUTH = "org.apache.kafka.common.security.oauthbearer"


OUTPUT: Final = "topic string, key string, value binary"
"""What a sink takes."""

REQUEST_TIMEOUT_MS: Final = 3_000
"""Request timeout of the source, unless the client settings have another one."""

FETCH_WAIT_MS: Final = 10
"""How long a broker keeps a fetch that finds nothing: Kafka's default is half a second.

Spark reads only records that it knows to exist. But its consumer also sends the next fetch ahead,
and then requests the partition's first and last offset on the same connection: that request waits
for the fetch. For four tasks on two cores this took a second in each batch.
"""

WRITE_TIMEOUT_MS: Final = 5_000
"""Delivery timeout of the sinks, unless the client settings have another one."""


class UnsupportedSetting(UserError, ValueError):  # noqa: N818 - it is one
    """A client setting that has no counterpart; the message names it."""


def kafka_options(bootstrap: str, client: Mapping[str, Any]) -> dict[str, str]:
    """Options for Spark's Kafka source and sink.

    They have what is in the files, and not their names: Spark keeps a client for as long as its
    options are the same, and Kafka's Java client reads no file again. Nor do executors on other
    machines need the files. Exceptions are a keytab and a token of an executor's own.

    Raises:
        UnsupportedSetting: a security setting the Java client cannot be given.
    """
    options = {"bootstrap.servers": bootstrap}
    for name, value in client.items():
        if name in _SAME_WORDS:
            options[_SAME_WORDS[name]] = str(value)
    options |= _sasl(client) | _tls(client)
    if ELSEWHERE in client:
        raise UnsupportedSetting(
            f"{ELSEWHERE}: Kafka's Java client connects only where brokers advertise; run it "
            "where these names are known, or give them to its machine (/etc/hosts)"
        )
    own = ("sasl_", "ssl_", "security_")
    supported = {*_SAME_WORDS, "sasl_plain_username", "sasl_plain_password", "ssl_cafile",
             "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_check_hostname"}  # fmt: skip
    for name in client:
        is_read = name.startswith((OAUTH, IAM, KERBEROS)) or name in supported
        if name.startswith(own) and not is_read:
            raise UnsupportedSetting(
                f"{name} is a setting of kafka-python that the Spark query cannot use"
            )
    return {f"kafka.{name}": value for name, value in options.items()}


def _sasl(client: Mapping[str, Any]) -> dict[str, str]:
    if oauth := oauth_of(client):
        return _oauth(oauth)
    if kerberos := kerberos_of(client):
        return _kerberos(kerberos)
    if aws := iam_of(client):
        return iam_options(aws)
    mechanism = str(client.get("sasl_mechanism", ""))
    if "sasl_plain_username" not in client or mechanism not in _LOGIN_MODULE:
        return {}
    user, password = client["sasl_plain_username"], client.get("sasl_plain_password", "")
    options = {"username": user, "password": password}
    return {"sasl.jaas.config": jaas(_LOGIN_MODULE[mechanism], options)}


def _oauth(oauth: OAuth) -> dict[str, str]:
    options = {f"extension_{name}": value for name, value in oauth.extensions_by_name.items()}
    url = oauth.token_endpoint_url
    if url:
        options |= _of_client(oauth)
    elif _runs_here():
        ours = endpoint_of(oauth)
        url = ours.url
        options |= {"clientId": ours.client_id, "clientSecret": ours.client_secret}
    elif oauth.token_file:  # each machine reads its own
        url = Path(oauth.token_file).absolute().as_uri()
    else:
        raise UnsupportedSetting(
            f"{OAUTH}provider: its tokens do not reach Spark's executors on other machines; use "
            f"{OAUTH}token_endpoint_url, or a local master"
        )
    return {
        "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.jaas.config": jaas(f"{_OAUTH}.OAuthBearerLoginModule", options),
    }


def _kerberos(kerberos: Kerberos) -> dict[str, str]:
    """The keytab is read where a client runs, and again when a ticket is near its end. Tickets of
    others are not used: their cache may belong to another principal."""
    require_keytab(kerberos)
    options = {
        "useKeyTab": "true", "storeKey": "true", "useTicketCache": "false",
        "refreshKrb5Config": "true", "doNotPrompt": "true", "keyTab": kerberos.keytab,
        "principal": kerberos.principal,
    }  # fmt: skip
    return {
        "sasl.kerberos.service.name": kerberos.service_name,
        "sasl.jaas.config": jaas("com.sun.security.auth.module.Krb5LoginModule", options),
    }


def _of_client(oauth: OAuth) -> dict[str, str]:
    """Options of a login at the identity provider. The certificates of its endpoint are one: those
    of the brokers are not used for it."""
    try:
        options = {"clientId": oauth.client_id, "clientSecret": oauth.secret}
    except (OSError, UnicodeDecodeError) as error:
        path = oauth.client_secret_file
        raise UnsupportedSetting(f"{path} cannot be read: {_reason(error)}") from None
    if oauth.scope:
        options["scope"] = oauth.scope
    if oauth.cafile:
        text = _text(f"{OAUTH}cafile", oauth.cafile)
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
    return options


def _runs_here() -> bool:
    """Driver and executors are one process, or Spark has not started."""
    context = SparkContext._active_spark_context
    return context is None or str(context.master).startswith("local")


def _tls(client: Mapping[str, Any]) -> dict[str, str]:
    options: dict[str, str] = {}
    if "ssl_cafile" in client:
        options |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": _text("ssl_cafile", str(client["ssl_cafile"])),
        }
    if "ssl_certfile" in client:
        options |= {"ssl.keystore.type": "PEM"} | _pair(client, str(client["ssl_certfile"]))
    if str(client.get("ssl_check_hostname", True)).lower() == "false":
        options["ssl.endpoint.identification.algorithm"] = ""
    return options


def _pair(client: Mapping[str, Any], chain: str) -> dict[str, str]:
    """The certificate and its key."""
    certificates = _text("ssl_certfile", chain)
    name = "ssl_keyfile" if "ssl_keyfile" in client else "ssl_certfile"
    path = str(client.get(name, chain))
    try:
        key = pkcs8(_read(name, path), str(client.get("ssl_password", "")))
        require_pair(certificates, key)
    except KeyFormatError as error:
        raise UnsupportedSetting(f"{name}: {path} {error}") from None
    return {"ssl.keystore.certificate.chain": certificates, "ssl.keystore.key": key}


def _read(name: str, path: str) -> bytes:
    try:
        if why := other_form(path, holds_key=name != "ssl_cafile"):
            raise UnsupportedSetting(f"{name}: {path} {why}")
        return Path(path).read_bytes()
    except OSError as error:
        raise UnsupportedSetting(f"{name}: {path} cannot be read: {_reason(error)}") from None


def _text(name: str, path: str) -> str:
    try:
        return _read(name, path).decode()
    except UnicodeDecodeError:
        raise UnsupportedSetting(f"{name}: {path} is no PEM file: it is no text") from None


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (getattr(error, "strerror", None) or "it is no text").lower()


def kafka_stream(
    spark: SparkSession, bootstrap: str, client: Mapping[str, Any], most: int, **options: str
) -> DataFrame:
    """Records of topics as a stream; at most so many of them in a batch.

    Without a checkpoint it starts with the oldest record. What expired before it was read is left
    out: newer records replace it, or the archive records a gap.

    Raises:
        ConfigError: this session cannot log in there.
        UnsupportedSetting: a setting that Java's client does not have.
    """
    require_region(spark, client)
    return (
        spark.readStream.format("kafka")
        .options(**source_options(bootstrap, client), **options)
        .options(startingOffsets="earliest", failOnDataLoss="false", maxOffsetsPerTrigger=most)
        .load()
    )


def source_options(bootstrap: str, client: Mapping[str, Any]) -> dict[str, str]:
    """Options of a source that does not wait for a broker that is gone.

    Before each batch the driver asks the partitions' leaders for their ends. If the leader is lost
    while it has the request, the client waits for that broker, a minute by default, although
    another broker leads by then (seen: the twin stood still for 50 s after a broker was killed).
    """
    request_ms = int(client.get("request_timeout_ms", REQUEST_TIMEOUT_MS))
    return {
        **kafka_options(bootstrap, client),
        "kafka.request.timeout.ms": str(request_ms),
        "kafka.default.api.timeout.ms": str(request_ms + 2_000),  # must not be shorter
        "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
        "fetchOffset.numRetries": "20",
        "fetchOffset.retryIntervalMs": "500",
    }


def sink_options(config: Config) -> dict[str, str]:
    """Options of a sink that does not wait half a minute for a frozen broker.

    The producer waits that long by default, even with requests that any broker can answer: producer
    id, and metadata (measured: no snapshot for 20 s although no bus topic was on that broker).
    Retries do not write twice: the producer is idempotent.
    """
    client = kafka_options(config.bus_bootstrap, config.bus_client)
    return {"kafka.request.timeout.ms": str(WRITE_TIMEOUT_MS), **client}
