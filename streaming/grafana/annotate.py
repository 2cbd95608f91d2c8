"""Grafana annotations for events of the twin: moved leaders, ISR shrinks, risks.

Events wait in a queue of limited length, and a separate thread posts them, so scrapes and the
reader of snapshots never wait for Grafana. Many events of one kind at the same time (after the loss
of a broker) become one annotation.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Protocol

import structlog

from streaming.bus.view import Event

KINDS: Final = frozenset(
    {"leader_moved", "isr_shrank", "isr_shrink_explained", "risk_opened", "risk_closed",
     "broker_fenced", "broker_unfenced"}
)  # fmt: skip
TAG: Final = "kafka-twin"

MOST_WAITING: Final = 10_000
GATHERED_S: Final = 1.0
"""Events with one cause arrive within one or two batches of the query."""

MOST_SINGLE: Final = 5
"""Up to this many events of one kind are annotated one by one; more become one annotation."""

MOST_TOPICS: Final = 50
"""An annotation has a tag for each topic, so that the Partition dashboard shows it."""

TRIES: Final = 4
FIRST_PAUSE_S: Final = 0.5

log = structlog.get_logger("annotate")


class Annotates(Protocol):
    """Posts one annotation; an error has ``again`` set if a retry may help."""

    def annotate(self, text: str, tags: Sequence[str], at_ms: int) -> None: ...


class Annotator:
    """The queue and its thread. ``counts`` are by result: posted, gathered, dropped, refused."""

    def __init__(
        self, cluster: str, grafana: Annotates, since_ms: int,
        wait: Callable[[float], bool] | None = None, *, most_waiting: int = MOST_WAITING,
        gather_s: float = GATHERED_S,
    ) -> None:  # fmt: skip
        """Events before ``since_ms`` are ignored: they were annotated when they happened."""
        self._most_waiting, self._gather_s = most_waiting, gather_s
        self.counts: Counter[str] = Counter(posted=0, gathered=0, dropped=0, refused=0)
        self._cluster, self._grafana, self._since_ms = cluster, grafana, since_ms
        self._waiting: deque[Event] = deque()
        self._news, self._stop = threading.Event(), threading.Event()
        self._wait = wait or self._stop.wait
        self._last_error = ""
        self._thread = threading.Thread(target=self._run, name="annotate", daemon=True)

    def start(self) -> None:
        """Start the thread that posts."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; queued events are not posted."""
        self._stop.set()
        self._news.set()
        self._thread.join(timeout=10)

    def take(self, event: Event) -> None:
        """Queue a new event; never blocks."""
        if event.kind not in KINDS or event.at_ms < self._since_ms:
            return
        if len(self._waiting) >= self._most_waiting:
            self.counts["dropped"] += 1
            return
        self._waiting.append(event)
        self._news.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._news.wait()
            if self._wait(self._gather_s):
                return
            self._news.clear()
            self.post_waiting()

    def post_waiting(self) -> None:
        """Post all queued events."""
        events = [self._waiting.popleft() for _ in range(len(self._waiting))]
        groups: defaultdict[tuple[str, str], list[Event]] = defaultdict(list)
        for event in events:
            groups[event.kind, event.detail if event.kind.startswith("risk") else ""].append(event)
        for group in groups.values():
            if len(group) <= MOST_SINGLE:
                for event in group:
                    self._post(event.text, self._tags(event), event.at_ms)
            else:
                self.counts["gathered"] += len(group)
                self._post(_together(group), self._tags(*group), group[0].at_ms)

    def _tags(self, *group: Event) -> list[str]:
        """The tags of events of one kind, with the first of their topics."""
        tags = [TAG, f"cluster:{self._cluster}", group[0].kind]
        if group[0].kind.startswith("risk"):
            tags.append(f"risk:{group[0].detail}")
        topics = dict.fromkeys(event.topic for event in group if event.topic)
        return tags + [f"topic:{topic}" for topic in islice(topics, MOST_TOPICS)]

    def _post(self, text: str, tags: list[str], at_ms: int) -> None:
        pause_s = FIRST_PAUSE_S
        for left in range(TRIES - 1, -1, -1):
            try:
                self._grafana.annotate(text, tags, at_ms)
            except RuntimeError as error:
                if str(error) != self._last_error:  # log each cause once
                    self._last_error = str(error)
                    log.warning("unavailable", what="annotations", why=self._last_error)
                again = getattr(error, "again", False)
                if not again or not left:
                    self.counts["dropped" if again else "refused"] += 1
                    return
                if self._wait(pause_s):
                    return
                pause_s *= 2
            else:
                self.counts["posted"] += 1
                if self._last_error:
                    self._last_error = ""
                    log.info("recovered", what="annotations")
                return


def _together(group: Sequence[Event]) -> str:
    some = "; ".join(event.text for event in group[:3])
    return f"{len(group)} times {group[0].kind.replace('_', ' ')}: {some}; ..."
