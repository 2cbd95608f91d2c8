"""Builders of log lines: a test names only what it is about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

T0_MS = 1_795_189_000_000
UTC_ZONE = ZoneInfo("UTC")
SAMPLE = Path(__file__).with_name("request.log")
"""Lines of a real broker, Kafka 4.3.1, in UTC: fetches of followers, consumers, controllers."""

TOPIC_ID = "41Z188Z3Rk-OlriLRBeplQ"


def stamped(at_ms: int, message: str, level: str = "DEBUG", logger: str = "x") -> bytes:
    when = datetime.fromtimestamp(at_ms / 1000, UTC)
    text = f"{when:%Y-%m-%d %H:%M:%S},{at_ms % 1000:03}"
    return f"[{text}] {level} {message} ({logger})".encode()


def request_line(
    at_ms: int, api: int, request: Any, response: Any, client: str = "", **times: float
) -> bytes:
    event = {
        "isForwarded": False,
        "requestHeader": {"requestApiKey": api, "requestApiVersion": 18, "clientId": client},
        "request": request,
        "response": response,
        "totalTimeMs": sum(times.values()),
        **times,
    }
    text = "Completed request:" + json.dumps(event, separators=(",", ":"))
    return stamped(at_ms, text, logger="kafka.request.logger")


def fetch(
    at_ms: int, asks: Mapping[int, int] = {}, *, session: int = 7, epoch: int = 3,
    gets: Mapping[int, Mapping[str, int]] = {}, forgets: Sequence[int] = (), waited_ms: float = 0.0,
    topic: str = TOPIC_ID, follower: int = 2, error: int = 0, opened: int | None = None,
    max_bytes: int = 10 << 20, min_bytes: int = 1,
) -> bytes:  # fmt: skip
    """A fetch that is completed at ``at_ms``, by default of follower 2.

    ``asks`` maps partitions to fetch offsets, ``gets`` partitions to their part of the response.
    """
    places = [
        {"partition": number, "currentLeaderEpoch": 1, "fetchOffset": offset, "logStartOffset": 0,
         "partitionMaxBytes": 1 << 20}
        for number, offset in asks.items()
    ]  # fmt: skip
    answers = [{"partitionIndex": number, **answer} for number, answer in gets.items()]
    request = {
        "replicaState": {"replicaId": follower, "replicaEpoch": 9}, "maxWaitMs": 500,
        "minBytes": min_bytes, "maxBytes": max_bytes, "sessionId": session, "sessionEpoch": epoch,
        "topics": [{"topicId": topic, "partitions": places}] if places else [],
        "forgottenTopicsData": [{"topicId": topic, "partitions": list(forgets)}] if forgets else [],
    }  # fmt: skip
    response = {
        "errorCode": error,
        "sessionId": session if opened is None else opened,
        "responses": [{"topicId": topic, "partitions": answers}] if answers else [],
    }
    return request_line(at_ms, 1, request, response, f"broker-{follower}-fetcher-0",
                        remoteTimeMs=waited_ms, sendTimeMs=0.4)  # fmt: skip


def opening(at_ms: int, asks: Mapping[int, int], session: int = 7, **more: Any) -> bytes:
    """The full fetch with which a session begins."""
    return fetch(at_ms, asks, session=0, epoch=0, opened=session, **more)


def alter(at_ms: int, isr: Sequence[int], epoch: int, *, leader: int = 1, error: int = 0) -> bytes:
    """A leader's change of an ISR, from the state of that partition epoch to the next."""
    wanted = {"partitionIndex": 0, "leaderEpoch": 4, "newIsrWithEpochs": [],
              "partitionEpoch": epoch}  # fmt: skip
    agreed = {"partitionIndex": 0, "errorCode": error, "isr": list(isr),
              "partitionEpoch": epoch + 1}  # fmt: skip
    request = {"brokerId": leader, "topics": [{"topicId": TOPIC_ID, "partitions": [wanted]}]}
    response = {"errorCode": 0, "topics": [{"topicId": TOPIC_ID, "partitions": [agreed]}]}
    return request_line(at_ms, 56, request, response, localTimeMs=2.0)


SHRINK = (
    "[Partition orders-eu-3 broker=4] Shrinking ISR from 5,4 to 4. Leader: (highWatermark: 619, "
    "endOffset: 622). Out of sync replicas: (brokerId: 5, endOffset: 619, lastCaughtUpTimeMs: "
    "1795189766308)."
)

SHRUNK = (
    "[Partition orders-eu-3 broker=4] ISR updated to 4 (under-min-isr) and version updated to 7"
)
"""Its end, once the controller has agreed; the words in brackets are optional."""

FOLLOWS = (
    "[ReplicaFetcherManager on broker 4] Added fetcher to broker 5 for partitions HashMap("
    "orders-eu-1 -> InitialFetchState(Some(QrzXiA--T_um4Qa9NmIAGg),BrokerEndPoint[id=5, "
    "host=127.0.0.1, port=9095],1,781), orders-eu-33 -> InitialFetchState(Some("
    "QrzXiA--T_um4Qa9NmIAGg),BrokerEndPoint[id=5, host=127.0.0.1, port=9095],1,7))"
)
"""The line of a broker that follows two partitions from now on."""
