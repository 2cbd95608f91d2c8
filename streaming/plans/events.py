"""Events on the bus about what people do with plans and with the gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from streaming.bus import bus_topics
from streaming.bus.sender import Sender
from streaming.plans.journal import Act
from streaming.plans.plan import PlannedChange
from streaming.runtime.config import Config

_GIVE_UP_MS: Final = 5_000

_TEXTS: Final[dict[Act, str]] = {
    "order": "{p}: warm replicas come first now: {after} instead of {before}",
    "restore": "{p}: all replicas are warm, the order is {after} again instead of {before}",
}


def text(act: Act, change: PlannedChange) -> str:
    """A sentence for people."""
    before, after = list(change.replicas), list(change.planned)
    return _TEXTS[act].format(p=change, before=before, after=after)


def event(cluster: str, act: Act, change: PlannedChange, at_ms: int) -> tuple[bytes, bytes]:
    """Key and value of a change that was made."""
    before, after = list(change.replicas), list(change.planned)
    value = {
        "id": f"plan/{act}/{change.topic_id}/{change.partition}/{at_ms}",
        "kind": f"replicas_{'reordered' if act == 'order' else 'restored'}",
        "cluster": cluster,
        "at_ms": at_ms,
        "text": text(act, change),
        "topic": change.topic,
        "partition": change.partition,
        "before": before,
        "after": after,
    }
    return f"{cluster}/{change}".encode(), msgspec.json.encode(value)


def send(config: Config, sender: Sender, act: Act, change: PlannedChange, at_ms: int) -> None:
    """Write the event.

    Raises:
        BusError: it could not be written.
    """
    key, value = event(config.cluster.name, act, change, at_ms)
    sender.send(bus_topics.topics(config).events, key, value)
    sender.flush(_GIVE_UP_MS)


def judged(cluster: str, verdict: Mapping[str, Any], at_ms: int) -> tuple[bytes, bytes]:
    """Key and value of a verdict that somebody asked the gate for. It does not say who."""
    brokers = verdict["brokers"]
    names = " and ".join(map(str, brokers))
    which = f"broker {names}" if len(brokers) == 1 else f"brokers {names} together"
    reasons = ", ".join(f"{each['reason']} ({each['count']})" for each in verdict["reasons"])
    allowed = ", ".join(each["reason"] for each in verdict["allowed"])
    value = {
        "id": f"gate/{','.join(map(str, brokers))}/{at_ms}",
        "kind": "restart_judged",
        "cluster": cluster,
        "at_ms": at_ms,
        "text": f"somebody asked whether {which} may be restarted: {verdict['verdict']}"
        + (f": {verdict['stale'] or reasons}" if verdict["stale"] or reasons else "")
        + (f"; allowed by whoever asked: {allowed}" if allowed else ""),
        "broker": brokers[0],
        "brokers": brokers,
        "detail": verdict["verdict"],
    }
    return f"{cluster}/gate".encode(), msgspec.json.encode(value)


def send_judged(config: Config, verdict: Mapping[str, Any], at_ms: int) -> None:
    """Write the event of a verdict.

    Raises:
        BusError: it could not be written.
    """
    with Sender(config, give_up_ms=_GIVE_UP_MS) as sender:
        sender.send(bus_topics.topics(config).events, *judged(config.cluster.name, verdict, at_ms))
        sender.flush(_GIVE_UP_MS)
