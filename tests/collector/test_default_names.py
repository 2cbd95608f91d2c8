"""Series in the names of managed services give the signals that our own rules give."""

from __future__ import annotations

import re

import pytest

from streaming.collector.scraping.default_names import BEANS, Naming
from streaming.collector.scraping.metric_names import OWN, STARTED, Rules
from streaming.collector.scraping.signals import served


def lines(naming: Naming, more: str = "") -> str:
    """Each bean that is read, the third with the value 3."""
    texts = []
    for value, bean in enumerate(BEANS, start=1):
        series = next(name for name, of in bean.names() if of is naming)
        labels = {
            label: {"topic": "__x", "request": "FetchFollower"}.get(label, "a")
            for label in bean.labels
        }
        if naming is Naming.JMX_EXPORTER:
            labels = {"name": bean.name, **labels}
        if more:
            labels["host"] = more
        text = ",".join(f'{name}="{label}"' for name, label in labels.items())
        texts.append(f"{series}{{{text}}} {value}.0\n")
    return "".join(texts)


@pytest.mark.parametrize(
    ("naming", "rules"), [(Naming.JMX_EXPORTER, Rules.DEFAULT), (Naming.AIVEN, Rules.AIVEN)]
)
@pytest.mark.parametrize("host", ["", "kafka-1"])
def test_every_series_is_known_by_its_own_name(naming: Naming, rules: Rules, host: str) -> None:
    found = served(lines(naming, host))
    assert found.samples == {
        bean.key(
            {
                "topic": "__x",
                "request": "FetchFollower",
                "delayedOperation": "a",
                "logDirectory": "a",
            }
        ): value
        for value, bean in enumerate(BEANS, start=1)
    }
    assert {key[0] for key in found.samples} == OWN.keys() - {
        STARTED,
        "kafka_request_handlers_idle_nanoseconds_total",
    }
    assert rules in found.rules


def test_lines_as_the_services_document_them() -> None:
    text = """\
kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",} 10.0
kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",topic="orders",} 4.0
kafka_server_BrokerTopicMetrics_Count{name="MessagesInPerSec",} 99.0
kafka_server_BrokerTopicMetrics_BytesOutPerSec_Count{cloud="aws",host="k-1",service="k"} 20.0
kafka_server_BrokerTopicMetrics_BytesOutPerSec_Count{host="k-1",topic="orders"} 8.0
kafka_server_BrokerTopicMetrics_BytesOutPerSec_Count{host="k-1",topic="__consumer_offsets"} 2.0
kafka_server_ReplicaManager_Count{name="IsrShrinksPerSec",} 3.0
kafka_network_RequestMetrics_99thPercentile{name="TotalTimeMs",request="FetchFollower",} 503.0
kafka_network_RequestMetrics_999thPercentile{name="TotalTimeMs",request="FetchFollower",} 600.0
"""
    found = served(text)
    assert found.samples == {
        ("kafka_broker_bytes_in_total",): 10.0,
        ("kafka_broker_bytes_out_total",): 20.0,
        ("kafka_isr_shrinks_total",): 3.0,
        ("kafka_request_total_time_ms", "FetchFollower", "0.99"): 503.0,
    }
    assert found.rules == {Rules.DEFAULT, Rules.AIVEN}


def test_what_is_missing_is_absent_and_not_zero() -> None:
    text = re.sub(r"(?m)^.*IsrShrinks.*\n", "", lines(Naming.JMX_EXPORTER))
    assert ("kafka_isr_shrinks_total",) not in served(text).samples
