"""The base class of every error that a user can cause and can put right."""

from __future__ import annotations

import re
from typing import Final

_USERINFO: Final = re.compile(r"//\S*@")


def without_secrets(text: str) -> str:
    """The text with the user and the password of each URL in it masked."""
    return _USERINFO.sub("//***@", text)


class UserError(Exception):
    """A failure whose message is one line for a person: what is wrong, where, and what to do.

    The command line prints the message alone. Any other exception is a bug and shows its traceback.
    """

    def __init__(self, *args: object) -> None:
        """Mask what a URL in the message may hold."""
        super().__init__(*(without_secrets(a) if isinstance(a, str) else a for a in args))
