"""The runbook's sections for the open risks of a partition, of brokers and of the cluster.

Placeholders in their commands, such as BOOTSTRAP, are replaced by the values that are known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypedDict

_SECTION: Final = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_STEP: Final = re.compile(r"^\* (Confirm|Do|Harmless): ", re.MULTILINE)
_PARAGRAPH: Final = re.compile(r"\n\n|^\* ", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^]]+)]\([^)]*\)")
_CODE: Final = re.compile(r"`[^`]+`")
_SAFE: Final = re.compile(r"[A-Za-z0-9._:\[\]-]+")
"""Values without characters that a shell would interpret: readers paste the commands into one."""


class RunbookStep(TypedDict):
    """One step: ``confirm``, ``do`` or ``harmless``. Text between backticks is code."""

    step: str
    text: str


class RunbookSection(TypedDict):
    """The section about one risk."""

    risk: str
    meaning: list[str]  # paragraphs
    steps: list[RunbookStep]


class PartitionRunbook(TypedDict):
    """The sections of a partition's open risks, the worst first."""

    topic: str
    partition: int
    sections: list[RunbookSection]


class ClusterRunbook(TypedDict):
    """The sections of the open risks of brokers and of the cluster, the worst first."""

    sections: list[RunbookSection]


def for_partition(partition: Mapping[str, Any], address: str) -> PartitionRunbook:
    """The sections for its open risks. A placeholder stays where its value is unknown.

    Args:
        partition: its JSON.
        address: ``host:port`` of a broker that answers; empty if none is known.
    """
    groups = {group["group"] for group in partition["groups"]}
    leader = partition["leader"]
    own = {
        r"\bBOOTSTRAP\b": address,
        r"(?<=--topic )T\b": partition["topic"],
        r"(?<=--topic-list )T\b": partition["topic"],
        r"(?<=--entity-name )T\b": partition["topic"],
        r"(?<=--partition )N\b": str(partition["partition"]),
        r"(?<=--broker-id )LEADER\b": "" if leader is None or leader < 0 else str(leader),
        r"(?<=--group )G\b": groups.pop() if len(groups) == 1 else "",
    }
    return {
        "topic": partition["topic"],
        "partition": partition["partition"],
        "sections": [each for name in partition["risks"] for each in _sections(name, own)],
    }


def for_cluster(risks: Mapping[str, Sequence[int]], address: str) -> ClusterRunbook:
    """The sections for these risks. A placeholder stays where its value is unknown, or is several.

    Args:
        risks: the open ones by name, each with the brokers that have it; none of a cluster's own.
        address: ``host:port`` of a broker that answers; empty if none is known.
    """
    sections = []
    for name, brokers in risks.items():
        one = str(brokers[0]) if len(brokers) == 1 else ""
        sections += _sections(name, {r"\bBOOTSTRAP\b": address, r"(?<=--id )N\b": one})
    return {"sections": sections}


def _sections(risk: str, own: Mapping[str, str]) -> list[RunbookSection]:
    """The risk's section with those values of placeholders in it, if it has one."""
    known = {pattern: value for pattern, value in own.items() if _SAFE.fullmatch(value)}
    section = runbook().get(risk)
    return [] if section is None else [_filled(section, known)]


@cache
def runbook() -> Mapping[str, RunbookSection]:
    """The sections about risks, by the risk's name."""
    text = _file().read_text(encoding="utf-8")
    found = (_section(name, body) for name, body in _SECTION.findall(text))
    return {section["risk"]: section for section in found if section["steps"]}


def _file() -> Path:
    """The runbook: in the package of a wheel, else in the checkout."""
    here = Path(__file__).resolve()
    packaged = here.with_suffix(".md")
    return packaged if packaged.is_file() else here.parents[3] / "docs" / "runbook.md"


def _section(name: str, body: str) -> RunbookSection:
    meaning, *parts = _STEP.split(body)
    steps = zip(parts[::2], parts[1::2], strict=True)
    return {
        "risk": name,
        "meaning": [_plain(each) for each in _PARAGRAPH.split(meaning) if each.strip()],
        "steps": [{"step": step.lower(), "text": _plain(text)} for step, text in steps],
    }


def _plain(text: str) -> str:
    """The text in one line, without the targets of links: they are files of the repository."""
    return " ".join(_LINK.sub(r"\1", text).split())


def _filled(section: RunbookSection, known: Mapping[str, str]) -> RunbookSection:
    steps: list[RunbookStep] = [
        {"step": each["step"], "text": _with(each["text"], known)} for each in section["steps"]
    ]
    return {"risk": section["risk"], "meaning": section["meaning"], "steps": steps}


def _with(text: str, known: Mapping[str, str]) -> str:
    """The text with known values in its commands."""

    def code(found: re.Match[str]) -> str:
        command = found[0]
        for pattern, value in known.items():
            command = re.sub(pattern, value, command)
        return command

    return _CODE.sub(code, text)
