"""A proposal that is switched off is gone: from the state, /metrics, the API, and from the work."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from streaming.bus.view import SnapshotStore
from streaming.cli.whatif import print_answer
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.lab.screen import draw
from streaming.questions.answer import WhatIfError
from streaming.runtime.config import Config, ExporterConfig
from streaming.runtime.configuration.loading import load
from streaming.runtime.plugins import catalog_of
from tests.asking import answered
from tests.builders import (
    NOW_MS,
    Fetch,
    Log,
    Moved,
    Partition,
    configs_frame,
    fetches_frame,
    isr_changes_frame,
)
from tests.cycles import cycle_frames
from twin.declarations.table import Table
from twin.engine import codec
from twin.engine.catalog import Catalog
from twin.engine.shard_state import ShardState
from twin.proposals import PROPOSALS
from twin.step import step

MIB = 1 << 20


def configured(**proposals: bool) -> Config:
    return load(environment={f"KAFKA_TWIN_PROPOSALS_{k}".upper(): str(v).lower()
                             for k, v in proposals.items()})  # fmt: skip


WITHOUT: dict[str, Catalog] = {
    "kip1303": catalog_of(configured(kip1303=False)),
    "kip501": catalog_of(configured(kip501=False)),
    "both": catalog_of(configured(kip1303=False, kip501=False)),
}
ALL = catalog_of(Config())


def gone(switched_off: str) -> list[Any]:
    """The modules of what is switched off."""
    names = PROPOSALS if switched_off == "both" else [switched_off]
    return [module for name in names for module in PROPOSALS[name]]


def tables_of(modules: list[Any]) -> set[type[Table]]:
    """The tables that modules declare."""
    return {
        value for module in modules for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Table)
        and value.__module__ == module.__name__
    }  # fmt: skip


def stepped(catalog: Catalog) -> ShardState:
    """Two cycles with a cold leader, an ISR that shrinks, and followers' fetches."""
    small, large = Log(local_start=1, size_bytes=10), Log(size_bytes=2 * MIB)
    cold = Partition("cold", logs={1: small, 2: small}, log=large)
    state = ShardState.empty(catalog, "c", 0, 1)
    for at_ms, isr in ((NOW_MS - 5_000, (1, 2, 3)), (NOW_MS, (1, 3))):
        part = Partition("shrinks", isr=isr, log=large)
        left = Moved(at_ms, part=part, caught_up_ms=at_ms - 3_000)
        frames = [
            *cycle_frames([cold, part], at_ms),
            configs_frame({"cold": {"remote_storage": 1}}, at_ms, eligible_local_log_bytes=MIB,
                          min_insync_replicas=2),
            fetches_frame([Fetch(at_ms - 3_100, part=part)], at_ms),
            *([isr_changes_frame([left], at_ms)] if len(isr) == 2 else []),
        ]  # fmt: skip
        state, _ = step(state, frames, at_ms)
    return state


def served(state: ShardState) -> tuple[str, TestClient]:
    """/metrics, and a client of the API."""
    catalog = state.catalog
    store = SnapshotStore(catalog, "c", 1)
    store.take_snapshot(b"c/0", codec.encode(state))
    exposition = Renderer(catalog, "c", ExporterConfig()).render(store.publish())
    app = application(ViewSource(catalog, "c", lambda: exposition, lambda: NOW_MS))
    return b"".join(exposition.blocks).decode(), TestClient(app)


@pytest.mark.parametrize("switched_off", WITHOUT)
def test_its_tables_are_not_in_the_state(switched_off: str) -> None:
    theirs, catalog = tables_of(gone(switched_off)), WITHOUT[switched_off]
    assert theirs & {*ALL.stored}
    assert not theirs & {*catalog.stored, *catalog.on_demand, *catalog.remembered}
    state = stepped(catalog)
    assert not theirs & {*state.tables, *state.before}
    every = stepped(ALL)
    whole = codec.decode(codec.encode(every), catalog)
    # Nothing is encoded of a table without rows.
    names = {table.kind for table in theirs & {*ALL.stored} if every[table].nbytes()}
    names |= {
        f"before.{table.kind}"
        for table in theirs & {*ALL.remembered}
        if every.before[table].nbytes()
    }
    assert {*whole.discarded} == {f"{name}: this version does not have it" for name in names}
    for table in catalog.stored:
        pairs = zip(whole.state[table].values(), state[table].values(), strict=True)
        for mine, theirs_ in pairs:
            np.testing.assert_array_equal(mine, theirs_, f"{table.kind}: others do not change")


