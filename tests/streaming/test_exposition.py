"""Formats in which programs serve metrics about themselves, and native histograms in Prometheus."""

from __future__ import annotations

import json
import math
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from streaming.lab.local_cluster import free_base_port
from streaming.runtime.exposition.native import (
    MOST_INDEX,
    SCHEMA,
    NativeHistogram,
    index_of,
)
from streaming.runtime.exposition.protobuf import CONTENT_TYPE
from streaming.runtime.program_metrics import ProgramMetrics, served
from tests.examples import examples
from tests.streaming.test_program_metrics import DECLARED, DONE, DONE_BY, SIZE, SPENT
from tests.waiting import until
from tests.web import get

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
NATIVE = (  # Prometheus 2.42, told to scrape native histograms
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
    "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
DURATIONS_S = (0.0, 0.002, 0.3, 0.3, 0.31, 7.0)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A program that has counted something."""
    metrics, found = ProgramMetrics("c", DECLARED), free_base_port(span=1)
    metrics.add(DONE, 3)
    metrics.add(DONE_BY, 1, "ünknown")
    metrics.set(SIZE, 4.5)
    for each in DURATIONS_S:
        metrics.observe(SPENT, each)
    with served(metrics.registry, "127.0.0.1", found, "x"):
        yield found


def asked(port: int, accept: str) -> httpx2.Response:
    return httpx2.get(f"http://127.0.0.1:{port}/metrics", headers={"accept": accept})


def test_open_metrics_says_since_when_a_counter_counts(port: int):
    answer = asked(port, OPEN_METRICS)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = {f.name: f for f in text_string_to_metric_families(answer.text)}
    samples = {s.name: s.value for s in families["kafka_twin_test_done"].samples}
    assert samples["kafka_twin_test_done_total"] == 3
    assert time.time() - 3_600 < samples["kafka_twin_test_done_created"] <= time.time()


def test_the_plain_format_does_not(port: int):
    answer = asked(port, "text/plain;version=0.0.4")
    assert "_created" not in answer.text
    named = httpx2.get(f"http://127.0.0.1:{port}/metrics?name[]=kafka_twin_test_size_bytes")
    assert [line for line in named.text.splitlines() if line[0] != "#"] == [
        'kafka_twin_test_size_bytes{cluster="c"} 4.5'
    ]


# ---------------------------------------------------------------- protobuf


Fields = dict[int, list[object]]


def varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte, at = data[at], at + 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number, at


def fields(data: bytes) -> Fields:
    """The fields of a message by number."""
    found: Fields = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value: object
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            [value] = struct.unpack_from("<d", data, at)
            at += 8
        else:
            assert key & 7 == 2
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def families(data: bytes) -> dict[str, Fields]:
    found, at = {}, 0
    while at < len(data):
        size, at = varint(data, at)
        family = fields(data[at : at + size])
        [name] = family[1]
        assert isinstance(name, bytes)
        found[name.decode()] = family
        at += size
    return found


def signed(number: object) -> int:
    assert isinstance(number, int)
    return number >> 1 ^ -(number & 1)


def part(value: object) -> Fields:
    assert isinstance(value, bytes)
    return fields(value)


def test_protobuf_has_what_the_text_has_and_a_native_histogram(port: int):
    answer = asked(port, NATIVE)
    assert answer.headers["content-type"] == CONTENT_TYPE
    found = families(answer.content)
    assert set(found) == {metric.series_name for metric in DECLARED}
    [by_who] = found["kafka_twin_test_done_by_total"][4]
    labels = {part(each)[1][0]: part(each)[2][0] for each in part(by_who)[1]}
    assert labels == {b"cluster": b"c", b"who": "ünknown".encode()}
    [counter] = part(by_who)[3]
    assert part(counter)[1] == [1.0]
    [size] = found["kafka_twin_test_size_bytes"][4]
    assert part(part(size)[2][0])[1] == [4.5]
    [spent] = found["kafka_twin_test_spent_seconds"][4]
    histogram = part(part(spent)[7][0])
    assert histogram[1] == [len(DURATIONS_S)]
    assert histogram[2] == [pytest.approx(sum(DURATIONS_S))]
    assert [signed(each) for each in histogram[5]] == [SCHEMA]
    assert histogram[7] == [1]  # of no time
    bounds, index, count = {}, 0, 0
    deltas = iter(signed(each) for each in histogram[13])
    for span in histogram[12]:
        index += signed(part(span)[1][0])
        length = part(span)[2][0]
        assert isinstance(length, int)
        for _ in range(length):
            count += next(deltas)
            bounds[2 ** (index / 2**SCHEMA)] = count
            index += 1
    assert sum(bounds.values()) == len(DURATIONS_S) - 1
    for each in DURATIONS_S[1:]:
        assert any(bound / 2 ** (1 / 8) < each <= bound * (1 + 1e-9) for bound in bounds), each


@examples(200)
@given(st.floats(1e-6, 1e6))
def test_a_duration_is_in_the_bucket_whose_bounds_it_is_between(seconds: float):
    index = index_of(seconds)
    assert index <= MOST_INDEX
    assert seconds <= 2 ** (index / 2**SCHEMA) * (1 + 1e-9)
    assert index == -160 or seconds > 2 ** ((index - 1) / 2**SCHEMA) * (1 - 1e-9)


@examples(100)
@given(st.lists(st.floats(0, 1e9), max_size=30))
def test_whatever_is_counted_is_in_some_bucket(durations: list[float]):
    histogram = NativeHistogram()
    for each in durations:
        histogram.observe(each)
    zeros, spans, deltas = histogram.buckets()
    counts = [sum(deltas[: n + 1]) for n in range(len(deltas))]
    assert all(count > 0 for count in counts)
    assert sum(counts) + zeros == len(durations)
    assert sum(length for _, length in spans) == len(deltas)
    assert all(distance > 0 for distance, _ in spans[1:])


# ---------------------------------------------------------------- Prometheus itself


needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is not on the PATH"
)


@needs_prometheus
def test_prometheus_takes_native_histograms_and_answers_quantiles(port: int, tmp_path: Path):
    (tmp_path / "prometheus.yml").write_text(
        f"scrape_configs:\n  - job_name: twin\n    scrape_interval: 1s\n    static_configs:\n"
        f"      - targets: ['127.0.0.1:{port}']\n"
    )
    web = free_base_port(span=1)
    with subprocess.Popen(
        ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
         "--enable-feature=native-histograms", f"--web.listen-address=127.0.0.1:{web}"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as prometheus:  # fmt: skip
        try:
            query = quote("histogram_quantile(0.5, kafka_twin_test_spent_seconds)")
            url = f"http://127.0.0.1:{web}/api/v1/query?query={query}"

            def answered() -> list[dict[str, object]]:
                status, body = get(url)
                return json.loads(body)["data"]["result"] if status == 200 else []

            [result] = until(answered, 60, "Prometheus has no native histogram")
            assert result["metric"]["cluster"] == "c"  # type: ignore[index]
            median = float(result["value"][1])  # type: ignore[index]
        finally:
            prometheus.terminate()
    assert math.isclose(median, 0.3, rel_tol=0.1)
