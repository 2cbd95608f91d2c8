"""The faults of a soak: each is done, and undone, and ends when its brokers are back.

A fault that takes leaders away first notes what the API predicts for them. One that takes several
brokers away notes what ``whatif lose`` of all of them says, before and once the twin has observed
that they are gone; who leads in the end decides. Without a majority of the three voters Kafka
elects nobody, and the twin must say so.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from kafka import TopicPartition

from streaming.lab.local_cluster import ClusterError
from streaming.lab.scripts.stage import ScriptFailed
from tests.soak.judge import Decides, Note
from tests.soak.setup import PAIR_TOPICS, TOPICS, Soak

SHORT_FREEZE_S: Final = (2.0, 5.0)
"""Below the session timeout of 9 s: nobody is fenced."""

LONG_FREEZE_S: Final = (20.0, 40.0)
AWAY_S: Final = (0.0, 25.0)
"""Time that a killed broker is away: a short one may be over before the controller notices."""

BOTH_AWAY_S: Final = (12.0, 25.0)
FENCED_WITHIN_S: Final = 60.0
SAID_WITHIN_S: Final = 90.0
"""A risk of the cluster or of its brokers opens a minute after the last answer at the latest."""

DOWN_S: Final = (0.5, 4.0)
"""Time after which a broker that starts is killed again; a start takes 4 s."""

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
    with _several(soak, "two killed", first, second) as until_gone:
        soak.cluster.kill(first)
        soak.cluster.kill(second)
        until_gone()
        _wait(soak, BOTH_AWAY_S)
    soak.cluster.start([first])
    _wait(soak, AWAY_S)
    soak.cluster.start()


def rack_killed(soak: Soak) -> None:
    """Every broker of a rack crashes."""
    layout = soak.cluster.layout
    racks = [[b for b in layout.ids if layout.rack(b) == layout.rack(a)] for a in layout.ids]
    rack = soak.rng.choice([brokers for brokers in racks if len(brokers) > 1])
    with _several(soak, f"rack {layout.rack(rack[0])} killed", *rack) as until_gone:
        for broker in rack:
            soak.cluster.kill(broker)
        until_gone()
    soak.cluster.start()


def killed_while_frozen(soak: Soak) -> None:
    """A broker crashes while another stands still."""
    first, second = _victims(soak, 2)
    name = "killed while another is frozen"
    with _several(soak, name, second, first) as until_gone, _frozen(soak, second):
        soak.cluster.kill(first)
        until_gone()
    soak.cluster.start()


def quorum_lost(soak: Soak) -> None:
    """Two of three controllers crash: nobody is elected until one is back, and the twin says so."""
    victims = soak.rng.sample(list(soak.cluster.layout.voters), 2)
    soak.stage.say(f"quorum lost: brokers {victims} killed")
    for broker in victims:
        soak.cluster.kill(broker)
    soak.expect(lambda: _has_risk(soak, "quorum_lost"), SAID_WITHIN_S,
                "the twin does not say that the quorum is lost")  # fmt: skip
    soak.cluster.start([victims[0]])
    _wait(soak, AWAY_S)
    soak.cluster.start()
    soak.expect(lambda: not _has_risk(soak, "quorum_lost"), SAID_WITHIN_S,
                "the twin still says that the quorum is lost")  # fmt: skip


def all_killed(soak: Soak) -> None:
    """Every broker crashes; the twin says that none answers, and goes on."""
    for broker in soak.cluster.layout.ids:
        soak.cluster.kill(broker)
    soak.expect(lambda: _has_risk(soak, "cluster_silent"), SAID_WITHIN_S,
                "the twin does not say that no broker answers")  # fmt: skip
    soak.expect(
        lambda: _at_risk(soak, "leader_silent"), SAID_WITHIN_S, "no partition has a silent leader"
    )
    soak.cluster.start()


def disk_emptied(soak: Soak) -> None:
    """A broker comes back without its logs; what it alone had is lost, and the twin says so."""
    layout = soak.cluster.layout
    broker = soak.rng.choice(list(layout.ids))
    partitions = soak.await_rest()
    alone = [
        (p["topic"], p["partition"])
        for p in partitions
        if [r["broker"] for r in p["replicas"]] == [broker]
        and (p["replicas"][0]["log_end_offset"] or 0) > 0
    ]
    with _noted(soak, "disk emptied", broker):
        _term(soak, broker)
        for disk in layout.disks(broker):
            for log in disk.iterdir():
                if log.is_dir() and log.name != "__cluster_metadata-0":
                    shutil.rmtree(log)
        soak.cluster.start()
    for topic, number in alone:
        soak.expect(
            lambda topic=topic, number=number: _has_lost(soak, topic, number),
            SAID_WITHIN_S,
            f"{topic}-{number} has lost its records, and the twin does not say so",
        )


def restarts_cut_short(soak: Soak) -> None:
    """Brokers are restarted one after the other, and killed again while they start."""
    brokers = list(soak.cluster.layout.ids)
    for broker in soak.rng.sample(brokers, 2):
        with _noted(soak, "restart cut short", broker):
            _term(soak, broker)
            with ThreadPoolExecutor(1) as starting:
                start = starting.submit(soak.cluster.start, [broker])
                _wait(soak, DOWN_S)
                with suppress(ClusterError):  # it has no process yet
                    soak.cluster.kill(broker)
                with suppress(ClusterError):  # a start that was cut short
                    start.result()
            soak.cluster.start()


def frozen_again(soak: Soak) -> None:
    """A broker stands still until it is fenced, and again while it comes back."""
    [broker] = _victims(soak, 1)
    with _noted(soak, "frozen", broker), _frozen(soak, broker):
        _wait(soak, LONG_FREEZE_S)
    _wait(soak, DOWN_S)
    with _frozen(soak, broker):
        _wait(soak, LONG_FREEZE_S)


def elected_unclean(soak: Soak) -> None:
    """The brokers of a pair are lost one after the other; an operator elects who returns first."""
    first, second = soak.rng.sample(soak.pair, 2)
    with _noted(soak, "first of a pair killed", first):
        soak.cluster.kill(first)
        _until_lost(soak, first)
    with _noted(soak, "second of a pair killed", second, at_rest=False):
        soak.cluster.kill(second)
        _until_lost(soak, second)
    soak.cluster.start([first])
    offline = soak.stage.until(
        lambda: [p for p in _own(soak.partitions()) if p["leader"] < 0 and _has(p, first)],
        FENCED_WITHIN_S,
        "no partition is offline",
    )
    _elect(soak, _UNCLEAN, offline)
    _wait(soak, SHORT_FREEZE_S)
    soak.cluster.start()


_ONE_AWAY: Final[tuple[Callable[[Soak], None], ...]] = (
    killed, killed, killed, shut_down, shut_down, short_freeze, short_freeze, long_freeze,
    long_freeze, frozen_again, restarts_cut_short, rolling_restart, disk_emptied, reassigned,
    reassigned, reassigned, preferred_elected, preferred_elected, preferred_elected,
)  # fmt: skip
_TWO_AWAY: Final = (two_killed, rack_killed, killed_while_frozen, elected_unclean)
_ALL_AWAY: Final = (quorum_lost, all_killed)


def deck(brokers: int) -> tuple[Callable[[Soak], None], ...]:
    """How often each fault comes before all have come.

    Losses of several brokers are rare: what the first one changes is often unseen when the second
    one happens. Three brokers cannot lose two and keep their quorum.
    """
    return (*_ONE_AWAY, *(_TWO_AWAY if brokers > 3 else ()), *_ALL_AWAY)


SEVERAL_AWAY: Final = frozenset((two_killed, rack_killed, killed_while_frozen, *_ALL_AWAY))
"""Faults in which a broker is lost before the loss of another one is over."""


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


@contextmanager
def _several(soak: Soak, fault: str, *brokers: int) -> Iterator[Callable[[], None]]:
    """Note who leads once all those brokers are lost, before and once their loss is observed.

    The block gets a function that waits until they lead nothing, which is when that is decided.
    """
    soak.await_rest()
    notes = [_lost_together(soak, fault, brokers)]
    soak.stage.say(f"{fault}: brokers {brokers}, which led {len(notes[0].predicted)} partitions")

    def until_gone() -> None:
        soak.stage.until(lambda: _are_silent(soak, brokers), FENCED_WITHIN_S,
                         f"the twin does not notice that brokers {brokers} are lost")  # fmt: skip
        notes.append(_lost_together(soak, f"{fault}, once observed", brokers))
        for broker in brokers:
            _until_lost(soak, broker)
        to_ms = time.time_ns() // 1_000_000
        soak.notes.extend(replace(note, to_ms=to_ms) for note in notes)

    yield until_gone


def _lost_together(soak: Soak, fault: str, brokers: Collection[int]) -> Note:
    """The answer of ``whatif lose`` about all that those brokers lead now."""
    query = "&".join(f"broker={broker}" for broker in brokers)
    answer = soak.stage.until(
        lambda: soak.stage.api(f"whatif/lose?limit=1000&{query}"), FENCED_WITHIN_S, "no answer"
    )
    led = {
        (p["topic"], p["partition"]): p["next_leaders"]["kafka"]["leader"]
        for p in answer["partitions"]
        if p["leader"] in brokers
    }
    now_ms = time.time_ns() // 1_000_000
    return Note(fault, dict.fromkeys(led, now_ms), led, now_ms, decides=Decides.LAST)


def _are_silent(soak: Soak, brokers: Collection[int]) -> bool:
    answer = soak.stage.api("brokers") or {"brokers": []}
    away = {b["broker"] for b in answer["brokers"] if not b["answered"] or b["fenced"]}
    return away.issuperset(brokers)


def _has_risk(soak: Soak, risk: str) -> bool:
    """A risk of the cluster is open."""
    summary = soak.stage.api("summary")
    return bool(summary and summary["cluster_risks"][risk]["open"])


def _at_risk(soak: Soak, risk: str) -> bool:
    answer = soak.stage.api(f"partitions?risk={risk}&limit=1")
    return bool(answer and answer["total"])


def _has_lost(soak: Soak, topic: str, number: int) -> bool:
    return bool(soak.stage.partition(topic, number).get("records_lost"))


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
        FENCED_WITHIN_S,
        f"broker {broker} still leads partitions",
    )


def _elect(soak: Soak, kind: int, partitions: Sequence[dict[str, Any]]) -> None:
    chosen: dict[str, list[int]] = {}
    for p in partitions:
        chosen.setdefault(p["topic"], []).append(p["partition"])
    with soak.admin() as admin:
        admin.elect_leaders(kind, chosen, raise_errors=False)


def _own(partitions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [p for p in partitions if p["topic"] in TOPICS.keys() | PAIR_TOPICS.keys()]


def _has(partition: dict[str, Any], broker: int) -> bool:
    return any(replica["broker"] == broker for replica in partition["replicas"])
