"""A capsule that is anonymized has no name of the original, anywhere."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.history.capsules.anonymize import anonymized
from streaming.history.capsules.opening import Capsule
from streaming.history.capsules.pseudonyms import LEFT_OUT, OtherNames
from streaming.history.capsules.saving import Recorded, save
from tests.examples import examples
from tests.history.recorded import a_recording, an_event, at
from tests.simulator.shard import rows
from twin.builtin import CATALOG
from twin.engine import frames
from twin.engine.frames import Frame, FrameHeader, InvalidFrame
from twin.tables.state import Brokers, Topics

CYCLES = 3
CLUSTER = "zq-cluster"


def cluster_names(most: int = 12) -> st.SearchStrategy[str]:
    """Names that the twin has no word in common with."""
    return st.from_regex(rf"zq[A-Za-z0-9._\-]{{3,{most}}}", fullmatch=True)


def any_names() -> st.SearchStrategy[str]:
    """Names of groups and the like, which may have any characters."""
    kinds = ("L", "N", "P", "S", "Zs")
    return st.text(st.characters(categories=kinds), min_size=3, max_size=12).map("Zq{}".format)


NAMES = st.fixed_dictionaries(
    {
        "topic-0-0": cluster_names(),
        "topic-0-1": cluster_names(),
        "127.0.0.1": st.from_regex(r"zq[a-z0-9\-]{3,8}\.zq[a-z]{2,4}", fullmatch=True),
        "az-a": cluster_names(),
        "az-b": any_names(),
        "az-c": cluster_names(),
        "group-0": any_names(),
        "group-1": cluster_names(),
        "transaction": any_names(),
        "sim": st.just(CLUSTER),
    }
).filter(lambda names: len({*names.values()}) == len(names))


@cache
def recording() -> Recorded:
    return a_recording(CYCLES, shards=1)


def renamed(names: Mapping[str, str]) -> Recorded:
    """The recording of a cluster with those names, with problems, transactions and sentences."""
    messages = [(shard, with_names(each, names)) for shard, each in recording().messages]
    messages.append((0, frames.join(more_frames(names))))
    topic, group, host = names["topic-0-0"], names["group-0"], names["127.0.0.1"]
    texts = (
        f"is led by 2 of {host}:9092, {host}.",
        f"group {group}, {names['group-1']}: reads ({topic}) of rack {names['az-a']}",
        f"{names['transaction']} in {names['topic-0-1']}-17",
    )
    events = [an_event(CLUSTER, at(1) + n, topic, text) for n, text in enumerate(texts)]
    refused = {
        "id": f"refused/{topic}/0/1", "kind": "observation_refused", "cluster": CLUSTER,
        "at_ms": at(1), "text": f"zq-bus 0:1 was refused: {host}", "reason": "schema",
        "detail": f"zq-unknown {group}", "key": f"{CLUSTER}/0", "topic": "zq-bus",
    }  # fmt: skip
    return replace(
        recording(), cluster=CLUSTER, messages=messages,
        events=[*events, msgspec.json.encode(refused)], own_topics=("zq-bus.observations",),
    )  # fmt: skip


def with_names(message: bytes, names: Mapping[str, str]) -> bytes:
    sent = []
    for frame in frames.decode(message, CATALOG.observations).frames:
        columns = [
            named(name, each, names)
            for name, each in zip(frame.rows.column_names, frame.rows.columns, strict=True)
        ]
        table = pa.table(columns, schema=frame.rows.schema)
        sent.append(frames.encode(Frame(replace(frame.header, cluster=CLUSTER), table)))
    return frames.join(sent)


def named(name: str, column: pa.ChunkedArray, names: Mapping[str, str]) -> pa.Array:
    array = column.combine_chunks()
    if not pa.types.is_dictionary(array.type) or array.type.value_type != pa.string():
        return array
    entries = [other(each, names) for each in array.dictionary.to_pylist()]
    if name != "topic":  # whose dictionary has an entry for each topic id
        entries.append("zq-unused")
    return pa.DictionaryArray.from_arrays(array.indices, pa.array(entries, pa.string()))


def other(name: str, names: Mapping[str, str]) -> str:
    host, colon, port = name.rpartition(":")
    return f"{names[host]}:{port}" if colon else names.get(name, name)


def more_frames(names: Mapping[str, str]) -> Iterator[bytes]:
    kinds = CATALOG.observations
    topic, host = names["topic-0-0"], names["127.0.0.1"]
    header = FrameHeader("problems", CLUSTER, 0, 1, at(CYCLES - 1), CYCLES)
    yield frames.encode(
        Frame(
            header,
            rows(
                kinds["problems"],
                source=["log dirs", f"zq-{host}"],
                broker=[1, 2],
                error=["UnknownTopicOrPartitionError", topic],
                text=[f"{topic} at {host}:9092", "/zq/disk/1 of zq-nobody-knows"],
            ),
        ),
        kinds,
    )
    columns = {
        c.name: [0] if c.dtype.kind in "iu" else [b"" if pa.types.is_binary(c.arrow) else ""]
        for c in kinds["transactions"].columns
    }
    columns |= {"topic": [topic], "topic_id": [bytes(15) + b"\1"]}
    columns |= {"transactional_id": [names["transaction"]]}
    yield frames.encode(
        Frame(replace(header, kind="transactions"), rows(kinds["transactions"], **columns)), kinds
    )
    unknown = replace(header, kind="zq-unknown")
    yield frames.write(unknown, pa.table({"name": ["zq-in-unknown"]}))


def everything_in(file: Path) -> Iterator[bytes]:
    """Every byte of a capsule that could be a name: members, decompressed, and Arrow's tables."""
    yield file.read_bytes()
    with zipfile.ZipFile(file) as whole:
        for info in whole.infolist():
            content = whole.read(info)
            yield from (info.filename.encode(), info.comment, info.extra, content)
            try:
                for metadata, table in frames.streams(content):
                    yield repr(metadata).encode()
                    yield from texts_of(table)
            except InvalidFrame:
                assert info.filename in ("manifest", "index", "events")