@pytest.mark.parametrize("switched_off", WITHOUT)
def test_nothing_of_it_runs_in_a_step_nor_in_a_scrape(switched_off: str) -> None:
    modules = {module.__name__ for module in gone(switched_off)}
    assert modules <= modules_that_run(lambda: served(stepped(ALL)))
    assert not modules & modules_that_run(lambda: served(stepped(WITHOUT[switched_off])))


def modules_that_run(work: Callable[[], object]) -> set[str]:
    """Names of all modules of which a function is called meanwhile."""
    names: set[str] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            names.add(frame.f_globals.get("__name__", ""))

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return names


@pytest.mark.parametrize("switched_off", WITHOUT)
def test_its_metrics_and_label_values_are_not_served(switched_off: str) -> None:
    catalog = WITHOUT[switched_off]
    (whole, _), (text, _) = served(stepped(ALL)), served(stepped(catalog))
    names = {m.series_name for m in ALL.metrics} - {m.series_name for m in catalog.metrics}
    assert names
    assert any(f"# HELP {name} " in whole for name in names)
    assert not [name for name in names if name in text]
    of_kip1303 = [line for line in text.splitlines() if 'rule="kip1303"' in line]
    assert bool(of_kip1303) == (switched_off == "kip501")
    assert 'kafka_twin_partition_next_leader{cluster="c",topic="cold",partition="0",' in text


FIELDS = {
    "kip1303": {"next_leaders.kip1303", "standing.kip1303", "kip1303", "eligible_kip1303"},
    "kip501": {
        "next_leaders.kip501",
        "standing.kip501",
        "handover_kip501",
        "kip501",
        "kip501_ping_pong",
        "in_sync_kip501",
    },
}
FIELDS["both"] = FIELDS["kip1303"] | FIELDS["kip501"]


@pytest.mark.parametrize("switched_off", WITHOUT)
def test_its_fields_are_not_in_the_api(switched_off: str) -> None:
    def fields(catalog: Catalog) -> set[str]:
        _, client = served(stepped(catalog))
        one = client.get("/api/v1/partitions/shrinks/0").json()
        by_rule = {f"{name}.{rule}" for name in ("next_leaders", "standing") for rule in one[name]}
        return {*one, *one["replicas"][0], *by_rule}

    assert fields(ALL) - fields(WITHOUT[switched_off]) == FIELDS[switched_off]


@pytest.mark.parametrize("switched_off", WITHOUT)
def test_the_screen_of_the_demo_still_shows_everything_else(switched_off: str) -> None:
    _, client = served(stepped(WITHOUT[switched_off]))
    text = draw(
        client.get("/api/v1/summary").json(), client.get("/api/v1/brokers").json()["brokers"],
        client.get("/api/v1/partitions?at_risk=true").json(), "http://e", None, "home", "b:1", "t",
    )  # fmt: skip
    assert "cold-0" in text
    assert "leader cold" in text
    assert ("under KIP-1303" in text) == (switched_off == "kip501")


@pytest.mark.parametrize("switched_off", WITHOUT)
def test_questions_are_answered_without_it(switched_off: str) -> None:
    states = [stepped(WITHOUT[switched_off])]
    losses = answered("lose", *states, broker=[1])
    followed_by = {
        row["topic"]: row["next_leaders"]["kafka"]["leader"] for row in losses.data["partitions"]
    }
    assert followed_by == {"cold": 2, "shrinks": 3}
    with_kip1303 = switched_off == "kip501"
    assert ("next (KIP-1303)" in losses.header) == with_kip1303
    assert ("kip1303" in losses.data["partitions"][0]["next_leaders"]) == with_kip1303
    for answer in (
        losses,
        answered("bootstrap", *states, broker=2, rate=MIB),
        answered("retention", *states, local_ms=60_000),
    ):
        out = io.StringIO()
        print_answer(answer, True, out)
        assert json.loads(out.getvalue())


def test_a_question_on_kip1303_without_it_is_one_clear_line() -> None:
    states = [stepped(WITHOUT["kip1303"])]
    with pytest.raises(WhatIfError, match=r"^proposals\.kip1303 is off"):
        answered("threshold", *states, bytes=MIB)
    assert answered("threshold", stepped(WITHOUT["kip501"]), bytes=MIB).rows
