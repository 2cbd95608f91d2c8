"""A folder of the checkpoint, in any file system that Hadoop knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.query.state.checkpoint import CheckpointError
from streaming.query.why_failed import first_line
from streaming.runtime.local_folder import local_folder


class Folder:
    """A folder that Spark's driver can reach; it may not exist."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        """The folder at a URL, or at an absolute path.

        Raises:
            CheckpointError: Hadoop does not know such a file system, or does not find it.
        """
        self.url = url
        self._local = local_folder(url)
        java: Any = spark._jvm
        self._to_bytes = java.org.apache.commons.io.IOUtils.toByteArray
        with self._used():
            self._folder = java.org.apache.hadoop.fs.Path(url)
            self._child = java.org.apache.hadoop.fs.Path
            self._files = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())

    def names(self) -> list[str]:
        """The names of its entries; none if it does not exist."""
        with self._used():
            statuses = self._files.listStatus(self._folder) if self._is_there() else []
            return [str(status.getPath().getName()) for status in statuses]

    def write(self, name: str, content: bytes) -> None:
        """Write a file, replacing an existing one."""
        if self._local is not None:
            return self._write_here(self._local / name, content)
        with self._used():
            file = self._files.create(self._child(self._folder, name), True)
            try:
                file.write(content)
            finally:
                file.close()

    def _write_here(self, file: Path, content: bytes) -> None:
        """Write without Hadoop, which would start a process, chmod, for each file."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        except OSError as error:
            raise CheckpointError(
                f"query.checkpoint: {error.filename or file}: {error.strerror}"
            ) from None

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with self._used():
            file = self._files.open(self._child(self._folder, name))
            try:
                return bytes(self._to_bytes(file))
            finally:
                file.close()

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with self._used():
            self._files.delete(self._child(self._folder, name), False)

    def written_at_ms(self, name: str) -> int | None:
        """When a file was written, by the clock of the file system; None if it does not exist."""
        with self._used():
            try:
                status = self._files.getFileStatus(self._child(self._folder, name))
            except Py4JJavaError as error:
                if error.java_exception.getClass().getSimpleName() == "FileNotFoundException":
                    return None
                raise
            return int(status.getModificationTime())

    def _is_there(self) -> bool:
        return bool(self._files.exists(self._folder))

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Raise exceptions of Hadoop as CheckpointErrors; after the end of the JVM, Py4JError
        stays."""
        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            raise CheckpointError(f"query.checkpoint: {self.url}: {first_line(error)}") from None
