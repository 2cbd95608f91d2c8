"""What no range can say of a value: its form, and what it needs beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Final
from urllib.parse import urlsplit

from streaming.runtime.config import MAX_MESSAGE_BYTES, OF_CAPACITY, CollectorConfig, Config
from streaming.runtime.configuration.secret_keys import has_user
from streaming.runtime.kafka import iam, kerberos, topic_settings
from streaming.runtime.kafka.oauth import MECHANISM, OAuthError, oauth_of

Problems = Iterator[tuple[str, str]]
"""Key and reason of each value that cannot be."""

_NO_USER: Final = "must hold no user and no password before the host: they are not sent"
_BROKER: Final = re.compile(r"0|[1-9][0-9]*")

_BOTH_CLIENTS: Final = (
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", MECHANISM, iam.MECHANISM, kerberos.MECHANISM,
)  # fmt: skip
"""SASL mechanisms that the twin configures for both kafka-python and Spark's Java client."""


def problems(c: Config) -> Problems:
    """What is wrong with values that are of their types and in their ranges."""
    for name, section in (("cluster", c.cluster), ("bus", c.bus)):
        yield from _of_client(name, section.bootstrap, section.client)
    for key, reason in topic_settings.problems(c.bus.topics, MAX_MESSAGE_BYTES):
        yield f"bus.topics.{key}", reason
    patterns = {"cluster.one_replica_topics": c.cluster.one_replica_topics}
    for key in ("include_topics", "exclude_topics", "include_groups", "exclude_groups"):
        patterns[f"collector.{key}"] = getattr(c.collector, key)
    for i, topic in enumerate(c.eligibility.topics):
        if bool(topic.name) == bool(topic.pattern):
            yield f"eligibility.topics[{i}]", "needs either name or pattern"
        patterns[f"eligibility.topics[{i}].pattern"] = topic.pattern
    for key, pattern in patterns.items():
        if not _compiles(pattern):
            yield key, f"{pattern!r} is not a regular expression"
    if 0 < c.collector.groups_interval_ms < 200:
        yield "collector.groups_interval_ms", "must be at least 200, or 0 for no groups"
    for key, reason in _metrics_login_faults(c.collector):
        yield f"collector.{key}", reason
    yield from _of_signs(c)
    for key in c.collector.metrics_urls.keys() | c.capacity.brokers.keys():
        if not _BROKER.fullmatch(key):
            of = "capacity.brokers" if key in c.capacity.brokers else "collector.metrics_urls"
            yield of, f"{key!r} is not the id of a broker"
    master = c.query.master
    if not re.fullmatch(r"(local(\[.+\])?)?", master):
        start = f"start the query with spark-submit --master {master} (docs/spark.md)"
        yield "query.master", f"{master!r} is not local; leave it empty, and {start}"
    if c.query.max_offsets_per_trigger < c.bus.shards:
        yield "query.max_offsets_per_trigger", "must be at least bus.shards"
    tokens = (c.exporter.mcp_token, c.access.token, c.access.operator_token)
    if c.exporter.mcp is True and not c.exporter.is_on_loopback and not any(tokens):
        others = f"exporter.mcp is true, and others reach {c.exporter.host}"
        yield "exporter.mcp_token", f"must be set: {others}"
    for text in c.access.proxy_networks:
        if not _is_network(text):
            yield "access.proxies", f"{text!r} is no address or network like 10.0.0.0/24"
    if c.access.operators and not c.access.proxies:
        yield "access.operators", "names users of a proxy: access.proxies must say which"
    for name, own in (("access", c.access), ("admission", c.admission)):
        if bool(own.certificate) != bool(own.key):
            yield f"{name}.key", "certificate and key belong together: set both or neither"
    yield from _of_urls(c)
    if has_user(c.grafana.url):
        yield "grafana.url", _NO_USER


