"""AWS_MSK_IAM in a ``client`` section: as whom both Kafka clients log in at Amazon MSK.

Both log in by OAUTHBEARER with a URL that AWS' own library signs, which MSK takes at the same port
as AWS_MSK_IAM. Keys come from AWS' usual chain of credentials, so that none is a setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

MECHANISM: Final = "AWS_MSK_IAM"
PREFIX: Final = "sasl_aws_"
SESSION_NAME: Final = "kafka-twin"
"""Of a role. It stays the same: a broker refuses a new login of a connection as somebody else."""

_FORMS: Final = {
    "region": (r"[a-z]{2,}(-[a-z0-9]+)+", "must be like eu-west-1"),
    "role_arn": (
        r"arn:aws[a-z-]*:iam::\d{12}:role/\S+",
        "must be like arn:aws:iam::123456789012:role/kafka-twin",
    ),
    "role_session_name": (r"[\w+=,.@-]{2,64}", "must be 2 to 64 letters, digits or any of +=,.@-_"),
}
_OF_A_ROLE: Final = ("role_session_name", "role_external_id")
_OF_MSK: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:")


class IamError(ValueError):
    """A setting cannot be used: ``KEY: reason``."""


@dataclass(frozen=True, slots=True)
class Iam:
    """As whom clients log in; the names of the settings follow ``sasl_aws_``.

    Attributes:
        region: of the cluster; empty: that of the environment or of the profile.
        profile: of AWS' configuration files; empty: the usual chain of credentials.
        role_arn: a role that is assumed with these credentials; empty: none.
        role_session_name: its name in AWS' logs, and a part of the principal; empty: kafka-twin.
        role_external_id: what the role's owner asks for beside it; empty: nothing.
    """

    region: str = ""
    profile: str = ""
    role_arn: str = ""
    role_session_name: str = ""
    role_external_id: str = ""

    @property
    def session_name(self) -> str:
        """The name of the role's session."""
        return self.role_session_name or SESSION_NAME


def iam_of(client: Mapping[str, Any], bootstrap: str = "") -> Iam | None:
    """Read the settings of AWS_MSK_IAM in the section; None if it has another mechanism.

    Args:
        client: the section.
        bootstrap: addresses of the cluster; those of MSK name its region.

    Raises:
        IamError: a setting is missing, makes no sense, or belongs to another mechanism.
    """
    given = {name: str(value) for name, value in client.items() if name.startswith(PREFIX)}
    if client.get("sasl_mechanism") != MECHANISM:
        for name in given:
            raise IamError(f"{name}: needs sasl_mechanism = {MECHANISM!r}")
        return None
    if (protocol := client.get("security_protocol")) != "SASL_SSL":
        raise IamError(f"security_protocol: {MECHANISM} needs SASL_SSL, not {protocol or 'none'}")
    known = {f"{PREFIX}{field.name}" for field in fields(Iam)}
    for name in sorted(given.keys() - known):
        raise IamError(f"{name}: is none of {', '.join(sorted(known))}")
    iam = Iam(**{name.removeprefix(PREFIX): value for name, value in given.items()})
    for key, reason in _faults(iam, bootstrap):
        raise IamError(f"{PREFIX}{key}: {reason}")
    return iam


def _faults(iam: Iam, bootstrap: str) -> Iterator[tuple[str, str]]:
    """Names of settings, without the prefix, and what is wrong with each."""
    for name, (form, reason) in _FORMS.items():
        value = getattr(iam, name)
        if value and not re.fullmatch(form, value):
            yield name, reason
    if iam.profile and iam.role_arn:
        yield "role_arn", f"set either this or {PREFIX}profile: a profile names its role itself"
    for name in _OF_A_ROLE:
        if getattr(iam, name) and not iam.role_arn:
            yield name, f"needs {PREFIX}role_arn"
    for region in _OF_MSK.findall(bootstrap):
        if iam.region and iam.region != region:
            yield "region", f"is {iam.region}, and bootstrap has an address in {region}"
