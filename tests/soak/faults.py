"""The faults of a soak: each is done, and undone, and ends when its brokers are back.

A fault that takes leaders away first notes what the API predicts for them. At most one of the
three voters is away at a time; without a majority of them Kafka elects nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kafka import TopicPartition

from streaming.lab.cluster import ClusterError
from streaming.lab.scenarios import ScriptFailed
from tests.soak.judge import Note
from tests.soak.setup import BROKERS_ONLY, TOPICS, Soak

SHORT_FREEZE_S: Final = (2.0, 5.0)
"""Below the session timeout of 9 s: nobody is fenced."""

LONG_FREEZE_S: Final = (20.0, 40.0)
AWAY_S: Final = (0.0, 25.0)
"""Time that a killed broker is away: a short one may be over before the controller notices."""

BOTH_AWAY_S: Final = (12.0, 25.0)
FENCED_WITHIN_S: Final = 60.0

_PREFERRED, _UNCLEAN = 0, 1
REASSIGNED: Final = 3


def killed(soak: Soak) -> None:
    """A broker crashes and comes back."""
    [broker] = _victims(soak, 1)
    with _noted(soak, "killed", broker):
        soak.cluster.kill(broker)
        _wait(soak, AWAY_S)
        soak.cluster.start()


def shut_down(soak: Soak) -> None:
    """A broker is shut down in good order and comes back."""
    [broker] = _victims(soak, 1)
    with _noted(soak, "shut down", broker):
        _term(soak, broker)
        _wait(soak, AWAY_S)
        soak.cluster.start()


def short_freeze(soak: Soak) -> None:
    """A broker stands still, for less than its session."""
    [broker] = _victims(soak, 1)
    with _frozen(soak, broker):
        _wait(soak, SHORT_FREEZE_S)


def long_freeze(soak: Soak) -> None:
    """A broker stands still until it is fenced, and goes on."""
    [broker] = _victims(soak, 1)
    with _noted(soak, "frozen", broker), _frozen(soak, broker):
        _wait(soak, LONG_FREEZE_S)


def rolling_restart(soak: Soak) -> None:
    """Every broker is restarted, each once the one before is in sync."""
    brokers = list(soak.cluster.layout.ids)
    for broker in soak.rng.sample(brokers, len(brokers)):
        with _noted(soak, "rolling restart", broker):
            _term(soak, broker)
            soak.cluster.start()


def reassigned(soak: Soak) -> None:
    """Some partitions move to other brokers, in any order."""
    chosen = soak.rng.sample(_own(soak.await_rest()), REASSIGNED)
    brokers = list(soak.cluster.layout.ids)
    targets = {
        TopicPartition(p["topic"], p["partition"]): soak.rng.sample(brokers, len(p["replicas"]))
        for p in chosen
    }
    with soak.admin() as admin:
        admin.alter_partition_reassignments(targets)


def preferred_elected(soak: Soak) -> None:
    """Leaders go back to the first replicas, of some topics or of all."""
    partitions = soak.await_rest()
    names = sorted({p["topic"] for p in partitions})
    topics = soak.rng.sample(names, soak.rng.randint(len(names) // 2, len(names)))
    _elect(soak, _PREFERRED, [p for p in partitions if p["topic"] in topics])


def two_killed(soak: Soak) -> None:
    """Two brokers crash at once; one comes back after the other."""
    first, second = _victims(soak, 2)
    with _noted(soak, "two killed", first, second):
        soak.cluster.kill(first)
        soak.cluster.kill(second)
        _wait(soak, BOTH_AWAY_S)
        soak.cluster.start([first])
        _wait(soak, AWAY_S)
        soak.cluster.start()


def killed_while_frozen(soak: Soak) -> None:
    """A broker crashes while another stands still."""
    first, second = _victims(soak, 2)
    with _noted(soak, "killed while another is frozen", first, second):
        with _frozen(soak, second):
            soak.cluster.kill(first)
            _wait(soak, BOTH_AWAY_S)
        soak.cluster.start()


def elected_unclean(soak: Soak) -> None:
    """The brokers of a pair are lost one after the other; an operator elects who returns first."""
    first, second = soak.rng.sample(BROKERS_ONLY, 2)
    with _noted(soak, "first of a pair killed", first):
        soak.cluster.kill(first)
        _until_lost(soak, first)
    with _noted(soak, "second of a pair killed", second, at_rest=False):
        soak.cluster.kill(second)
        _until_lost(soak, second)
    soak.cluster.start([first])
    offline = soak.stage.until(
        lambda: [p for p in _own(soak.partitions()) if p["leader"] < 0 and _has(p, first)],
        FENCED_WITHIN_S, "no partition is offline",
    )  # fmt: skip
    _elect(soak, _UNCLEAN, offline)
    _wait(soak, SHORT_FREEZE_S)
    soak.cluster.start()


DECK: Final[tuple[Callable[[Soak], None], ...]] = (
    killed, killed, killed, shut_down, shut_down, short_freeze, short_freeze, long_freeze,
    long_freeze, rolling_restart, reassigned, reassigned, reassigned, preferred_elected,
    preferred_elected, preferred_elected, two_killed, killed_while_frozen, elected_unclean,
)  # fmt: skip
"""How often each comes before all have come. Losses of two are rare: what the first one changes is
often unseen when the second one happens."""


def _victims(soak: Soak, count: int) -> list[int]:
    """Brokers to lose, of which one at most is a voter."""
    while True:
        brokers = soak.rng.sample(list(soak.cluster.layout.ids), count)
        if sum(broker in soak.cluster.layout.voters for broker in brokers) <= 1:
            return brokers


@contextmanager
def _noted(soak: Soak, fault: str, *brokers: int, at_rest: bool = True) -> Iterator[None]:
    """Note what the API predicts for all that the brokers lead; what is done follows as the block.

    Args:
        at_rest: wait until every replica is in sync; not if others are lost already.
    """
    partitions = soak.await_rest() if at_rest else soak.partitions()
    led = {(p["topic"], p["partition"]): p for p in partitions if p["leader"] in brokers}
    named = " and ".join(map(str, brokers))
    soak.stage.say(f"{fault}: broker {named}, which led {len(led)} partitions")
    yield
    soak.notes.append(
        Note(
            fault,
            {key: p["observed_at_ms"] for key, p in led.items()},
            {key: p["next_leaders"]["kafka"]["leader"] for key, p in led.items()},
            time.time_ns() // 1_000_000,
        )
    )


def _term(soak: Soak, broker: int) -> None:
    try:
        soak.cluster.term(broker)
    except ClusterError:  # on a busy machine it may take too long
        soak.cluster.kill(broker)


@contextmanager
def _frozen(soak: Soak, broker: int) -> Iterator[None]:
    """A broker stands still for the block; it goes on also if the soak ends meanwhile."""
    soak.cluster.pause(broker)
    try:
        yield
    finally:
        soak.cluster.resume(broker)


def _wait(soak: Soak, seconds: tuple[float, float]) -> None:
    if soak.stage.stop.wait(soak.rng.uniform(*seconds)):
        raise ScriptFailed("the soak was ended")


def _until_lost(soak: Soak, broker: int) -> None:
    """Wait until the twin has observed that the broker leads nothing."""
    soak.stage.until(
        lambda: (led := soak.partitions()) and all(p["leader"] != broker for p in led),
        FENCED_WITHIN_S, f"broker {broker} still leads partitions",
    )  # fmt: skip


def _elect(soak: Soak, kind: int, partitions: Sequence[dict[str, Any]]) -> None:
    chosen: dict[str, list[int]] = {}
    for p in partitions:
        chosen.setdefault(p["topic"], []).append(p["partition"])
    with soak.admin() as admin:
        admin.elect_leaders(kind, chosen, raise_errors=False)


def _own(partitions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [p for p in partitions if p["topic"] in TOPICS]


def _has(partition: dict[str, Any], broker: int) -> bool:
    return any(replica["broker"] == broker for replica in partition["replicas"])
