"""Whether disks have room for what brokers receive: as plain data and as sentences; a question."""

from __future__ import annotations

from streaming.questions.room.room import room

__all__ = ("room",)
