"""A cluster that trusts nobody: TLS, passwords, and an authorizer that allows what is listed.

One broker from the image ``kafka``. It listens with SASL_SSL alone, to clients outside and to
containers beside it, and its certificate holds for the address and the name that those use, and for
no other.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import KafkaError
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from streaming.checks.rights import Right
from streaming.lab.processes import free_base_port
from tests.waiting import until

ADMIN: Final = "admin"
INTERNAL: Final = "broker:19092"
"""Where containers beside it reach the broker, by the name that its certificate has."""

STRANGER: Final = "stranger:19092"
"""The same place by a name that is in no certificate."""

SECRETS: Final = "/secrets"
"""Where a container has its certificates, and a program its configuration."""

STARTS_WITHIN_S: Final = 60
HOLDS_WITHIN_S: Final = 20
"""A right that was given or taken away holds within this time; most often at once."""

_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"

_PROPERTIES: Final = """\
listener.security.protocol.map=PUBLISHED:SASL_SSL,INTERNAL:SASL_SSL,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.published.scram-sha-512.sasl.jaas.config={login};
listener.name.internal.scram-sha-512.sasl.jaas.config={admin};
ssl.keystore.type=PEM
ssl.keystore.location={secrets}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={secrets}/ca.pem
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:{name};User:ANONYMOUS
rlmm.config.remote.log.metadata.common.client.sasl.mechanism=SCRAM-SHA-512
rlmm.config.remote.log.metadata.common.client.sasl.jaas.config={admin};
rlmm.config.remote.log.metadata.common.client.ssl.truststore.type=PEM
rlmm.config.remote.log.metadata.common.client.ssl.truststore.location={secrets}/ca.pem
auto.leader.rebalance.enable=false
"""
"""ANONYMOUS are the controller's own connections: they alone come without a password."""


class Secured:
    """The cluster while it runs, and what its administrator does."""

    def __init__(
        self, folder: Path, port: int, network: Network, broker: DockerContainer,
        passwords: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.folder = folder
        self.bootstrap = f"127.0.0.1:{port}"
        self.port = port
        self.network = network
        self.broker = broker
        self._passwords = passwords
        self.admin: Any = None

    def login(self, user: str, ca: Path | str | None = None) -> dict[str, Any]:
        """Client settings of a user, with the certificate as a path on this machine."""
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": user,
            "sasl_plain_password": self._passwords[user],
            "ssl_cafile": str(ca or self.folder / "client" / "ca.pem"),
        }

    def grant(self, user: str, rights: Collection[Right]) -> None:
        """Give a user these rights, and wait until the broker knows."""
        answer = self.admin.create_acls([acl(user, right) for right in rights])
        assert not answer["failed"], answer["failed"]
        wanted = {_key(acl(user, right)) for right in rights}
        until(lambda: wanted <= self.granted(user), HOLDS_WITHIN_S, f"{user} is not granted")

    def revoke(self, user: str, rights: Collection[Right]) -> None:
        """Take exactly these rights away, and wait until the broker knows."""
        unwanted = {_key(acl(user, right)) for right in rights}
        for _, matched, error in self.admin.delete_acls([_exactly(acl(user, r)) for r in rights]):
            assert len(matched) == 1, (matched, error)
        until(lambda: not unwanted & self.granted(user), HOLDS_WITHIN_S, f"{user} keeps rights")

    def granted(self, user: str) -> set[tuple[Any, ...]]:
        """All rights of a user as the broker has them."""
        everything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        bindings, _ = self.admin.describe_acls(
            ACLFilter(f"User:{user}", None, ACLOperation.ANY, ACLPermissionType.ANY, everything)
        )
        return {_key(one) for one in bindings}


def acl(user: str, right: Right) -> ACL:
    """A right as kafka-python's admin client has it."""
    kind = ACLResourcePatternType[("LITERAL", "PREFIXED")[right.is_prefix]]
    name = right.name.removesuffix("*") if right.is_prefix else right.name
    if right.resource == "cluster":
        name = "kafka-cluster"
    kind_of = ResourceType[right.resource.upper().replace("-", "_")]
    return ACL(
        principal=f"User:{user}",
        host="*",
        operation=ACLOperation[right.operation],
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(kind_of, name, kind),
    )


