"""Work that a soak does in a thread, from the beginning of a block to its end."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Self


@dataclass(kw_only=True)
class Background:
    """Runs ``run`` in a thread; ``run`` returns once ``over`` is set."""

    over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def run(self) -> None:
        """Do the work until the block ends."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.run, name=type(self).__name__, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        assert self._thread is not None
        self._thread.join()
