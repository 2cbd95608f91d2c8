"""Which clusters have one bus in common: one connection, or one query, serves all of them."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from streaming.runtime.config import Config
from streaming.runtime.configuration.secret_keys import masked


class Bus(NamedTuple):
    """What clusters of one bus have in common."""

    bootstrap: str
    client: str  # as JSON

    @classmethod
    def of(cls, config: Config) -> Bus:
        """The bus of a cluster."""
        client = msgspec.json.encode(config.bus_client, order="sorted").decode()
        return cls(config.bus_bootstrap, client)

    @property
    def folder(self) -> str:
        """The name of its folder, which stays when a secret changes."""
        client = msgspec.json.encode(masked(msgspec.json.decode(self.client)))
        digest = blake2b(f"{self.bootstrap} ".encode() + client, digest_size=6).hexdigest()
        # Spark's command for other state partitions does not find a folder with a sign of URLs.
        return f"{re.sub('[^a-zA-Z0-9.-]', '_', self.bootstrap.partition(',')[0])}-{digest}"