def _exactly(one: ACL) -> ACLFilter:
    pattern = one.resource_pattern
    return ACLFilter(
        one.principal, one.host, one.operation, one.permission_type,
        ResourcePatternFilter(pattern.resource_type, pattern.resource_name, pattern.pattern_type),
    )  # fmt: skip


def _key(one: ACL) -> tuple[Any, ...]:
    pattern = one.resource_pattern
    return (one.operation.name, pattern.resource_type.name, pattern.resource_name,
            pattern.pattern_type.name)  # fmt: skip


def certificates(folder: Path) -> None:
    """An authority and the broker's certificate; and an authority that nobody here trusts.

    Below the folder: what the broker gets to see in ``broker``, what clients do in ``client``.
    """
    for name in ("ca", "other-ca"):
        _openssl(folder, f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name}",
                 f"-keyout {name}.key -out {name}.pem")  # fmt: skip
    (folder / "names").write_text("subjectAltName=DNS:broker,IP:127.0.0.1\n")
    _openssl(
        folder, "req -newkey rsa:2048 -nodes -subj /CN=broker", "-keyout broker.key -out broker.csr"
    )
    _openssl(folder, "x509 -req -in broker.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2",
             "-extfile names -out broker.crt")  # fmt: skip
    text = {path.name: path.read_text() for path in folder.iterdir()}
    own = text["broker.key"] + text["broker.crt"] + text["ca.pem"]
    for place, files in (
        ("broker", {"broker.pem": own, "ca.pem": text["ca.pem"]}),
        ("client", {name: text[name] for name in ("ca.pem", "other-ca.pem")}),
    ):
        (folder / place).mkdir()
        for name, content in files.items():
            readable(folder / place / name, content)


def readable(path: Path, content: str) -> None:
    """A file that containers can read, which run as another user."""
    path.write_text(content)
    path.chmod(0o644)
    path.parent.chmod(0o755)


def _openssl(folder: Path, *words: str) -> None:
    command = ["openssl", *" ".join(words).split()]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@contextmanager
def secured_cluster(image: str, folder: Path, passwords: Mapping[str, str]) -> Iterator[Secured]:
    """The cluster with these users, of whom ``admin`` may do everything and the others nothing."""
    certificates(folder)
    port = free_base_port(span=1)
    admin = f'{_SCRAM} username="{ADMIN}" password="{passwords[ADMIN]}"'
    users = ",".join(f"{name}={password}" for name, password in passwords.items())
    properties = _PROPERTIES.format(login=_SCRAM, admin=admin, name=ADMIN, secrets=SECRETS)
    with Network() as network:
        broker = (
            DockerContainer(image)
            .with_env("INTERNAL", INTERNAL.partition(":")[0])
            .with_env("PUBLISHED", f"127.0.0.1:{port}")
            .with_env("REPLICATION", "1")
            .with_env("SCRAM_USERS", users)
            .with_env("PROPERTIES", properties)
            .with_network(network)
            .with_network_aliases("broker", "stranger")
            .with_volume_mapping(folder / "broker", SECRETS)
        )
        broker.ports = {"9092": ("127.0.0.1", port)}
        with broker:
            cluster = Secured(folder, port, network, broker, passwords)
            cluster.admin = _admin(cluster)
            try:
                yield cluster
            finally:
                cluster.admin.close()


def _admin(cluster: Secured) -> KafkaAdminClient:
    """The administrator, once the broker lets it in."""
    clients: list[KafkaAdminClient] = []

    def connected() -> bool:
        try:
            clients.append(
                KafkaAdminClient(
                    bootstrap_servers=cluster.bootstrap,
                    bootstrap_timeout_ms=2_000,
                    **cluster.login(ADMIN),
                )
            )
        except (KafkaError, OSError):
            return False
        return True

    until(connected, STARTS_WITHIN_S, "the broker lets nobody in")
    return clients[0]
