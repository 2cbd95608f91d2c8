"""When a risk that holds is opened, and one that no longer holds is closed.

A condition that flickers is not news twice a minute: each risk has a time it must hold before it
opens, and a time it must be gone before it closes. What waits is remembered as sparse rows, since a
calm cluster has none.

Within a cycle the result must not depend on the order of its frames. So everything derives from
what the last cycle left (``risks_before`` and the rows that began before this cycle), and rows that
have served are only cleared when the next cycle begins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin.fleet import Fleet
from twin.rules.risks import RULES
from twin.sparse import Pending


def settle(fleet: Fleet, now_ms: int) -> tuple[NDArray[np.int32], Pending]:
    """[P] the risks that are open now, and the rows that wait or have just served.

    Reads ``risks_seen`` (what holds), ``risks_before`` and ``pending``.
    """
    began_before = fleet.pending.picked(fleet.pending.since_ms < fleet.observed_at_ms)
    differs = fleet.risks_seen ^ fleet.risks_before
    open_now = fleet.risks_before.copy()
    begins: list[Pending] = []
    for rule in RULES:
        bit = np.int32(rule.risk)
        row = np.flatnonzero(differs & bit)
        if not len(row):
            continue
        since = np.full(len(row), now_ms, np.int64)
        known = began_before.picked(began_before.risk == bit)
        _, here, there = np.intersect1d(row, known.row, assume_unique=True, return_indices=True)
        since[here] = known.since_ms[there]
        holds = (fleet.risks_seen[row] & bit) != 0
        wait_ms = np.where(holds, rule.open_after_ms, rule.close_after_ms)
        due = now_ms - since >= wait_ms
        open_now[row[due]] ^= bit
        new = np.ones(len(row), bool)
        new[here] = False
        begins.append(
            Pending(
                row=row[new].astype(np.int32),
                risk=np.full(int(new.sum()), bit, np.int32),
                since_ms=since[new],
            )
        )
    pending = began_before
    for rows in begins:
        pending = pending.with_rows(rows)
    return open_now, pending


def still_pending(fleet: Fleet) -> Pending:
    """The rows whose risk still waits, as a new cycle begins."""
    pending = fleet.pending
    if not len(pending):
        return pending
    return pending.picked(((fleet.risks_seen ^ fleet.risks)[pending.row] & pending.risk) != 0)
