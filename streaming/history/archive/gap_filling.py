"""Fills a gap of the archive: the states of cycles without a snapshot, computed from observations.

A cycle has no snapshot on the bus if the query took it together with the next one, or if the
snapshot was compacted before the archive read it. While the bus keeps the observations, a replay
gives the same state: from the newest states before the gap that all shards have, by the same steps
as the query's. Without the observations of all cycles since then, the gap stays a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from streaming.history.archive.base_states import base_state_of, base_state_rows
from streaming.history.archive.delta import ArchiveTables
from streaming.history.archive.row_layout import hour_of, times_of
from streaming.history.moment import time_text
from streaming.history.stepping import ShardPast, States, stepped
from streaming.history.timeline import timeline_of
from streaming.runtime.errors import UserError
from twin.cluster_step import empty_cluster
from twin.engine.catalog import Catalog
from twin.engine.frames import InvalidFrame
from twin.engine.shard_reports import CLUSTER
from twin.engine.shard_state import ShardState

MOST_REPLICAS_STEPPED: Final = 100_000_000
"""Replicas times cycles: about two minutes of one core. The same gap is always filled, or never, so
that a batch that is repeated gives the same rows."""

Messages = Sequence[tuple[int, bytes]]
"""Shard and message: observations, those of a shard in the order of the bus."""


class NotFilledError(UserError):
    """A gap that stays a gap; one line says why."""


class Filler:
    """Fills gaps of one cluster's archive."""

    def __init__(
        self,
        catalog: Catalog,
        cluster: str,
        shards: int,
        tables: ArchiveTables,
        read: Callable[[int, int], Messages],
        working: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            catalog: the rules that made the states.
            cluster: its name.
            shards: how many there are.
            tables: the archive.
            read: reads the observations from a moment to another.
            working: called after each cycle.
        """
        self._catalog, self._cluster, self._shards = catalog, cluster, shards
        self._tables, self._read, self._working = tables, read, working

    def archived(self, newest: Mapping[int, int]) -> dict[int, ShardState]:
        """By shard, the state of the newest archived cycle that every shard has.

        Args:
            newest: the newest archived cycle of each shard.

        Raises:
            NotFilledError: no cycle has an archived state of every shard.
            ArchiveError: the archive cannot be read.
        """
        hours, until_ms = sorted({hour_of(each) for each in newest.values()}), max(newest.values())
        of_shard = base_state_rows(self._tables, self._catalog, hours, until_ms, newest)
        times = [
            {at for at in times_of(mine.column("at")).tolist() if at <= newest[n]}
            for n, mine in of_shard.items()
        ]
        if not (common := set.intersection(*times)):
            raise NotFilledError("the archive has no cycle before it with states of all shards")
        states = {}
        for n, mine in of_shard.items():
            begin = base_state_of(mine, max(common))
            catalog = self._catalog.cluster if n == CLUSTER else self._catalog
            try:
                states[n] = begin.state(catalog) if begin is not None else None
            except InvalidFrame as error:
                raise NotFilledError(f"a state in the archive cannot be read: {error}") from None
        return {n: state for n, state in states.items() if state is not None}

    def states(
        self, begins: Mapping[int, ShardState], until_ms: int
    ) -> Iterator[Sequence[ShardState]]:
        """The states after each cycle that follows, up to one.

        Args:
            begins: states of one cycle, by shard. The cluster's own has no other without all
                shards.
            until_ms: the last cycle.

        Raises:
            NotFilledError: the bus does not keep all the observations, or they are too many.
            BusError: the bus cannot be read.
        """
        [begin_ms] = {state.observed_at_ms for state in begins.values()}
        of_shards = begins.keys() - {CLUSTER}
        if not of_shards:
            raise NotFilledError("the states of some shards are missing")
        messages = self._read(begin_ms, until_ms)
        timeline = timeline_of(messages, self._cluster, self._shards, self._catalog.observations)
        place = {cycle.at_ms: n for n, cycle in enumerate(timeline.cycles)}
        first, last = place.get(begin_ms), place.get(until_ms)
        if first is None or last is None or not of_shards <= timeline.cycles[first].whole_shards:
            raise NotFilledError(
                f"the bus does not keep the observations from {time_text(begin_ms)} to "
                f"{time_text(until_ms)}: bus.observations_retention_ms says for how long it does"
            )
        replicas = sum(state.partitions * state.slots for state in begins.values())
        if (last - first) * replicas > MOST_REPLICAS_STEPPED:
            raise NotFilledError(f"{last - first} cycles of {replicas} replicas are too many")
        return self._stepped(begins, timeline.between(first + 1, last).messages)

    def _stepped(
        self, begins: Mapping[int, ShardState], cycles: Sequence[Messages]
    ) -> Iterator[Sequence[ShardState]]:
        # The segments that a shard had are in the checkpoint of the twin's query alone.
        shards = {n: ShardPast(begins.get(n), None) for n in range(self._shards)}
        own = begins.get(CLUSTER)
        has_own = own is not None and len(begins) == self._shards + 1
        if own is None or not has_own:
            own = empty_cluster(self._catalog, self._cluster, self._shards)
        states = States(shards, own)
        for messages in cycles:
            mine = [each for each in messages if each[0] in begins]
            states = stepped(self._catalog, self._cluster, states, mine)
            observed = [each.state for each in states.shards.values() if each.state is not None]
            self._working()
            yield [*observed, states.cluster] if has_own else observed
