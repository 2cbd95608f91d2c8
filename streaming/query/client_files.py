"""Certificates, keys and secrets that are renewed on disk while a query runs.

Spark gives the content of these files to its Kafka clients when a query starts, and cannot give
them any other later. So a program ends its query once the files are renewed, and starts it again in
the same session: that takes some seconds, and a start of the program takes a new JVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog

from streaming.query.kafka_options import kafka_options
from streaming.runtime.deadline import Deadline
from streaming.runtime.errors import UserError
from streaming.runtime.kafka.pem_files import Stamp, stamp

LOOK_EVERY_S: Final = 5

_SETTING_ENDS_WITH: Final = "file"
"""``ssl_cafile``, ``sasl_oauthbearer_client_secret_file`` and all others that name a file."""

log = structlog.get_logger("query")


class ClientFiles:
    """The files that the clients of a query are made of, as they were at its start."""

    def __init__(self, *clients: Mapping[str, Any]) -> None:
        """Note what the files are now: to be called before the query starts.

        Args:
            clients: sections of the configuration with settings of Kafka clients.

        Raises:
            UnsupportedSetting: a file cannot be used.
        """
        self._clients = clients
        named = {
            str(value)
            for client in self._clients
            for name, value in client.items()
            if name.endswith(_SETTING_ENDS_WITH)
        }
        self._paths = sorted(named - {""})
        self._stamps = self._stamps_now()  # before they are read: a change meanwhile is seen later
        self._used = self._options()
        self._due = Deadline.after_s(LOOK_EVERY_S)

    def are_renewed(self) -> bool:
        """Whether the content of a file is another than at the start, and can be used.

        Files are read only after a change. In the middle of one, as when there is a new
        certificate and not its key yet, the answer is no, and the log says why.
        """
        if not self._due.is_over:
            return False
        self._due = Deadline.after_s(LOOK_EVERY_S)
        before, self._stamps = self._stamps, self._stamps_now()
        changed = [p for p in self._paths if self._stamps[p] != before[p]]
        if not changed:
            return False
        try:
            is_other = self._options() != self._used
        except UserError as error:
            log.warning("changed files are not used", why=str(error))
            return False
        if is_other:
            log.info("files are renewed, the query starts again", files=changed)
        return is_other

    def _stamps_now(self) -> Mapping[str, Stamp | None]:
        return {path: stamp(path) for path in self._paths}

    def _options(self) -> list[dict[str, Any]]:
        return [kafka_options("", client) for client in self._clients]
