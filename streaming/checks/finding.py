"""The result of one check, printed as one line, and one below it with a command that mends it."""

from __future__ import annotations

from dataclasses import dataclass

from streaming.checks.rights import Right, grant_to_user
from streaming.runtime.config import Config
from streaming.runtime.errors import without_secrets


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check; ``without`` is what is unavailable, empty if the check passed."""

    what: str
    without: str = ""
    essential: bool = False
    mend: str = ""  # the command that puts it right, printed below

    def __str__(self) -> str:
        said = f"missing: {self.what} -> {self.without}" if self.without else f"ok: {self.what}"
        return without_secrets(f"{said}\nmend: {self.mend}" if self.mend else said)


@dataclass(frozen=True, slots=True)
class SourceResult(CheckResult):
    """How one source of the collector came about; what fails is a finding of its own."""

    def __str__(self) -> str:
        return without_secrets(f"source {self.what}")


def missing(
    config: Config, right: Right, more: str = "", *, essential: bool = False
) -> CheckResult:
    """The result for a right that was refused, with the command that grants it."""
    mend = grant_to_user(config, right)
    return CheckResult(f"{right}{more}", right.without, essential, mend)


def not_known(right: Right, why: str) -> CheckResult:
    """The result for a right of which it is not known whether it is granted.

    Args:
        right: the right.
        why: the end of the sentence, which begins with "not known".
    """
    return CheckResult(f"{right}: not known{why}", right.without)


def there(right: Right) -> CheckResult:
    """The result for a granted right."""
    return CheckResult(f"{right}: {', '.join(right.wants)}")
