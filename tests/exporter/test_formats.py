"""OpenMetrics: served to who asks for it, and the same as the plain format but for its headers."""

from __future__ import annotations

import gzip

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from streaming.exporter.metrics.exposition import Exposition, Renderer, at_scrape
from streaming.exporter.metrics.formats import OPEN_METRICS, PLAIN, Format, accepted
from streaming.runtime.config import ExporterConfig
from tests.exporter.test_exporter import NOW_MS, a_busy_store, a_client
from twin.builtin import CATALOG

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""What Prometheus 2.42 sends."""

SINCE_MS = NOW_MS - 60_000


def rendered(**config: object) -> Exposition:
    exporter = ExporterConfig(**config)  # type: ignore[arg-type]
    return Renderer(CATALOG, "c", exporter, since_ms=SINCE_MS).render(a_busy_store().view)


def text(exposition: Exposition, as_: Format) -> str:
    first = at_scrape("c", exposition, NOW_MS + 1_000, text=as_)
    return b"".join([*first, *exposition.blocks_in(as_)]).decode()


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (PROMETHEUS, OPEN_METRICS),
        ("application/openmetrics-text", OPEN_METRICS),
        ("application/OpenMetrics-Text; Version=1.0.0; charset=utf-8", OPEN_METRICS),
        ("application/openmetrics-text;version=0.0.1", PLAIN),
        ("application/openmetrics-text;version=2.0.0,text/plain;q=0.5", PLAIN),
        ("application/openmetrics-text;version=1.0.0;q=0", PLAIN),
        ("text/plain;version=0.0.4", PLAIN),
        ("text/html,*/*;q=0.8", PLAIN),
        ("", PLAIN),
        (";;,,", PLAIN),
    ],
)
def test_the_header_accept_says_which(accept: str, expected: Format):
    assert accepted(accept) is expected


@pytest.mark.parametrize("config", [{}, {"compatibility": "kafka_exporter"}])
def test_a_strict_parser_finds_the_same_samples_in_both(config: dict[str, object]):
    exposition = rendered(**config)
    plain = {
        (sample.name, frozenset(sample.labels.items()), repr(sample.value))
        for family in text_string_to_metric_families(text(exposition, PLAIN))
        for sample in family.samples
    }
    strict = [*open_metrics_families(text(exposition, OPEN_METRICS))]
    found = {
        (sample.name, frozenset(sample.labels.items()), repr(sample.value))
        for family in strict
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert found == plain
    helps = {f.name: (f.documentation, f.type) for f in strict}
    assert helps == {
        f.name: (f.documentation, f.type)
        for f in text_string_to_metric_families(text(exposition, PLAIN))
    }


def test_counters_of_the_exporter_say_since_when_they_count_and_others_do_not():
    exposition = rendered()
    created = {
        sample.name: sample.value
        for family in open_metrics_families(text(exposition, OPEN_METRICS))
        for sample in family.samples
        if sample.name.endswith("_created")
    }
    assert created["kafka_twin_exporter_snapshots_read_created"] == SINCE_MS / 1_000
    assert created["kafka_twin_event_stream_gaps_created"] == SINCE_MS / 1_000
    assert "kafka_twin_predictions_created" not in created  # counted by the query
    assert "_created" not in text(exposition, PLAIN)


def test_who_asks_for_it_gets_it_plain_or_zipped():
    client = a_client(a_busy_store())
    asked = {"accept": PROMETHEUS}
    plain = client.get("/metrics", headers=asked | {"accept-encoding": "identity"})
    assert plain.headers["content-type"] == OPEN_METRICS.content_type
    assert plain.headers["vary"] == "Accept, Accept-Encoding"
    assert plain.text.endswith("\n# EOF\n")
    assert plain.text.count("# EOF") == 1
    with client.stream("GET", "/metrics", headers=asked | {"accept-encoding": "gzip"}) as zipped:
        assert gzip.decompress(b"".join(zipped.iter_raw())) == plain.content
    assert client.get("/metrics").headers["content-type"] == PLAIN.content_type


def test_lines_of_samples_are_shared_by_the_formats_unless_they_say_since_when():
    exposition = rendered()
    own = {id(each) for each in exposition.open_metrics}
    apart = [each for each in exposition.blocks if id(each) not in own]
    lines = [each for each in apart if not each.startswith(b"# HELP")]
    assert all(b"_total{" in each for each in lines)
    assert len(lines) < len(exposition.blocks) / 20
