"""Consumer groups: their states, members and committed offsets, read beside the cycles.

A round lists the groups of every broker, then asks each coordinator for the offsets and the members
of its groups. It has connections of its own: a broker answers the requests of a connection in their
order, so on shared connections a slow coordinator would delay the cycles.

Values that a round could not read are unknown, and a problem says why. A group whose coordinator
did not answer, moved or refused keeps its row, with an error code. A group that is not listed any
longer keeps its row for one more round: while its coordinator moves, no broker lists it.

Always unknown: offsets of share groups (they commit none; Kafka keeps delivery states), members of
streams groups (KIP-1071), and the offsets of open transactions.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import replace
from typing import Final, Self

import numpy as np
from kafka.errors import GroupIdNotFoundError, NotCoordinatorError

from streaming.collector.background import BackgroundSource
from streaming.collector.groups.committed import NO_ANSWER
from streaming.collector.groups.coordinators import Coordinators, RequestLimits
from streaming.collector.groups.group_frames import GroupFrames
from streaming.collector.groups.group_listing import GroupLister, ListedGroup, ListedGroups
from streaming.collector.groups.requests import GROUPS
from streaming.collector.groups.round import Answers, GroupRound, combine
from streaming.collector.problem import Problem, by_error, error_name
from streaming.collector.source import Setup
from streaming.collector.sources.replica_status import ReplicaStatus
from streaming.collector.wire.connections import BrokerConnections, CollectorError
from streaming.runtime.config import Config
from streaming.runtime.deadline import Deadline
from twin.arrays.plain import counted
from twin.declarations.table import NO_BROKER

_GONE: Final = GroupIdNotFoundError.errno
_MOVED: Final = NotCoordinatorError.errno


class GroupSource(BackgroundSource[GroupRound]):
    """Reads groups in the background, as soon as brokers are known."""

    about = (GROUPS,)
    problems: tuple[Problem, ...] = ()  # as of the last round

    @classmethod
    def make(cls, setup: Setup) -> Self | None:
        """Read every ``collector.groups_interval_ms``."""
        return cls(setup.config, setup.client_id) if setup.in_background else None

    def __init__(
        self,
        config: Config,
        client_id: str,
        *,
        background: bool = True,
        limits: RequestLimits | None = None,
    ) -> None:
        section = config.collector
        super().__init__(GROUPS.name, section.groups_interval_ms, background=background)
        self._config = config
        self._include = re.compile(section.include_groups)
        self._exclude = re.compile(section.exclude_groups) if section.exclude_groups else None
        self._connections: BrokerConnections | None = None
        self._lister = GroupLister(client_id)
        self._client_id = client_id
        self._limits = limits or RequestLimits()
        self._coordinators = Coordinators(client_id, self._limits)
        self._listed: Mapping[str, ListedGroup] = {}  # in the last round
        self._doubted: Set[str] = frozenset()  # groups that the last complete listing lacked
        self._read_at_ms = 0

    @property
    def off(self) -> Mapping[str, str]:
        """Groups are switched off."""
        return {} if self.is_on() else {GROUPS.name: "collector.groups_interval_ms is 0"}

    @property
    def answered(self) -> Set[int]:
        """API keys of the requests that were answered."""
        known = self._connections
        return frozenset() if known is None else known.answered.get(None, frozenset())

    def is_on(self) -> bool:
        """The interval is not 0."""
        return self._config.collector.groups_interval_ms > 0

    def read(self, status: ReplicaStatus) -> GroupFrames | None:
        """The newest round; none while the listing is incomplete.

        Offsets of topics that an incomplete listing lacks would count as deleted.
        """
        round_ = self.take() if status.listing.complete else None
        return None if round_ is None else GroupFrames(round_, status.listing.placement)

    def send_again(self, reading: GroupFrames) -> None:
        """Send these groups again: they have not arrived."""
        self.give_back(reading.round)

    def close(self) -> None:
        """End the thread, after its round, and close the connections."""
        super().close()
        if self._connections is not None:
            self._connections.close()

    # ---------------------------------------------------------------- a round

    def read_round(self) -> GroupRound | None:
        """List the groups of every broker, then ask each coordinator."""
        if not self.is_on():
            return None
        try:
            connections = self._connected()
        except CollectorError as error:
            self.problems = (Problem(GROUPS.name, NO_BROKER, "Unreachable", str(error)),)
            return None
        # If the clock was set back, this round must still be newer than the previous one.
        self._read_at_ms = max(int(time.time() * 1_000), self._read_at_ms + 1)
        listing = self._list(connections)
        problems = list(listing.problems)
        answers = self._coordinators.ask(
            connections, listing.groups, self._lister.versions, self._deadline
        )
        moved = {name for name, error in answers.error.items() if error == _MOVED}
        if moved:
            listing = self._ask_again(connections, listing, moved, answers)
        listing = self._with_missing(listing)
        limit = self._config.collector.max_group_offsets
        round_ = combine(self._read_at_ms, listing, answers, limit)
        problems += [*answers.problems, *_problems_of(round_, answers)]
        self.problems = tuple(dict.fromkeys(problems))
        return round_

    def _connected(self) -> BrokerConnections:
        """Connections to the brokers that are known.

        Raises:
            CollectorError: none of the bootstrap addresses can be reached.
        """
        if self._connections is None:
            cluster = self._config.cluster
            self._connections = BrokerConnections(
                cluster.bootstrap, cluster.client, self._config.collector.deadline_ms
            )
        self._connections.update_metadata(self._brokers)
        return self._connections

    def _deadline(self) -> Deadline:
        return Deadline.after_ms(self._config.collector.deadline_ms)

    def _list(self, connections: BrokerConnections) -> ListedGroups:
        """The groups that the configuration includes."""
        brokers = [address.broker for address in self._brokers if address.host]
        listing = self._lister.read(connections, brokers, self._deadline)
        groups = {name: group for name, group in listing.groups.items() if self._is_wanted(name)}
        return replace(listing, groups=groups)

    def _is_wanted(self, name: str) -> bool:
        """``include_groups`` matches the whole name, and ``exclude_groups`` does not."""
        excluded = self._exclude is not None and self._exclude.fullmatch(name) is not None
        return not excluded and self._include.fullmatch(name) is not None

    def _ask_again(
        self,
        connections: BrokerConnections,
        listing: ListedGroups,
        moved: Collection[str],
        answers: Answers,
    ) -> ListedGroups:
        """Ask the new coordinators about groups whose coordinator moved."""
        now = self._list(connections).groups
        groups = {name: now[name] for name in moved if name in now}
        # Use a new object: the other one keeps its requests about all groups.
        once = Coordinators(self._client_id, self._limits)
        answers.update(once.ask(connections, groups, self._lister.versions, self._deadline))
        return replace(listing, groups={**listing.groups, **groups})

    def _with_missing(self, listing: ListedGroups) -> ListedGroups:
        """The listing, with groups of earlier ones as unknown, until two listings lack them."""
        missing = self._listed.keys() - listing.groups.keys()
        gone = missing & self._doubted if listing.complete else frozenset()
        self._doubted = missing - gone if listing.complete else missing & self._doubted
        kept = {n: replace(self._listed[n], coordinator=NO_BROKER) for n in missing - gone}
        self._listed = {**listing.groups, **kept}
        return replace(listing, groups=self._listed)


def _problems_of(round_: GroupRound, answers: Answers) -> Iterator[Problem]:
    """One problem for each error, for any number of groups.

    A deleted group is not a problem. A broker that did not answer has its own problem.
    """
    errors = dict(zip(round_.group, round_.error.tolist(), strict=True))
    silent = {problem.broker for problem in answers.problems}
    named = {n: error_name(code) for n, code in errors.items() if code > 0 and code != _GONE}
    for name, coordinator in zip(round_.group, round_.coordinator.tolist(), strict=True):
        if errors[name] == NO_ANSWER and coordinator not in silent:
            named[name] = "NoAnswer"
    yield from by_error(GROUPS.name, named, "their offsets stay as they were")
    members = {
        name: error_name(each.error)
        for name, each in answers.members().items()
        if each.error not in (0, _GONE) and errors.get(name) == 0
    }
    yield from by_error(GROUPS.name, members, "their members are unknown")
    left_out = int(round_.left_out.sum())
    if left_out:
        groups = int(np.count_nonzero(round_.left_out))
        text = (
            "there are more offsets than collector.max_group_offsets; left out: "
            f"{counted(left_out, 'offset')} of {counted(groups, 'group')}"
        )
        yield Problem(GROUPS.name, NO_BROKER, "TooMany", text)
