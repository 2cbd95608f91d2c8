"""The base class of every error that a user can cause and can put right."""

from __future__ import annotations


class UserError(Exception):
    """A failure whose message is one line for a person: what is wrong, where, and what to do.

    The command line prints the message alone. Any other exception is a bug and shows its traceback.
    """
