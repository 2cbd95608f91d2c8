"""The script ``warm-order``: KIP-1303's election on an unmodified Kafka, and its effect on
reads."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from kafka import TopicPartition

from streaming.lab.remote_reading import local_start, read_from, remote_fetches
from streaming.lab.scripts.scenarios import FENCED_S, preferred_leads
from streaming.lab.scripts.stage import SOON_S, ScriptFailed, Stage
from streaming.lab.traffic import COLD_TOPIC

_LEADER: Final = 1
_ALERT: Final = "KafkaTwinNextLeaderCold"
_DONE_IN: Final = "what was done is in "
_KEY: Final = TopicPartition(COLD_TOPIC, 0)


def warm_order(stage: Stage) -> None:
    """The same crash twice: with the original order of replicas, and with that of plan order."""
    stage.until(lambda: preferred_leads(stage, _KEY), 2 * SOON_S, "broker 1 does not lead")
    cold = stage.until(lambda: _successor(stage, "cold"), 2 * SOON_S, "no cold successor")
    stage.fires(_ALERT)
    first = local_start(stage.cluster.bootstrap, COLD_TOPIC)
    before = _crash(stage, cold, first)
    stage.until(lambda: _successor(stage, "cold"), 2 * SOON_S, "no cold successor")
    journal = _planned(stage, "order", "--apply")
    warm = stage.until(lambda: _successor(stage, "warm"), SOON_S, "no warm successor")
    stage.await_resolved(_ALERT)
    after = _crash(stage, warm, first)
    if after:
        raise ScriptFailed(f"{after} remote fetches with the planned order, none were predicted")
    stage.say(f"saved      {before} remote fetches of one consumer, on the same data")
    _planned(stage, "restore", journal)


def _successor(stage: Stage, coverage: str) -> int | None:
    """The predicted next leader, if it has that coverage and all replicas are in sync."""
    partition = stage.partition(COLD_TOPIC)
    following = partition.get("next_leaders", {}).get("kafka", {})
    if following.get("coverage") != coverage or not stage.is_at_rest([partition]):
        return None
    return following["leader"]


def _crash(stage: Stage, predicted: int, first: int) -> int:
    """Kill the leader, read old records, restart it; returns the number of remote fetches."""
    stage.say(f"prediction if broker {_LEADER} crashes, {COLD_TOPIC}-0 is led by {predicted}")
    stage.cluster.kill(_LEADER)
    stage.say(f"action     broker {_LEADER} was killed; Kafka fences it in about 9 s")
    try:
        leader = stage.until(lambda: _other_leader(stage), FENCED_S, "nobody took over")
        if leader != predicted:
            raise ScriptFailed(f"{COLD_TOPIC}-0 is led by {leader}, predicted was {predicted}")
        before = remote_fetches(stage.metrics_urls, COLD_TOPIC)
        records = read_from(stage.alive(), COLD_TOPIC, first)
        fetches = remote_fetches(stage.metrics_urls, COLD_TOPIC) - before
        stage.say(
            f"Kafka      elected {leader}; a consumer read {records} old records with "
            f"{fetches} remote fetches"
        )
    finally:
        stage.cluster.start()
    stage.say(f"action     broker {_LEADER} was started again, and leads as soon as it is in sync")
    stage.until(lambda: preferred_leads(stage, _KEY), 2 * SOON_S, "broker 1 does not lead again")
    return fetches


def _other_leader(stage: Stage) -> int | None:
    leader = stage.leaders().get((COLD_TOPIC, 0), _LEADER)
    return leader if leader not in (_LEADER, -1) else None


def _planned(stage: Stage, *arguments: str) -> str:
    """Run kafka-twin plan like an operator; returns the file that records the changes."""
    if stage.config is None:
        raise ScriptFailed("plans need the configuration of the twin")
    name = f"kafka-twin plan {' '.join(arguments)}"
    done = subprocess.run(
        [sys.executable, "-m", "streaming", "--config", str(stage.config), "plan", *arguments],
        capture_output=True, text=True, timeout=SOON_S, check=False, cwd=stage.config.parent,
    )  # fmt: skip
    if done.returncode:
        raise ScriptFailed(f"{name}: {(done.stderr or done.stdout).strip()}")
    lines = done.stdout.splitlines()
    [changed] = [line for line in lines if " changed: " in line]
    stage.say(f"action     {name}: {changed}")
    [file] = [line.partition(_DONE_IN)[2] for line in lines if _DONE_IN in line]
    return file