def texts_of(table: pa.Table) -> Iterator[bytes]:
    yield repr(table.schema.metadata).encode()
    for column in table.columns:
        array = column.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([])
        if pa.types.is_dictionary(array.type):
            array = array.dictionary
        if array.type == pa.string() or pa.types.is_binary(array.type):
            values = array.to_pylist()
            yield "\n".join(
                v if isinstance(v, str) else v.decode("latin-1") for v in values
            ).encode()
        for buffer in array.buffers():
            yield b"" if buffer is None else buffer.to_pybytes()


@given(names=NAMES)
@examples(30)
def test_no_name_of_the_original_survives(names: dict[str, str]):
    with TemporaryDirectory() as folder:
        file = Path(folder) / "c"
        save(anonymized(renamed(names), CATALOG), CATALOG, at(1), at(CYCLES - 1), file)
        originals = {each.encode() for each in names.values()}
        originals |= {msgspec.json.encode(each)[1:-1] for each in names.values()}
        originals |= {b"zq-unused", b"zq-unknown", b"zq-in-unknown", b"zq-bus", b"zq/disk"}
        for content in everything_in(file):
            survived = [each for each in originals if each in content]
            assert not survived
        with closing(Capsule(file)) as opened:
            assert opened.manifest.anonymized
            assert opened.manifest.left_out == 1
            found = opened.replay.view(at(CYCLES - 1))
            assert found.complete
            assert [each.partitions for each in found.view.states] == [4]
            assert len(opened.events) == 4


def plainly() -> dict[str, str]:
    own = ("topic-0-0", "topic-0-1", "127.0.0.1", "az-a", "az-b", "az-c", "group-0", "group-1")
    return {each: f"zq-{each}" for each in own} | {"transaction": "zq-pay", "sim": CLUSTER}


def opened_events(recorded: Recorded) -> list[dict[str, Any]]:
    return [msgspec.json.decode(each) for each in recorded.events]


def test_a_name_has_the_same_other_name_everywhere(tmp_path: Path):
    recorded = anonymized(renamed(plainly()), CATALOG)
    save(recorded, CATALOG, at(1), at(CYCLES - 1), tmp_path / "c")
    first, group, transaction, refused = opened_events(recorded)
    with closing(Capsule(tmp_path / "c")) as opened:
        found = opened.replay.view(at(CYCLES - 1)).view
        [state] = found.states
    topics = state[Topics].topic.tolist()
    assert first["topic"] in topics
    assert first["text"].startswith(f"{first['topic']}-1 is led by 2 of host-")
    host = state[Brokers].host[0].rpartition(":")[0]
    assert first["text"].endswith(f" of {host}:9092, {host}.")
    assert first["topic"] in group["text"]
    assert "group group-" in group["text"]
    assert transaction["text"].endswith("-17")
    assert refused["text"] == LEFT_OUT
    assert refused["reason"] == "schema"
    assert not {"detail", "key", "topic"} & refused.keys()
    assert found.cluster is not None
    assert found.cluster.cluster == recorded.cluster != CLUSTER


def test_two_capsules_of_one_cluster_have_no_name_in_common():
    both = [anonymized(renamed(plainly()), CATALOG) for _ in range(2)]
    topics = [opened_events(each)[0]["topic"] for each in both]
    assert topics[0] != topics[1]
    assert both[0].cluster != both[1].cluster


def test_topics_that_kafka_names_itself_keep_their_names():
    names = OtherNames()
    assert names.name("topic", "__consumer_offsets") == "__consumer_offsets"
    assert names.name("group", "__consumer_offsets") != "__consumer_offsets"


def test_a_sentence_in_which_a_name_cannot_be_told_from_other_words_is_left_out():
    names = OtherNames()
    names.name("topic", "lead")
    assert names.text("orders-1 has a new leader") == LEFT_OUT
    assert names.text("orders-1 is gone") == "orders-1 is gone"
    names.name("topic", "is")
    assert names.text("this is gone") == f"this {names.name('topic', 'is')} gone"


@pytest.mark.parametrize("kind", sorted(CATALOG.observations))
def test_every_column_that_is_no_number_is_rewritten(kind: str):
    """A name that is in every such column is in none of them then."""
    table = CATALOG.observations[kind]
    columns: dict[str, Any] = {}
    for c in table.columns:
        value = c.arrow.value_type if pa.types.is_dictionary(c.arrow) else c.arrow
        if value == pa.string():
            columns[c.name] = ["zq-name"]
        elif pa.types.is_fixed_size_binary(value):
            columns[c.name] = [b"zq-name-16-bytes"]
        elif pa.types.is_list(value):
            columns[c.name] = pa.array([[1]], c.arrow)
        else:
            columns[c.name] = [False] if value == pa.bool_() else [1]
    message = frames.encode(
        Frame(FrameHeader(kind, CLUSTER, 0, 1, at(0), 1), rows(table, **columns)),
        CATALOG.observations,
    )
    recorded = Recorded(CLUSTER, 1, [(0, message)], [])
    [(_, rewritten)] = anonymized(recorded, CATALOG).messages
    for metadata, table_of in frames.streams(rewritten):
        assert b"zq-" not in repr((metadata, table_of.to_pylist())).encode()
