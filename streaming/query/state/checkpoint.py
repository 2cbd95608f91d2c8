"""Where the query keeps its checkpoint: a folder, or a URL of a file system that Hadoop knows."""

from __future__ import annotations

import re
from pathlib import Path

from streaming.runtime.errors import UserError
from streaming.runtime.local_folder import URL, local_folder


class CheckpointError(UserError):
    """The checkpoint cannot be used; the message says in one line what to do."""


def location(checkpoint: str, *below: str) -> str:
    """The checkpoint for Spark: a URL unchanged, a path as the URL of a folder on this machine.

    Hadoop looks for a plain path in its default file system, which may be HDFS.

    Args:
        checkpoint: ``query.checkpoint``, such as s3a://bucket/twin or .kafka-twin/checkpoint.
        below: folders in it.
    """
    base = checkpoint if URL.match(checkpoint) else f"file://{Path(checkpoint).resolve()}"
    return "/".join((base.rstrip("/"), *below))


def require_shared(checkpoint: str, master: str, is_shared: bool) -> None:
    """Refuse a folder of this machine where executors run on others.

    It would work until an executor is lost: then another one does not find the state.

    Args:
        checkpoint: ``query.checkpoint``.
        master: Spark's master, such as local[2] or spark://host:7077.
        is_shared: ``query.checkpoint_shared``: all machines have that folder.

    Raises:
        CheckpointError: the executors would not find it.
    """
    folder = local_folder(checkpoint)
    if folder is not None and not is_local(master) and not is_shared:
        raise CheckpointError(
            f"query.checkpoint: {folder} is a folder of this machine, and the executors of "
            f"{master} may run on others; give a URL such as hdfs:// or s3a://, or set "
            "query.checkpoint_shared = true if every machine has that folder"
        )


def is_local(master: str) -> bool:
    """Whether driver and executors are one process."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None
