"""Grafana's HTTP API, as far as the twin uses it: a folder, dashboards, annotations.

The only file that uses grafana-api. That client treats an empty answer as an error and does not
apply our time limits; both are corrected here. Other failures become a ``GrafanaError`` of one
line. ``again`` says whether a retry may help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import requests
from grafana_api.grafana_api import GrafanaClientError, GrafanaException, GrafanaServerError
from grafana_api.grafana_face import GrafanaFace

from streaming.runtime.config import GrafanaConfig
from streaming.runtime.errors import UserError

T = TypeVar("T")

_EXISTS: Final = (409, 412)
"""Status codes for a folder that exists: 409 up to Grafana 9, 412 since."""


_MISSING: Final = 404


class GrafanaError(UserError, RuntimeError):
    """A request to Grafana failed: one line with the request and the reason."""

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again


class GrafanaClient:
    """One Grafana, by its URL and a token, or a user and a password."""

    def __init__(self, settings: GrafanaConfig) -> None:
        """Keep the settings; no request is sent yet.

        Raises:
            GrafanaError: no URL, or neither a token nor a user is configured.
        """
        url = urlsplit(settings.url)
        if not url.hostname:
            raise GrafanaError("grafana.url is not set; it is like https://grafana.example.org")
        if not settings.token and not (settings.user and settings.password):
            raise GrafanaError(
                "Grafana needs a token or a user: set KAFKA_TWIN_GRAFANA_TOKEN, or "
                "KAFKA_TWIN_GRAFANA_USER and KAFKA_TWIN_GRAFANA_PASSWORD"
            )
        self._url = settings.url.rstrip("/")
        path = url.path.strip("/")
        self._face = GrafanaFace(
            settings.token or (settings.user, settings.password),
            host=url.hostname,
            port=url.port,
            protocol=url.scheme,
            url_path_prefix=f"{path}/" if path else "",
            timeout=settings.timeout_ms / 1_000,
        )

    def ensure_folder(self, uid: str, title: str) -> None:
        """Create the folder unless it exists.

        Raises:
            GrafanaError: it cannot be created.
        """
        try:
            self._result_of(f"folder {title}", lambda: self._face.folder.create_folder(title, uid))
        except GrafanaError as error:
            if not isinstance(error.__cause__, GrafanaClientError) or (
                error.__cause__.status_code not in _EXISTS
            ):
                raise

    def dashboard(self, uid: str) -> Mapping[str, Any] | None:
        """The dashboard with that uid; None if there is none.

        Raises:
            GrafanaError: it cannot be read.
        """
        try:
            answer = self._result_of(
                f"dashboard {uid}", lambda: self._face.dashboard.get_dashboard(uid)
            )
        except GrafanaError as error:
            cause = error.__cause__
            if isinstance(cause, GrafanaClientError) and cause.status_code == _MISSING:
                return None
            raise
        found: Mapping[str, Any] | None = answer.get("dashboard")
        return found

    def save_dashboard(self, dashboard: Mapping[str, Any], folder_uid: str, message: str) -> str:
        """Save a dashboard, replacing one with the same uid; returns its URL.

        Raises:
            GrafanaError: it is refused, e.g. because it is provisioned from a file.
        """
        body = {
            "dashboard": {**dashboard, "id": None},
            "folderUid": folder_uid,
            "overwrite": True,
            "message": message,
        }
        what = f"dashboard {dashboard.get('title', '?')}"
        answer = self._result_of(what, lambda: self._face.dashboard.update_dashboard(body))
        return f"{self._url}{answer.get('url', '') if isinstance(answer, dict) else ''}"

    def annotate(
        self, text: str, tags: Sequence[str], at_ms: int, until_ms: int | None = None
    ) -> None:
        """Mark a time on all dashboards that show one of the tags.

        Raises:
            GrafanaError: it is refused, or Grafana does not answer.
        """
        self._result_of(
            "annotation",
            lambda: self._face.annotations.add_annotation(
                time_from=at_ms, time_to=until_ms, tags=list(tags), text=text
            ),
        )

    def _result_of(self, what: str, ask: Callable[[], T]) -> T | dict[str, Any]:
        try:
            return ask()
        except GrafanaServerError as error:
            raise GrafanaError(self._described(what, error), again=True) from error
        except GrafanaException as error:
            again = error.status_code in (408, 429)
            raise GrafanaError(self._described(what, error), again=again) from error
        except requests.exceptions.JSONDecodeError as error:
            if not error.doc.strip():
                return {}  # 204, or an empty body: it is done
            raise GrafanaError(
                f"{self._url}: {what}: the answer is no JSON; is this Grafana?"
            ) from error
        except requests.RequestException as error:
            why = "no answer in time" if isinstance(error, requests.Timeout) else _reason(error)
            raise GrafanaError(f"{self._url}: {what}: {why}", again=True) from error

    def _described(self, what: str, error: GrafanaException) -> str:
        body = error.response
        message = body.get("message") if isinstance(body, dict) else str(body)
        line = " ".join(str(message or "no reason given").split())[:300]
        return f"{self._url}: {what}: {error.status_code}: {line}"


def _reason(error: BaseException) -> str:
    """The innermost cause; requests wraps it three times."""
    cause: BaseException = error
    while (inner := getattr(cause, "reason", None) or cause.__context__) is not None and isinstance(
        inner, BaseException
    ):
        cause = inner
    text = " ".join(str(getattr(cause, "strerror", None) or cause).split())
    return text.rpartition(": ")[2][:200] or type(cause).__name__
