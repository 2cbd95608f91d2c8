"""Irreversible pseudonyms for the names of a cluster, the same within a capsule.

A name is the keyed digest of the original. The key is random and is kept nowhere.
"""

from __future__ import annotations

import re
import secrets
from hashlib import blake2b
from typing import Final

KAFKAS_OWN: Final = frozenset(
    {
        "__cluster_metadata",
        "__consumer_offsets",
        "__remote_log_metadata",
        "__share_group_state",
        "__transaction_state",
    }
)
"""Topics that Kafka names itself: they are the same in every cluster."""

_WORD: Final = re.compile(r"[\w.\-:]+")
_PLAIN: Final = re.compile(r"[\w.\-:]+\Z")
_LEAST_SEARCHED: Final = 4
"""Shorter names are parts of ordinary words; they are replaced where they are whole words."""

LEFT_OUT: Final = "(left out: the capsule is anonymized)"


class OtherNames:
    """The other names of one capsule."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, str] = {}

    def name(self, kind: str, original: str) -> str:
        """The other name of a topic, group, rack and so on; an empty name stays empty."""
        if not original or (kind == "topic" and original in KAFKAS_OWN):
            return original
        known = self._known.get(original)
        if known is None:
            known = self._known[original] = f"{kind}-{self._digest(original.encode(), 6).hex()}"
        # A text may name things of two kinds, and has the digest in both.
        return f"{kind}-{known.rpartition('-')[2].partition(':')[0]}"

    def host(self, original: str) -> str:
        """The other name of host:port: the port stays."""
        host, colon, port = original.rpartition(":")
        if not colon or not port.isdecimal():
            return self.name("host", original)
        other = f"{self.name('host', host)}:{port}"
        if host:
            self._known.setdefault(original, other)
        return other

    def identity(self, original: bytes) -> bytes:
        """Another id of the same length."""
        return self._digest(original, len(original)) if original else original

    def text(self, original: str) -> str:
        """A sentence with the other names in it, once all names are known.

        Nothing is left of a sentence in which a known name cannot be told from other words.
        """
        replaced = _WORD.sub(lambda word: self._word(word[0]), original)
        for name in self._with_blanks():
            replaced = replaced.replace(name, self._known[name])
        others = {each for each in self._known.values() if each in replaced}
        rest = replaced
        for other in others:
            rest = rest.replace(other, "")
        return LEFT_OUT if self._names_one(rest) else replaced

    def _names_one(self, text: str) -> bool:
        return any(name in text for name in self._known if len(name) >= _LEAST_SEARCHED)

    def _with_blanks(self) -> list[str]:
        """Names that are no single word, the longest first."""
        odd = [name for name in self._known if not _PLAIN.match(name)]
        return sorted(odd, key=len, reverse=True)

    def _word(self, word: str) -> str:
        """A word, or the name of a partition (``orders-1``), perhaps before a mark."""
        bare = word.rstrip(".:-")
        mark = word[len(bare) :]
        if bare in self._known:
            return self._known[bare] + mark
        topic, dash, number = bare.rpartition("-")
        if dash and number.isdecimal() and topic in self._known:
            return f"{self._known[topic]}-{number}{mark}"
        host, colon, port = bare.rpartition(":")
        if colon and port.isdecimal() and host in self._known:
            return f"{self._known[host]}:{port}{mark}"
        return word

    def _digest(self, original: bytes, size_bytes: int) -> bytes:
        return blake2b(original, key=self._key, digest_size=min(size_bytes, 64)).digest()
