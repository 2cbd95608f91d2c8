"""Whether disks have room for what brokers receive: as plain data and as sentences; a question."""

from __future__ import annotations

from streaming.questions.room.data import (
    ReplacingBroker,
    RoomOnBroker,
    disks_in,
    room_data,
    room_if_empty,
    room_of_replacing,
    room_of_rows,
    worst_of,
)
from streaming.questions.room.question import room
from streaming.questions.room.words import held_lines, room_lines, room_words

__all__ = (
    "ReplacingBroker",
    "RoomOnBroker",
    "disks_in",
    "held_lines",
    "room",
    "room_data",
    "room_if_empty",
    "room_lines",
    "room_of_replacing",
    "room_of_rows",
    "room_words",
    "worst_of",
)
