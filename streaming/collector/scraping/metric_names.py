"""The names of the series that a broker's JMX exporter serves. They depend on its rules.

Signals are computed from the names of deploy/jmx/kafka.yml. The rules of Strimzi and of
jmx_exporter's examples name a series by the type and the name of its bean; their names are
translated here. They leave out beans whose domain has a dot in it (the readers of remote storage),
and Strimzi's newer rules leave out the times of requests. Without rules (``default_names``) nothing
is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from streaming.collector.scraping import default_names

Key = tuple[str, ...]
"""A series: its name, and the values of the labels that distinguish it from others of the name."""


class Rules(Enum):
    """Which rules an exporter has, as ``check`` names them."""

    OWN = "the rules deploy/jmx/kafka.yml"
    BY_BEAN = "the rules of Strimzi, or of jmx_exporter's examples"
    DEFAULT = "the names that jmx_exporter gives without rules, as Amazon MSK has them"
    AIVEN = "the names of Aiven"


IDLE_NANOSECONDS: Final = "kafka_request_handlers_idle_nanoseconds_total"
"""Time without work of the average request handler, since the start."""

STARTED: Final = "process_start_time_seconds"
"""Served by every agent, whatever its rules."""

OWN: Final[Mapping[str, tuple[str, ...]]] = {
    STARTED: (),
    "kafka_broker_aux_state_errors_total": (),
    "kafka_broker_aux_state_requests_total": (),
    "kafka_broker_bytes_in_total": (),
    "kafka_broker_bytes_out_total": (),
    "kafka_broker_remote_copy_errors_total": (),
    "kafka_broker_remote_copy_lag_bytes": (),
    "kafka_broker_remote_copy_lag_segments": (),
    "kafka_broker_remote_delete_errors_total": (),
    "kafka_broker_remote_fetch_bytes_total": (),
    "kafka_broker_remote_fetch_errors_total": (),
    "kafka_broker_remote_fetch_requests_total": (),
    "kafka_broker_replication_bytes_in_total": (),
    "kafka_broker_replication_bytes_out_total": (),
    "kafka_delayed_operations": ("operation",),
    "kafka_isr_expands_total": (),
    "kafka_isr_shrinks_total": (),
    "kafka_log_cleaner_dead_threads": (),
    "kafka_log_dir_uncleanable_partitions": ("log_dir",),
    "kafka_remote_read_mean_ms": (),
    "kafka_remote_reader_before_4_2_idle_ratio": (),
    "kafka_remote_reader_before_4_2_queue_size": (),
    "kafka_remote_reader_idle_ratio": (),
    "kafka_remote_reader_queue_size": (),
    "kafka_remote_reads_total": (),
    "kafka_request_handlers_idle_ratio": (),
    "kafka_request_local_time_ms": ("request", "quantile"),
    "kafka_request_queue_size": (),
    "kafka_request_queue_time_ms": ("request", "quantile"),
    "kafka_request_total_time_ms": ("request", "quantile"),
    "kafka_requests_total": ("request",),
    "kafka_topic_remote_copy_lag_bytes": ("topic",),
    "kafka_topic_remote_copy_lag_segments": ("topic",),
}
"""Every name that is read, and its labels in a ``Key``."""

_TOPIC_METRICS: Final = "kafka_server_brokertopicmetrics"
_REQUESTS: Final = "kafka_network_requestmetrics"

BY_BEAN: Final[Mapping[tuple[str, tuple[str, ...]], str]] = {
    **{
        (f"{_TOPIC_METRICS}_{theirs}", ()): f"kafka_broker_{ours}"
        for theirs, ours in (
            ("buildremotelogauxstateerrors_total", "aux_state_errors_total"),
            ("buildremotelogauxstaterequests_total", "aux_state_requests_total"),
            ("bytesin_total", "bytes_in_total"),
            ("bytesout_total", "bytes_out_total"),
            ("remotecopyerrors_total", "remote_copy_errors_total"),
            ("remotecopylagbytes", "remote_copy_lag_bytes"),
            ("remotecopylagsegments", "remote_copy_lag_segments"),
            ("remotedeleteerrors_total", "remote_delete_errors_total"),
            ("remotefetchbytes_total", "remote_fetch_bytes_total"),
            ("remotefetcherrors_total", "remote_fetch_errors_total"),
            ("remotefetchrequests_total", "remote_fetch_requests_total"),
            ("replicationbytesin_total", "replication_bytes_in_total"),
            ("replicationbytesout_total", "replication_bytes_out_total"),
        )
    },
    (f"{_TOPIC_METRICS}_remotecopylagbytes", ("topic",)): "kafka_topic_remote_copy_lag_bytes",
    (f"{_TOPIC_METRICS}_remotecopylagsegments", ("topic",)): "kafka_topic_remote_copy_lag_segments",
    **{
        ("kafka_server_delayedoperationpurgatory_numdelayedoperations", (label,)): (
            "kafka_delayed_operations"
        )
        for label in ("delayedOperation", "delayedoperation")  # lowercaseOutputLabelNames
    },
    ("kafka_log_logcleaner_deadthreadcount", ()): "kafka_log_cleaner_dead_threads",
    **{
        ("kafka_log_logcleanermanager_uncleanable_partitions_count", (label,)): (
            "kafka_log_dir_uncleanable_partitions"
        )
        for label in ("logDirectory", "logdirectory")
    },
    ("kafka_server_replicamanager_isrexpands_total", ()): "kafka_isr_expands_total",
    ("kafka_server_replicamanager_isrshrinks_total", ()): "kafka_isr_shrinks_total",
    # Their gauge of the idle handlers is a mean since the start of the broker. From version 1 on
    # jmx_exporter ends the name of each counter with _total.
    **{
        (f"kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_{end}", ()): (
            IDLE_NANOSECONDS
        )
        for end in ("count", "count_total")
    },
    ("kafka_network_requestchannel_requestqueuesize", ()): "kafka_request_queue_size",
    (f"{_REQUESTS}_localtimems", ("request", "quantile")): "kafka_request_local_time_ms",
    (f"{_REQUESTS}_requestqueuetimems", ("request", "quantile")): "kafka_request_queue_time_ms",
    (f"{_REQUESTS}_totaltimems", ("request", "quantile")): "kafka_request_total_time_ms",
    **{
        (f"{_REQUESTS}_totaltimems_{end}", ("request",)): "kafka_requests_total"
        for end in ("count", "count_total")
    },
}
"""The name in ``OWN`` of a series by its name and labels; a series with other labels is another."""

_BY_LABELS: Final = {
    (name, frozenset(labels)): (labels, ours) for (name, labels), ours in BY_BEAN.items()
}

_RULES: Final = {
    default_names.Naming.JMX_EXPORTER: Rules.DEFAULT,
    default_names.Naming.AIVEN: Rules.AIVEN,
}

_INTERNAL: Final = "__"


def _prefix(name: str, labels: tuple[str, ...]) -> str:
    if labels == ("topic",):
        return f'{name}{{topic="{_INTERNAL}'
    return f"{name}{{" if labels else f"{name} "


PREFIXES: Final = (
    *(_prefix(name, labels) if labels else name for name, labels in OWN.items()),
    *(_prefix(name, labels) for name, labels in BY_BEAN),
    *default_names.PREFIXES,
)
"""Prefixes of the lines that are parsed; of series per topic, only those of internal topics."""


_OF_A_TOPIC: Final = re.compile(rf'[{{,]topic="(?!{_INTERNAL})')


def is_read(line: str) -> bool:
    """Whether a line has to be parsed: a broker may serve a hundred thousand others."""
    return line.startswith(PREFIXES) and _OF_A_TOPIC.search(line) is None


def key_of(name: str, labels: Mapping[str, str]) -> tuple[Key, Rules] | None:
    """The series in the names of ``OWN``, and the rules that name it so; None if it is not read."""
    own = OWN.get(name)
    if own is not None:
        return (name, *(labels.get(label, "") for label in own)), Rules.OWN
    found = _BY_LABELS.get((name, frozenset(labels)))
    if found is None:
        by_default = default_names.key_of(name, labels)
        return None if by_default is None else (by_default[0], _RULES[by_default[1]])
    theirs, ours = found
    return (ours, *(labels[label] for label in theirs)), Rules.BY_BEAN
