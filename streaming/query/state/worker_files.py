"""The messages that Python workers of an executor wrote last, as files beside Spark's state.

Spark hands bytes of its state to Python in a pickle that it makes character by character: 14 ms of
the JVM and 4 ms of Python for 1 MB. So a worker that stores a message of a state also writes it to
a file. Spark's state has the id of the newest message, which each message has of the one before it.
A worker that finds a file with that id has the same bytes as Spark, whichever worker wrote it and
however often Spark ran the batch. Without the file it asks Spark.

The files are in the folder that Spark removes when the executor ends. A shard has one for each
place in its chain of updates; the next message there replaces it, mostly before the system has
written it to disk.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path


class MessageFiles:
    """The files of an executor. Without a folder there are none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @staticmethod
    def of_executor(environment: Mapping[str, str]) -> MessageFiles:
        """The files of the executor whose worker has this environment."""
        folders = environment.get("SPARK_LOCAL_DIRS", "").split(",")
        return MessageFiles(Path(folders[0]) / "kafka-twin" if folders[0] else None)

    def read(self, shard_key: str, number: int, message_id: bytes) -> bytes | None:
        """The message with that id at that place of the chain, None if its file is not here."""
        if self._folder is None:
            return None
        with contextlib.suppress(OSError):
            content = self._file(self._folder, shard_key, number).read_bytes()
            if content.startswith(message_id):
                return content[len(message_id) :]
        return None

    def write(self, shard_key: str, number: int, message_id: bytes, message: bytes) -> None:
        """Keep the message in place of the one before it at that place of the chain.

        Nothing depends on the file, so it is not a failure if it cannot be written.
        """
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            file = self._file(self._folder, shard_key, number)
            unfinished = file.with_name(f"{file.name}.{os.getpid()}")
            unfinished.write_bytes(message_id + message)
            unfinished.replace(file)

    def _file(self, folder: Path, shard_key: str, number: int) -> Path:
        return folder / f"{blake2b(shard_key.encode(), digest_size=8).hexdigest()}.{number}"
