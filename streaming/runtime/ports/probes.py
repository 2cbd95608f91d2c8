"""Open paths for probes, the same at each port of each program.

They need no token, and say nothing that is secret. A program that is not fresh still answers at
``READY``, and says there why it is not: who took it out of service could not ask it any more.
"""

from __future__ import annotations

from typing import Final

ALIVE: Final = "/-/healthy"
"""200 while the program gets on; 503, with the reason, once a restart would help."""

READY: Final = "/-/ready"
"""200 while the program answers; its text says whether what it answers is fresh."""

FRESH: Final = "/healthz"
"""200 while what the program answers is fresh; 503 with the reason in one sentence."""

_OK: Final = 200
_UNAVAILABLE: Final = 503


def alive(why_stuck: str) -> tuple[int, str]:
    """Status and text of ``ALIVE``, by the reason why the program stands still; empty: none."""
    return (_UNAVAILABLE, f"{why_stuck}\n") if why_stuck else (_OK, "alive\n")


def ready(why_not_fresh: str | None) -> tuple[int, str]:
    """Status and text of ``READY``, by the reason why its answers are not fresh.

    Empty: they are; None: the program cannot tell.
    """
    if why_not_fresh is None:
        return _OK, "ready\n"
    return _OK, f"ready; not fresh: {why_not_fresh}\n" if why_not_fresh else "ready; fresh\n"


def fresh(why_not_fresh: str) -> tuple[int, str]:
    """Status and text of ``FRESH``."""
    return (_UNAVAILABLE, f"{why_not_fresh}\n") if why_not_fresh else (_OK, "ok\n")
