"""Answers are compressed if they are large and the client accepts it."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.exporter.answers import GZIP_FROM_BYTES, DeflatedOnce
from tests.builders import Partition, a_state
from tests.exporter.test_exporter import a_client, a_store

CLIENT = a_client(a_store(a_state(*(Partition("t", number) for number in range(50)))))


def test_a_large_answer_is_zipped_for_whoever_takes_it_so():
    path = "/api/v1/partitions"
    plain = CLIENT.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with CLIENT.stream("GET", path, headers={"Accept-Encoding": "br, gzip"}) as answer:
        sent = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["content-length"] == str(len(sent))
        assert answer.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert len(sent) < len(plain.content) / 5
    assert gzip.decompress(sent).startswith(b'{"total":50')


@pytest.mark.parametrize("path", ["/api/v1/groups", "/api/v1/partitions/none/0", "/healthz"])
def test_a_small_answer_and_one_that_is_no_json_are_sent_as_they_are(path: str):
    answer = CLIENT.get(path, headers={"Accept-Encoding": "gzip"})
    assert len(answer.content) < GZIP_FROM_BYTES
    assert "content-encoding" not in answer.headers


@given(firsts=st.lists(st.binary(max_size=300), min_size=1), parts=st.lists(st.binary()))
def test_parts_that_are_compressed_once_follow_whatever_is_new_in_one_gzip_stream(firsts, parts):
    once = DeflatedOnce()
    for first in firsts:
        reader = zlib.decompressobj(16 + zlib.MAX_WBITS)  # reads one member, as most clients do
        assert reader.decompress(once.gzipped_after(first, parts)) == first + b"".join(parts)
        assert reader.eof
        assert not reader.unused_data
