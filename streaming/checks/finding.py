"""What a check has to say: one line each."""

from __future__ import annotations

from dataclasses import dataclass

from streaming.checks.rights import Right


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``without`` is empty if it is there."""

    what: str
    without: str = ""
    essential: bool = False

    def __str__(self) -> str:
        return f"missing: {self.what} -> {self.without}" if self.without else f"ok: {self.what}"


def missing(right: Right, more: str = "", *, essential: bool = False) -> Finding:
    """The right is not there, and what goes without it."""
    return Finding(f"{right}{more}", right.without, essential)


def there(right: Right) -> Finding:
    """The right is there, and what it is for."""
    return Finding(f"{right}: {', '.join(right.wants)}")
