"""JMX exporters that serve what a test sets."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler

TEXT = """\
# HELP kafka_isr_shrinks_total Attribute exposed for management
# TYPE kafka_isr_shrinks_total counter
kafka_isr_shrinks_total 3.0
# TYPE kafka_isr_expands_total counter
kafka_isr_expands_total 2.0
# TYPE kafka_broker_bytes_in_total counter
kafka_broker_bytes_in_total 1000.0
kafka_broker_bytes_out_total 2000.0
kafka_broker_replication_bytes_in_total 500.0
kafka_broker_replication_bytes_out_total 2000.0
# TYPE kafka_broker_remote_fetch_requests_total counter
kafka_broker_remote_fetch_requests_total 100.0
kafka_broker_remote_fetch_bytes_total 1.0E6
kafka_broker_remote_fetch_errors_total 0.0
kafka_broker_remote_copy_errors_total 0.0
kafka_broker_remote_delete_errors_total 0.0
kafka_broker_aux_state_requests_total 1.0
kafka_broker_aux_state_errors_total 0.0
# TYPE kafka_broker_remote_copy_lag_bytes gauge
kafka_broker_remote_copy_lag_bytes 5000.0
kafka_broker_remote_copy_lag_segments 5.0
kafka_topic_remote_copy_lag_bytes{topic="__remote_log_metadata"} 700.0
kafka_topic_remote_copy_lag_bytes{topic="orders"} 4300.0
kafka_topic_remote_copy_lag_segments{topic="__remote_log_metadata"} 1.0
kafka_topic_remote_copy_lag_segments{topic="orders"} 4.0
kafka_delayed_operations{operation="Fetch"} 12.0
kafka_delayed_operations{operation="RemoteFetch"} 1.0
kafka_log_cleaner_dead_threads 0.0
kafka_log_dir_uncleanable_partitions{log_dir="/disks/1"} 1.0
kafka_log_dir_uncleanable_partitions{log_dir="/disks/2"} 2.0
kafka_remote_read_mean_ms 5.0
kafka_remote_reads_total 10.0
kafka_remote_reader_idle_ratio 0.9
kafka_remote_reader_queue_size 1.0
kafka_remote_reader_before_4_2_idle_ratio 0.8
kafka_request_handlers_idle_ratio 0.99
kafka_request_local_time_ms{quantile="0.99",request="FetchFollower"} 1.5
kafka_request_queue_size 7.0
kafka_request_queue_time_ms{quantile="0.99",request="FetchFollower"} 0.5
kafka_request_total_time_ms{quantile="0.50",request="FetchFollower"} 500.0
kafka_request_total_time_ms{quantile="0.99",request="FetchConsumer"} 40.0
kafka_request_total_time_ms{quantile="0.99",request="FetchFollower"} 503.0
kafka_requests_total{request="FetchConsumer"} 10.0
kafka_requests_total{request="FetchFollower"} 20.0
process_start_time_seconds 1.7E9
"""


NEVER_S = 600.0
"""A delay that no deadline of a test is as long as, on a busy machine either."""


@dataclass
class Exporter:
    """An HTTP server that serves ``text`` in the way the other fields say."""

    text: str = TEXT
    status: int = 200
    delay_s: float = 0.0
    drip_s: float = 0.0
    cut: int = 0
    location: str = ""
    before: Callable[[], object] = lambda: None  # called when it is asked
    asked: list[str] = field(default_factory=list)
    headers: list[Message] = field(default_factory=list)
    port: int = 0
    tls: ssl.SSLContext | None = None

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append(request.path)
        self.headers.append(request.headers)
        self.before()
        time.sleep(self.delay_s)
        body = self.text.encode()
        request.send_response(self.status)
        request.send_header("Content-Length", str(len(body)))
        if self.location:
            request.send_header("Location", self.location)
        request.end_headers()
        if self.drip_s:
            for byte in body:
                request.wfile.write(bytes([byte]))
                time.sleep(self.drip_s)
        request.wfile.write(body[: len(body) - self.cut])

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/metrics"
