"""``kafka-twin admission``: a validating webhook on evictions and deletions of broker pods.

It asks the exporter's gate, so the drain of a node waits until it is safe. It keeps the brokers
whose eviction it has just allowed in its memory, so only one instance of it may run.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from streaming.admission.gate_client import Gate
from streaming.admission.kubernetes import IN_CLUSTER, Kubernetes, address
from streaming.admission.own_metrics import OWN
from streaming.admission.webhook import Webhook, application
from streaming.runtime.config import Config
from streaming.runtime.errors import UserError
from streaming.runtime.ports.sockets import url_of
from streaming.runtime.program_metrics import ProgramMetrics, served
from streaming.serving.certificate import certificate_of
from streaming.serving.http_server import Server, listen

log = structlog.get_logger("admission")


class AdmissionError(UserError):
    """The webhook cannot start; one line says why."""


def run(config: Config) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        AdmissionError: no certificate is configured, and the API server calls webhooks by TLS only.
        CertificateError: the certificate cannot be used.
        KubernetesError: there is no API server.
        ListenError, MetricsPortError: a port is not available.
    """
    section, at = config.admission, config.metrics
    certificate = certificate_of(section.certificate, section.key)
    if certificate is None:
        raise AdmissionError(
            "admission.certificate: is not set: the API server calls webhooks by TLS only"
        )
    folder = Path(section.account) if section.account else IN_CLUSTER
    kubernetes = Kubernetes(section.kubernetes or address(), folder)
    token = config.access.token or config.access.operator_token
    metrics = ProgramMetrics(config.cluster.name, OWN)
    webhook = Webhook(
        section, kubernetes, Gate(section.exporter, token, section.gate_terms), metrics
    )
    listening = listen(section.host, section.port, setting="admission.port")
    server = Server(application(webhook), certificate)
    log.info("serving", url=f"{url_of(listening, 'https')}admit", exporter=section.exporter)
    try:
        with served(metrics.registry, at.host, at.admission_port, "metrics.admission_port"):
            server.run(sockets=[listening])
    finally:
        listening.close()
        log.info("stopped")
