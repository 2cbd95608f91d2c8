"""How observations change a state: one file a kind of frame.

The laws, each a property test:
    * a frame older than the newest cycle seen changes nothing; nor does one seen again
    * frames of one cycle give the same state in any order
    * of two views of a partition the higher leader epoch wins, then the later one: a resumed
      leader answers from stale state for up to 100 ms (measured)
    * a recreated topic has a new id and starts anew
    * a partition disappears only when a whole listing no longer has it; so does a broker, and
      before Kafka 4.0, where no listing of brokers is whole, a day after it was listed last
    * a group disappears only when a complete listing no longer has it; an offset of a group, when
      the group's offsets were read without it
    * what did not answer keeps its last values and ages
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Final

MODULES: Final[tuple[ModuleType, ...]] = tuple(
    import_module(module.name) for module in walk_packages(__path__, f"{__name__}.")
)
"""Every module of this folder and of those in it: a new kind of frame is a new file."""