def _of_client(name: str, bootstrap: str, client: dict[str, str | int | bool | float]) -> Problems:
    """Where the brokers of a cluster are, and the login at them."""
    for address in filter(None, bootstrap.split(",")):
        host, _, port = address.strip().rpartition(":")
        if not (host and port.isdigit() and 0 < int(port) < 65_536):
            yield f"{name}.bootstrap", f"{address.strip()!r} is not host:port"
    mechanism = client.get("sasl_mechanism", _BOTH_CLIENTS[0])
    if mechanism not in _BOTH_CLIENTS:
        both = f"{', '.join(_BOTH_CLIENTS)}, which work for both Kafka clients of the twin"
        reason = f"{mechanism!r} is none of {both}: kafka-python, and the query's Java client"
        yield f"{name}.client.sasl_mechanism", reason
    try:
        oauth_of(client)
        iam.iam_of(client, bootstrap)
        kerberos.kerberos_of(client)
    except (OAuthError, iam.IamError, kerberos.KerberosError) as error:
        key, _, reason = str(error).partition(": ")
        yield f"{name}.client.{key}", reason


def _of_signs(c: Config) -> Problems:
    """Settings that are a positive number, or a negative one with a meaning."""
    limit = "proposals.kip501_fetch_processing_max_ms"
    found = {
        "bus.replication_factor": c.bus.replication_factor,
        limit: c.proposals.kip501_fetch_processing_max_ms,
        **{f"capacity.{key}": getattr(c.capacity, key) for key in OF_CAPACITY},
    }
    for key in (key for key, value in found.items() if value == 0):
        yield key, "must be positive, or -1"
    for broker, own in c.capacity.brokers.items():
        for key in OF_CAPACITY:
            if (value := getattr(own, key)) not in (-1, -2) and not 0 < value < 1 << 62:
                yield (
                    f"capacity.brokers.{broker}.{key}",
                    "must be positive, -1 (off) or -2 (as all)",
                )


def _of_urls(c: Config) -> Problems:
    metrics = "http://{host}:7071/metrics"
    urls = [(f"metrics_urls.{broker}", url) for broker, url in c.collector.metrics_urls.items()]
    for key, url, like in (
        *((f"collector.{key}", url, metrics) for key, url in urls),
        ("collector.metrics_url", c.collector.metrics_url or metrics, metrics),
        ("admission.exporter", c.admission.exporter, "http://kafka-twin-exporter:9410"),
        ("admission.kubernetes", c.admission.kubernetes or "https://h", "https://10.0.0.1:443"),
    ):
        if has_user(url):
            yield key, _NO_USER
        if not _is_url(url):
            yield key, f"{url!r} is not like {like}"


def _metrics_login_faults(collector: CollectorConfig) -> Problems:
    """Settings of the login at exporters that contradict each other, and the reason."""
    c = collector
    if c.metrics_password and c.metrics_password_file:
        yield "metrics_password_file", "set this or metrics_password"
    if c.metrics_token and c.metrics_token_file:
        yield "metrics_token_file", "set this or metrics_token"
    if bool(c.metrics_user) != bool(c.metrics_password or c.metrics_password_file):
        yield "metrics_user", "belongs to metrics_password or metrics_password_file: set both"
    if c.metrics_user and (c.metrics_token or c.metrics_token_file):
        yield "metrics_user", "set this or metrics_token"
    if ":" in c.metrics_user:
        yield "metrics_user", "must not contain ':' (RFC 7617)"
    if re.search(r"[\x00-\x1f\x7f]", c.metrics_token):
        yield "metrics_token", "must be one line"
    if c.metrics_key and not c.metrics_certificate:
        yield "metrics_key", "belongs to metrics_certificate: set both"


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _is_url(text: str) -> bool:
    """A URL once {host}, {port} and {broker} are filled in."""
    filled = re.sub(r"\{(host|port|broker)\}", "1", text)
    try:
        url = urlsplit(filled)
        return (
            url.scheme in ("http", "https")
            and bool(url.hostname)
            and url.port != 0
            and re.search(r"[\s{}]", filled) is None
            and filled.isascii()
        )
    except ValueError:
        return False


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
