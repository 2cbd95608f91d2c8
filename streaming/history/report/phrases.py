"""Kinds of what happened in words, one line for many of a kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streaming.history.report.happenings import GROUP_HURT, SETTINGS, Happening
from streaming.questions.answer import listed
from twin.arrays.plain import counted
from twin.declarations.table import NO_BROKER

_PARTITIONS: Final = {
    "leader_moved": "got another leader",
    "leader_moved/none": "lost their leader, and nobody leads",
    "isr_shrank": "lost replicas of the ISR",
    "isr_expanded": "have replicas in the ISR again",
    "isr_shrink_explained": "lost a replica of the ISR for a reason that a log names",
    "replica_cold": "have a replica that is cold since",
    "records_lost": "lost records",
    "records_truncated": "had records truncated that only the old leader had",
    "unclean_election": "got a leader from outside the ISR and the ELR",
    "reassigned": "were reassigned",
    "replicas_reordered": "got another order of replicas by kafka-twin's watch",
    "replicas_restored": "got the order of their replicas back by kafka-twin's watch",
    "partition_created": "were created",
    "partition_deleted": "were deleted",
    "group_skips_records": "were made anew, and groups skip their first records",
    "unclean_election_held": "got a leader by an unclean election that somebody held",
    "kip501_handover": "would have another leader by solution 2 of KIP-501",
}

_GROUPS: Final = {
    "nobody": "read partitions that nobody leads",
    "nowhere": "have not read records that are deleted",
    "ahead": "continue beyond the log end",
    "remote": "read from remote storage",
}

_BROKERS: Final = {
    "broker_lost": "were lost",
    "broker_silent": "do not answer, and were not fenced",
    "broker_back": "are back",
    "log_dir_failed": "lost a log directory",
    "disk_full": "have a full disk",
    "remote_reads_began": "began to read from remote storage for consumers",
    "load_above_capacity_began": "would carry more than their capacity after a loss",
}


def aspect(happening: Happening) -> str:
    """Its kind, more exactly where one kind has several meanings."""
    if happening.kind == "leader_moved" and not happening.joined:
        return "leader_moved/none"
    if happening.kind == GROUP_HURT:
        return f"{GROUP_HURT}/{happening.name.partition(' ')[0]}"
    return happening.kind


def many(happenings: Sequence[Happening]) -> str:
    """A sentence for several of one aspect, or for one."""
    first = happenings[0]
    name = aspect(first)
    kind, _, more = name.partition("/")
    if kind == GROUP_HURT:
        groups = {each.name.partition(" ")[2] for each in happenings}
        return f"{counted(len(groups), 'group')} {_GROUPS[more]}"
    if name == "restart_judged":
        brokers = sorted({each.broker for each in happenings})
        return f"somebody asked whether brokers {listed(brokers)} may be restarted: {first.name}"
    if name in _BROKERS:
        brokers = sorted({each.broker for each in happenings})
        if len(brokers) == 1:
            return first.text
        return f"brokers {listed(brokers)} {_BROKERS[name]}"
    if kind == SETTINGS:
        topics = {each.topic for each in happenings}
        of = ["the cluster"] if "" in topics else []
        if named := len(topics - {""}):
            of.append(counted(named, "topic"))
        return f"settings of {' and '.join(of)} changed: {first.name.replace(' ', ', ')}"
    partitions = len({each.place for each in happenings})
    if kind in ("risk_opened", "risk_closed"):
        verb = "opened" if kind == "risk_opened" else "closed"
        if not any(each.topic for each in happenings):
            brokers = sorted({each.broker for each in happenings} - {NO_BROKER})
            return f"{more} {verb}" + (f" for brokers {listed(brokers)}" if brokers else "")
        return f"{more} {verb} for {counted(partitions, 'partition')}"
    if name in _PARTITIONS:
        return f"{counted(partitions, 'partition')} {_PARTITIONS[name]}"
    return f"{len(happenings)} times {name.replace('_', ' ')}"
