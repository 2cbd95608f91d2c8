"""Names of series that follow from the names of beans alone, as exporters have them without rules.

A bean ``kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=x`` with the attribute
``Count`` is

* ``kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",topic="x"}`` in jmx_exporter: the
  domain, the value of the first property and the attribute; the other properties are labels. Amazon
  MSK serves these at port 11001. With ``lowercaseOutputName`` all letters are small;
* ``kafka_server_BrokerTopicMetrics_BytesInPerSec_Count{topic="x"}`` in Aiven's Prometheus
  integration, which adds labels of its own. Its series of the whole broker have no ``topic``.

Sources: jmx_exporter's documentation (default format), DataDog's list of the metrics of MSK, and
Aiven's list of the metrics of Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

_READERS: Final = "org.apache.kafka.storage.internals.log"
_P99: Final = "99thPercentile"


class Naming(Enum):
    """Which of both."""

    JMX_EXPORTER = auto()
    AIVEN = auto()


class _Bean(NamedTuple):
    """An attribute of a bean that is read, and its series in the names of deploy/jmx/kafka.yml."""

    domain: str
    type: str
    name: str
    attribute: str
    ours: str
    labels: tuple[str, ...] = ()  # further properties of the bean, which are in the key
    after: tuple[str, ...] = ()  # what else is in the key

    def names(self) -> Iterator[tuple[str, Naming]]:
        """The name of the series; from version 1 on jmx_exporter may end a count with _total."""
        domain, kind = re.sub(r"\W", "_", self.domain), re.sub(r"\W", "_", self.type)
        bean = f"{domain}_{kind}_{re.sub(r'[^a-zA-Z0-9_]', '_', self.name)}_{self.attribute}"
        for name, naming in (
            (f"{domain}_{kind}_{self.attribute}", Naming.JMX_EXPORTER),
            (bean, Naming.AIVEN),
        ):
            yield name, naming
            if self.attribute == "Count":
                yield f"{name}_total", naming

    def key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        return (self.ours, *(labels.get(label, "") for label in self.labels), *self.after)


def _of_topics(name: str, ours: str, attribute: str = "Count") -> _Bean:
    return _Bean("kafka.server", "BrokerTopicMetrics", name, attribute, f"kafka_broker_{ours}")


def _of_requests(name: str, ours: str) -> _Bean:
    return _Bean("kafka.network", "RequestMetrics", name, _P99, ours, ("request",), ("0.99",))


BEANS: Final = (
    _of_topics("BytesInPerSec", "bytes_in_total"),
    _of_topics("BytesOutPerSec", "bytes_out_total"),
    _of_topics("ReplicationBytesInPerSec", "replication_bytes_in_total"),
    _of_topics("ReplicationBytesOutPerSec", "replication_bytes_out_total"),
    _of_topics("BuildRemoteLogAuxStateRequestsPerSec", "aux_state_requests_total"),
    _of_topics("BuildRemoteLogAuxStateErrorsPerSec", "aux_state_errors_total"),
    _of_topics("RemoteCopyErrorsPerSec", "remote_copy_errors_total"),
    _of_topics("RemoteCopyLagBytes", "remote_copy_lag_bytes", "Value"),
    _of_topics("RemoteCopyLagSegments", "remote_copy_lag_segments", "Value"),
    _of_topics("RemoteDeleteErrorsPerSec", "remote_delete_errors_total"),
    _of_topics("RemoteFetchBytesPerSec", "remote_fetch_bytes_total"),
    _of_topics("RemoteFetchRequestsPerSec", "remote_fetch_requests_total"),
    _of_topics("RemoteFetchErrorsPerSec", "remote_fetch_errors_total"),
    *(
        _Bean("kafka.server", "BrokerTopicMetrics", f"RemoteCopyLag{unit}", "Value",
              f"kafka_topic_remote_copy_lag_{unit.lower()}", ("topic",))
        for unit in ("Bytes", "Segments")
    ),
    _Bean("kafka.server", "ReplicaManager", "IsrShrinksPerSec", "Count", "kafka_isr_shrinks_total"),
    _Bean("kafka.server", "ReplicaManager", "IsrExpandsPerSec", "Count", "kafka_isr_expands_total"),
    _Bean("kafka.server", "DelayedOperationPurgatory", "NumDelayedOperations", "Value",
          "kafka_delayed_operations", ("delayedOperation",)),
    _Bean("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent",
          "OneMinuteRate", "kafka_request_handlers_idle_ratio"),
    _Bean("kafka.log", "LogCleaner", "DeadThreadCount", "Value", "kafka_log_cleaner_dead_threads"),
    _Bean("kafka.log", "LogCleanerManager", "uncleanable-partitions-count", "Value",
          "kafka_log_dir_uncleanable_partitions", ("logDirectory",)),
    _Bean("kafka.network", "RequestChannel", "RequestQueueSize", "Value",
          "kafka_request_queue_size"),
    _of_requests("TotalTimeMs", "kafka_request_total_time_ms"),
    _of_requests("LocalTimeMs", "kafka_request_local_time_ms"),
    _of_requests("RequestQueueTimeMs", "kafka_request_queue_time_ms"),
    _Bean("kafka.network", "RequestMetrics", "TotalTimeMs", "Count", "kafka_requests_total",
          ("request",)),
    _Bean("kafka.log.remote", "RemoteLogManager", "RemoteLogReaderFetchRateAndTimeMs", "Count",
          "kafka_remote_reads_total"),
    _Bean("kafka.log.remote", "RemoteLogManager", "RemoteLogReaderFetchRateAndTimeMs", "Mean",
          "kafka_remote_read_mean_ms"),
    _Bean("kafka.log.remote", "RemoteStorageThreadPool", "RemoteLogReaderTaskQueueSize", "Value",
          "kafka_remote_reader_queue_size"),
    _Bean("kafka.log.remote", "RemoteStorageThreadPool", "RemoteLogReaderAvgIdlePercent", "Value",
          "kafka_remote_reader_idle_ratio"),
    _Bean(_READERS, "RemoteStorageThreadPool", "RemoteLogReaderTaskQueueSize", "Value",
          "kafka_remote_reader_before_4_2_queue_size"),
    _Bean(_READERS, "RemoteStorageThreadPool", "RemoteLogReaderAvgIdlePercent", "Value",
          "kafka_remote_reader_before_4_2_idle_ratio"),
)  # fmt: skip

_OF_KAFKA: Final = frozenset({"name", *(label.lower() for bean in BEANS for label in bean.labels)})
"""Properties of these beans; any other label is an exporter's own, such as a host."""

_BY_NAME: Final = {
    (series.lower(), bean.name.lower() if naming is Naming.JMX_EXPORTER else "",
     frozenset(label.lower() for label in bean.labels)): (bean, naming)
    for bean in BEANS for series, naming in bean.names()
}  # fmt: skip

PREFIXES: Final = tuple(
    sorted({
        end for bean in BEANS for series, _ in bean.names() for name in {series, series.lower()}
        for end in (f"{name}{{", f"{name} ")
    })
)  # fmt: skip
"""Prefixes of the lines that may be read."""


def key_of(name: str, labels: Mapping[str, str]) -> tuple[tuple[str, ...], Naming] | None:
    """The series in the names of deploy/jmx/kafka.yml; None if it is not read.

    A series of one topic, which has the label ``topic``, is not that of the whole broker.
    """
    of_kafka = {label.lower(): text for label, text in labels.items() if label.lower() in _OF_KAFKA}
    bean_name = of_kafka.pop("name", "").lower()
    found = _BY_NAME.get((name.lower(), bean_name, frozenset(of_kafka)))
    if found is None:
        return None
    bean, naming = found
    return bean.key({label: of_kafka[label.lower()] for label in bean.labels}), naming
