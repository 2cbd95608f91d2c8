"""Seeded questions for the oracle, and the same as columns for the twin.

Most describe a partition as the controller may hold it and one thing that happens to it. The rest
are ``wild``: they break what the controller itself guarantees (a leader outside the ISR, an ELR
that overlaps it), to find out where the rule relies on that.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Case = dict[str, Any]

NOBODY = -1
BROKERS = range(9)  # 0 is a broker too
MOST_REPLICAS = 6
WILD_SHARE = 0.15


def elections(count: int, seed: int, kind: str = "election") -> list[Case]:
    """Questions of kind ``election``, or of ``election_kip1303``, which have ``eligible`` too."""
    rng = random.Random(f"{kind} {seed}")
    made = []
    for number in range(count):
        wild = rng.random() < WILD_SHARE
        case = _wild(rng) if wild else _consistent(rng)
        if kind == "election_kip1303":
            case["eligible"] = _some(rng, case["partition"]["replicas"])
        made.append({"id": number, "kind": kind, "wild": wild, **case})
    return made


def losses(count: int, seed: int, *, elr_enabled: bool) -> list[Case]:
    """The one event the twin predicts: the leader's broker is fenced.

    As ``election_kip1303``: the replicas that hold enough are in ``eligible``.
    """
    rng = random.Random(f"losses {seed} {elr_enabled}")
    made = []
    for number in range(count):
        case = _settings(rng, _replicas(rng), elr_enabled)
        partition = case["partition"] = _registration(rng, case)
        case["election"] = rng.choice(["ONLINE", "UNCLEAN"])
        case["eligible"] = _some(rng, partition["replicas"])
        if partition["leader"] != NOBODY:
            _fence(case, partition["leader"])
        made.append({"id": number, "kind": "election", "wild": False, **case})
    return made


# States a controller can hold


def _consistent(rng: random.Random) -> Case:
    case = _settings(rng, _replicas(rng), rng.random() < 0.7)
    case["partition"] = _registration(rng, case)
    case["election"] = rng.choice(["PREFERRED", "ONLINE", "UNCLEAN"])
    rng.choice(EVENTS)(rng, case)
    return case


def _replicas(rng: random.Random) -> list[int]:
    return rng.sample(BROKERS, rng.choice([1, 2, 3, 3, 3, 4, 5, MOST_REPLICAS]))


def _settings(rng: random.Random, replicas: list[int], elr_enabled: bool) -> Case:
    return {
        "partition": {"replicas": replicas},
        "acceptable": _some(rng, BROKERS),
        # The controller never counts more than the topic's replication.
        "minIsr": rng.randint(1, min(3, len(replicas))),
        "elrEnabled": elr_enabled,
        "target": {},
    }


def _registration(rng: random.Random, case: Case) -> Case:
    replicas = case["partition"]["replicas"]
    partition: Case = {"replicas": replicas, "elr": [], "lastKnownElr": []}
    if rng.random() < 0.2:
        partition.update(_reassignment(rng, replicas))
    in_sync = rng.sample(replicas, rng.randint(1, len(replicas)))
    if rng.random() < 0.25:
        partition.update(_offline(rng, case, in_sync))
        _drop_if_finished(partition)
        return partition
    partition["isr"] = in_sync
    _drop_if_finished(partition)
    partition["leader"] = rng.choice([in_sync[0], rng.choice(in_sync)])
    # An ELR above min ISR is left over from when min.insync.replicas was higher.
    short = len(in_sync) < case["minIsr"] or rng.random() < 0.1
    if case["elrEnabled"] and short:
        partition["elr"] = _some(rng, [r for r in replicas if r not in in_sync])
    return partition


def _offline(rng: random.Random, case: Case, last_in_sync: list[int]) -> Case:
    """A partition without a leader: with ELR the ISR is empty, without it the last member stays."""
    if not case["elrEnabled"] or rng.random() < 0.1:  # ELR was turned on while it was offline
        return {"leader": NOBODY, "isr": last_in_sync[:1]}
    replicas = case["partition"]["replicas"]
    last_known = [rng.choice(replicas)] if rng.random() < 0.8 else []
    elr = _some(rng, replicas) if rng.random() < 0.6 else []  # empty after unclean shutdowns
    return {"leader": NOBODY, "isr": [], "elr": elr, "lastKnownElr": last_known}


def _reassignment(rng: random.Random, replicas: list[int]) -> Case:
    """Kafka lists the goal first, and after it those that leave."""
    leaving = rng.randint(0, len(replicas) - 1)
    goal = replicas[: len(replicas) - leaving]
    return {
        "adding": sorted(_some(rng, goal)),
        "removing": sorted(replicas[len(replicas) - leaving :]),
    }


def _drop_if_finished(partition: Case) -> None:
    """A reassignment that could be finished has been: the controller does it with each change."""
    staying = set(partition["isr"]) - set(partition.get("removing", []))
    if staying and staying >= set(partition.get("adding", [])):
        partition["adding"] = partition["removing"] = []


# Events


def _fence(case: Case, broker: int) -> None:
    """The controller takes a broker out of the ISR and will not let it lead."""
    case["target"]["isr"] = [r for r in case["partition"]["isr"] if r != broker]
    case["acceptable"] = [b for b in case["acceptable"] if b != broker]


def _fencing(rng: random.Random, case: Case) -> None:
    _fence(case, rng.choice(case["partition"]["replicas"]))


def _fencing_of_the_leader(rng: random.Random, case: Case) -> None:
    _fence(case, case["partition"]["leader"])


def _unclean_shutdown(rng: random.Random, case: Case) -> None:
    broker = rng.choice(case["partition"]["replicas"])
    _fence(case, broker)
    case["target"]["uncleanShutdown"] = [broker]


def _shrinking(rng: random.Random, case: Case) -> None:
    """The leader reports who fell behind; it never reports itself."""
    leader = case["partition"]["leader"]
    if leader != NOBODY:
        left = [r for r in case["partition"]["isr"] if r == leader or rng.random() < 0.5]
        case["target"]["isr"] = left


def _growing(rng: random.Random, case: Case) -> None:
    """The leader reports who caught up; a reassignment may be complete by that."""
    isr = case["partition"]["isr"]
    if case["partition"]["leader"] != NOBODY:
        missing = [r for r in case["partition"]["replicas"] if r not in isr]
        case["target"]["isr"] = isr + _some(rng, missing)


def _nothing(rng: random.Random, case: Case) -> None:
    """An election somebody asked for, or a broker that came back."""


EVENTS = [_fencing, _fencing_of_the_leader, _unclean_shutdown, _shrinking, _growing, _nothing]


# States it cannot


def _wild(rng: random.Random) -> Case:
    replicas = _replicas(rng)
    case = _settings(rng, replicas, rng.random() < 0.7)
    case["election"] = rng.choice(["PREFERRED", "ONLINE", "UNCLEAN"])
    case["partition"] = {
        "replicas": replicas,
        "isr": _some(rng, rng.choice([replicas, BROKERS])),
        "elr": _some(rng, replicas),
        "lastKnownElr": _some(rng, replicas),
        "leader": rng.choice([NOBODY, *replicas]),
    }
    if rng.random() < 0.5:
        case["target"]["isr"] = _some(rng, BROKERS)
    return case


def has_a_non_replica_in_its_isr(case: Case) -> bool:
    """The ISR has a broker that is no replica and has no slot. Only in wild cases."""
    in_isr = {*case["partition"]["isr"], *case["target"].get("isr", [])}
    return not in_isr <= set(case["partition"]["replicas"])


def _some(rng: random.Random, items: Sequence[int]) -> list[int]:
    """A part of the items in any order: often all, sometimes none."""
    share = rng.choice([0.0, 0.3, 0.6, 0.9, 1.0])
    chosen = [item for item in items if rng.random() < share]
    rng.shuffle(chosen)
    return chosen


# As columns


@dataclass(frozen=True, slots=True)
class Columns:
    """Many partitions at once, as ``twin.kafka.election.ElectionState``; empty slots hold -1."""

    broker: np.ndarray  # int32 [cases, slots]
    acceptable: np.ndarray  # bool [cases, slots]
    in_isr: np.ndarray
    in_elr: np.ndarray
    eligible: np.ndarray
    leader: np.ndarray  # int32 [cases]
    last_known_leader: np.ndarray


def columns(cases: Sequence[Case], answers: Sequence[Case] | None = None) -> Columns:
    """The cases as columns: the sets as they were given, or those of Kafka's answers."""
    states = [_given(case) for case in cases]
    if answers is not None:
        states = [_arrived_at(c, answer) for c, answer in zip(cases, answers, strict=True)]
    broker = np.full((len(cases), MOST_REPLICAS), NOBODY, np.int32)
    for row, state in enumerate(states):
        broker[row, : len(state["replicas"])] = state["replicas"]
    return Columns(
        broker,
        acceptable=_members(broker, [case["acceptable"] for case in cases]),
        in_isr=_members(broker, [state["isr"] for state in states]),
        in_elr=_members(broker, [state["elr"] for state in states]),
        eligible=_members(broker, [case.get("eligible", []) for case in cases]),
        leader=np.array([case["partition"]["leader"] for case in cases], np.int32),
        last_known_leader=np.array([_last_known(case) for case in cases], np.int32),
    )


def _given(case: Case) -> Case:
    return {**case["partition"], **case["target"]}


def _arrived_at(case: Case, answer: Case) -> Case:
    """A finished reassignment only takes replicas away; the order is that of the assignment."""
    elects_from: Case = answer["electsFrom"]
    left = [r for r in case["partition"]["replicas"] if r in elects_from["replicas"]]
    return {**elects_from, "replicas": left}


def _last_known(case: Case) -> int:
    last_known: list[int] = case["partition"]["lastKnownElr"]
    return last_known[0] if len(last_known) == 1 and case["elrEnabled"] else NOBODY


def _members(broker: np.ndarray, sets: Sequence[Sequence[int]]) -> np.ndarray:
    """[cases, slots] whether the slot's broker is in the case's set."""
    table = np.zeros((len(sets), len(BROKERS) + 1), bool)  # the last column is "nobody"
    for row, members in enumerate(sets):
        table[row, list(members)] = True
    return table[np.arange(len(sets))[:, None], broker]
