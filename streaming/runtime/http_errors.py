"""Why an HTTP server did not answer, in the system's words rather than the client's."""

from __future__ import annotations

import os
import ssl
from typing import Final

from streaming.runtime.kafka import clients

_MOST_CHARACTERS: Final = 120
"""Length of a foreign error in one line: it may repeat what was received."""


def system_error(error: BaseException | None) -> OSError | None:
    """The system's error that the client's error was raised from, the innermost one."""
    innermost = None
    while error is not None:
        if isinstance(error, OSError):
            innermost = error
        elif isinstance(error, BaseExceptionGroup):  # one for each address of a name
            error = error.exceptions[0]
            continue
        error = error.__cause__ or error.__context__
    return innermost


def reason(error: OSError) -> str:
    """The system's words for an error number; the client's text says in which call it occurred."""
    number = error.errno or 0
    if number > 0 and not isinstance(error, ssl.SSLError):  # names that are unknown are below 0
        return os.strerror(number)
    return short(error)


def short(error: BaseException) -> str:
    """A foreign error in one line of bounded length."""
    return clients.one_line(error)[:_MOST_CHARACTERS]


def why(error: BaseException) -> str:
    """Why a request failed: in the system's words if it was the system, else in the client's."""
    cause = system_error(error)
    return short(error) if cause is None else reason(cause)
