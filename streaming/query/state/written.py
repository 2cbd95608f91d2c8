"""The states that Python workers of an executor wrote last, as files beside Spark's state.

Spark hands bytes of its state to Python in a pickle that it makes character by character: 14 ms of
the JVM and 4 ms of Python for a state of 1 MB, a fifth of what the shard costs. So a worker that
stores a state also writes it to a file, named by a digest of the bytes; Spark's state has the
digest in addition to the bytes. A worker that finds the file of the digest has the same bytes as
Spark, whichever worker wrote it and however often Spark ran the batch. Without the file it asks
Spark.

The files are in the folder that Spark removes when the executor ends. The file of a replaced state
is removed, mostly before the system has written it to disk.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

_DIGEST_BYTES: Final = 16


class WrittenStates:
    """The files of an executor. Without a folder there are none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @staticmethod
    def of_executor(environment: Mapping[str, str]) -> WrittenStates:
        """The files of the executor whose worker has this environment."""
        folders = environment.get("SPARK_LOCAL_DIRS", "").split(",")
        return WrittenStates(Path(folders[0]) / "kafka-twin" if folders[0] else None)

    def read(self, digest: bytes) -> bytes | None:
        """The state with that digest, None if its file is not here."""
        if self._folder is None:
            return None
        with contextlib.suppress(OSError):
            return (self._folder / digest.hex()).read_bytes()
        return None

    def write(self, state: bytes, replaced: bytes | None) -> bytes:
        """Keep the state in place of that with the digest ``replaced``; its own digest.

        Nothing depends on the file, so it is not a failure if it cannot be written.
        """
        digest = blake2b(state, digest_size=_DIGEST_BYTES).digest()
        if self._folder is not None and digest != replaced:
            with contextlib.suppress(OSError):
                self._folder.mkdir(exist_ok=True)
                unfinished = self._folder / f"{digest.hex()}.{os.getpid()}"
                unfinished.write_bytes(state)
                unfinished.replace(self._folder / digest.hex())
                if replaced is not None:
                    (self._folder / replaced.hex()).unlink(missing_ok=True)
        return digest
