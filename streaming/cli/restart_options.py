"""Options of commands that ask whether brokers may be restarted: the gate and ``plan roll``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from streaming.questions.restart import ALLOWABLE
from twin.gate import Terms
from twin.table import UNKNOWN

_ALLOW: Final = {
    "rf1": ("--allow-rf1", "Take partitions with one replica offline."),
    "rf_min_isr": (
        "--allow-rf-min-isr",
        "Refuse acks=all where there are no more replicas than min.insync.replicas.",
    ),
    "small_quorum": ("--allow-small-quorum", "Stop a quorum of one or two controllers."),
    "cold": ("--cold-ok", "Let cold replicas lead."),
}


def restart_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options; the command gets them as ``terms`` and ``since_ms``."""

    @functools.wraps(command)
    def with_terms(*args: Any, margin: int, since: float | None, **options: Any) -> None:
        allowed = frozenset(
            reason for name, reason in ALLOWABLE.items() if options.pop(f"allow_{name}")
        )
        since_ms = UNKNOWN if since is None else int(since * 1_000)
        command(*args, terms=Terms(margin, allowed), since_ms=since_ms, **options)

    added = [
        click.option(
            "--margin",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help="Replicas in sync above min.insync.replicas that must remain, where there are "
            "enough.",
        ),
        click.option(
            "--since",
            type=click.FloatRange(0),
            metavar="SECONDS",
            help="Use no observation from before this time, as date +%s prints it.",
        ),
        *(
            click.option(flag, f"allow_{name}", is_flag=True, help=text)
            for name, (flag, text) in _ALLOW.items()
        ),
    ]
    for option in reversed(added):
        with_terms = option(with_terms)
    return with_terms
