"""A cache of what was used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class LruCache(Generic[_K, _V]):
    """Keeps the entries that were used last. Threads may use it at the same time.

    A thread that asks for a value that another one is making waits: that takes less time than to
    make it twice.
    """

    def __init__(self, most: int) -> None:
        """A cache of at most that many entries."""
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[_K, _V] = OrderedDict()

    def __contains__(self, key: _K) -> bool:
        return key in self._entries

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """The value of a key, made on first use."""
        with self._lock:
            if key not in self._entries:
                self._entries[key] = make()
            self._entries.move_to_end(key)
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)
            return self._entries[key]

    def put(self, key: _K, value: _V) -> None:
        """Keep the value of a key that has none."""
        self.get(key, lambda: value)
