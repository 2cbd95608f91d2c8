"""A broker with a listener for each login, on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime import jars
from tests.broker_classes import on_the_class_path

_JOSE4J: Final = ("org.bitbucket.b_c", "jose4j", "0.9.6")
_JOSE4J_SHA256: Final = "7314af50cde9c99e8eaf43eee617a23edcc6bb43036221064355094999d837ef"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"


def with_tokens(folder: Path, jwks: Path, issuer: str, audience: str) -> tuple[LocalCluster, str]:
    """A cluster of one node, not started, and the address at which it wants tokens.

    Args:
        folder: for its files.
        jwks: the file with the public keys of those who sign tokens.
        issuer, audience: of tokens.
    """
    keys = jwks.absolute().as_uri()
    settings = {
        "oauthbearer.sasl.server.callback.handler.class": (
            f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
        ),
        "oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": issuer,
        "sasl.oauthbearer.expected.audience": audience,
        "connections.max.reauth.ms": "3600000",  # and never longer than the token lives
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
    release = _release(folder / "logins-4.4.0")
    return _one_node(folder, "SASL_PLAINTEXT", settings, allowed, release=release)


def with_signed_urls(
    folder: Path, keys: Path, region: str, session_ms: int
) -> tuple[LocalCluster, str]:
    """A cluster of one node, not started, and the address at which it is as Amazon MSK: TLS, and
    logins with URLs that AWS' keys signed. Its certificate is ``msk.pem`` in the folder.

    Args:
        folder: for its files.
        keys: the file of the keys that it knows, a line each: id, secret, session token or ``-``,
            ARN. It may change.
        region: in which it is.
        session_ms: after which clients log in again.
    """
    made = "-newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        ["openssl", "req", "-x509", *made.split(), "-keyout", "msk.key", "-out", "msk.pem"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    store = folder / "msk-store.pem"
    store.write_text((folder / "msk.key").read_text() + (folder / "msk.pem").read_text())
    settings = {
        "oauthbearer.sasl.server.callback.handler.class": _VERIFIER.stem,
        "oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connections.max.reauth.ms": str(session_ms),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
    }
    options = (
        f"-javaagent:{on_the_class_path(folder, _VERIFIER)}",
        f"-Dmsk.keys={keys}",
        f"-Dmsk.region={region}",
    )
    return _one_node(folder, "SASL_SSL", settings, *options)


_VERIFIER: Final = Path(__file__).parent / "java" / "SignedUrls.java"


def with_certificates(folder: Path, own: Path, trusted: Path) -> tuple[LocalCluster, str]:
    """A cluster of one node, not started, and the address at which clients need certificates.

    Args:
        folder: for its files.
        own: the key and the certificate of the broker, as PEM.
        trusted: certificates of those who may sign the certificates of clients, as PEM.
    """
    settings = {
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
    }
    return _one_node(folder, "SSL", settings)


def with_passwords(
    folder: Path, own: Path, user: str, password: str, advertised_port: int
) -> tuple[LocalCluster, str]:
    """A cluster of one node, not started, and the address where it takes TLS and a password. It
    tells clients another port of this machine, where somebody passes on what they send.

    Args:
        folder: for its files.
        own: the key and the certificate of the broker, as PEM.
        user, password: of the only client.
        advertised_port: the port that the broker advertises.
    """
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": f'{module} required user_{user}="{password}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own),
    }
    return _one_node(folder, "SASL_SSL", settings, advertised_port=advertised_port)


def with_kerberos(
    folder: Path, host: str, keytab: Path, principal: str, krb5_conf: Path, session_s: int
) -> tuple[LocalCluster, str]:
    """A cluster of one node, not started, and the address at which it wants Kerberos.

    Args:
        folder: for its files.
        host: its name in the realm.
        keytab, principal: of the broker.
        krb5_conf: says where the KDC is.
        session_s: after that clients have to log in again.
    """
    settings = {
        "gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
        f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";',
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": principal.partition("/")[0],
        "connections.max.reauth.ms": str(session_s * 1_000),
    }
    where = f"-Djava.security.krb5.conf={krb5_conf}"
    return _one_node(folder, "SASL_PLAINTEXT", settings, where, host=host)


def _one_node(
    folder: Path, protocol: str, settings: Mapping[str, str], *java_opts: str,
    host: str = "127.0.0.1", release: Path | None = None, advertised_port: int = 0,
) -> tuple[LocalCluster, str]:  # fmt: skip
    base = free_base_port()
    plain, bound, controller = (f"127.0.0.1:{base + n}" for n in (1, 2, 11))
    login = f"{host}:{advertised_port or base + 2}"
    given = {
        "listeners": f"PLAINTEXT://{plain},LOGIN://{bound},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{plain},LOGIN://{login}",
        "listener.security.protocol.map": (
            f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:{protocol}"
        ),
        **{f"listener.name.login.{name}": value for name, value in settings.items()},
    }
    local = LocalCluster(
        folder / "cluster", nodes=1, base_port=base, settings=given, java_opts=java_opts,
        metrics=False, release=release,
    )  # fmt: skip
    return local, bound if advertised_port else login


def _release(folder: Path) -> Path:
    """The project's Kafka, and what its brokers need beside it to verify tokens."""
    folder.mkdir()
    declared = jars.declared_in()
    organisation, name, revision = _JOSE4J
    line = (
        f'<dependency org="{organisation}" name="{name}" rev="{revision}" conf="kafka" '
        'transitive="false"/>'
    )
    text = (declared / "jars.xml").read_text()
    text = text.replace("</dependencies>", f"{line}\n</dependencies>")
    (folder / "jars.xml").write_text(text)
    checksums = (declared / "jars.sha256").read_text()
    checksums += f"{_JOSE4J_SHA256}  kafka/{name}-{revision}.jar\n"
    (folder / "jars.sha256").write_text(checksums)
    return folder
