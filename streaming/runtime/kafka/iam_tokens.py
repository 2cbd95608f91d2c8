"""Tokens of AWS_MSK_IAM for kafka-python: URLs that AWS' own signer signs on this machine.

Only credentials may be asked for over the network: of a role, a web identity, a container or an
instance. MSK refuses every wrong login with the words "Access denied", so AWS' Security Token
Service is asked then what it thinks of the credentials.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from streaming.runtime.errors import UserError, keep_secret
from streaming.runtime.kafka.iam import MECHANISM, PREFIX, Iam
from streaming.runtime.kafka.tokens import (
    ANSWERS_WITHIN_S,
    MOST_LOGINS,
    Token,
    TokenError,
    TokenProvider,
)

if TYPE_CHECKING:
    from botocore.credentials import Credentials
    from botocore.session import Session

KEPT: Final = 1 / 3
"""Of a token's 900 s: a session ends with its token, and to sign a new one costs little."""

ACCESS_DENIED: Final = "Access denied"
"""MSK's words for a wrong key, secret, session token or region, and for a missing right."""

_ASKED_AGAIN_AFTER_S: Final = 60.0


class SignerMissing(UserError, ImportError):  # noqa: N818 - it is one
    """AWS' signer is not installed; the message says how to install it."""


@lru_cache(maxsize=MOST_LOGINS)
def provider_of(iam: Iam) -> TokenProvider:
    """The provider for these settings: one for all clients of the process.

    Raises:
        SignerMissing: the extra ``iam`` is not installed.
    """
    try:
        # Others need not wait 0.3 s for it, nor the first connection, which asks for a token.
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: F401
    except ImportError:
        raise SignerMissing(
            f"{MECHANISM} needs AWS' signer: pip install 'kafka-twin[iam]'"
        ) from None
    logging.getLogger("botocore").setLevel(logging.WARNING)  # a line for each look at credentials
    return TokenProvider(Signer(iam), {}, kept=KEPT)


class Signer:
    """Signs tokens with the credentials that the settings name."""

    last: Signer | None = None
    """The one that signed last in this process, of which a refusal speaks."""

    def __init__(self, iam: Iam) -> None:
        """Look for nothing yet."""
        self._iam = iam
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._asked = ("", float("-inf"))

    def __call__(self) -> Token:
        """A new token.

        Raises:
            TokenError: there are no credentials, AWS refuses a role, or no region is known.
        """
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore.credentials import CredentialProvider

        region, credentials = self.region(), self._credentials()

        for secret in filter(None, credentials.get_frozen_credentials()[1:3]):
            keep_secret(secret, lasts=False)

        class Given(CredentialProvider):  # type: ignore[misc]
            def load(self) -> Any:
                return credentials

        sign = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider
        text, ends_ms = sign(region, Given())
        Signer.last = self
        return Token(text, ends_ms / 1_000)

    def region(self) -> str:
        """The region of the cluster.

        Raises:
            TokenError: no setting names it.
        """
        if region := self._iam.region or os.environ.get("AWS_REGION"):
            return region
        with _one_line():
            if region := self._opened().get_config_variable("region"):
                return str(region)
        raise TokenError(
            f"{PREFIX}region: is missing, and neither AWS_REGION, AWS_DEFAULT_REGION nor the "
            "profile names a region"
        )

    def why_refused(self) -> str:
        """What AWS says about the credentials that a broker has refused, as a part of a line."""
        with self._lock:
            text, at_s = self._asked
            if time.monotonic() - at_s > _ASKED_AGAIN_AFTER_S:
                text = self._opinion()
                self._asked = text, time.monotonic()
            return text

    def _opinion(self) -> str:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            credentials, region = self._credentials(), self.region()
            key = credentials.access_key
            answer = _sts(self._opened(), region, credentials).get_caller_identity()
        except TokenError as error:
            return str(error)
        except ClientError as error:
            code = _code(error)
            return {
                "InvalidClientTokenId": f"AWS does not know the access key {key}, or not with this "
                "session token",
                "SignatureDoesNotMatch": f"the secret key of the access key {key} is wrong",
                "ExpiredToken": f"the session token of the access key {key} has ended, and nothing "
                "renews it",
            }.get(code, f"AWS answers {code} for the access key {key}")
        except BotoCoreError as error:
            return (
                f"the access key {key}, its secret, its session token, the region {region} or "
                f"a right is wrong; AWS could not be asked which: {_words(error)}"
            )
        return (
            f"AWS calls the credentials right, of {answer['Arn']}: if the login was refused, "
            f"the right kafka-cluster:Connect is missing, or the cluster is not in {region}"
        )

    def _credentials(self) -> Credentials:
        """Keys as they are now. Those that AWS' library renews itself stay with their session, and
        so does their principal; others are read anew, since something else may renew them."""
        from botocore.credentials import Credentials, RefreshableCredentials

        with _one_line():
            session = self._opened()
            credentials = session.get_credentials()
            if credentials is None:
                raise TokenError(
                    "there are no credentials of AWS: none in the environment (AWS_ACCESS_KEY_ID), "
                    "in a profile, of a web identity, a container or an instance"
                )
            if not isinstance(credentials, RefreshableCredentials):
                self._session = None
            if not self._iam.role_arn:
                frozen = credentials.get_frozen_credentials()
                return Credentials(*frozen[:3])
            return self._assumed(session, credentials)

    def _assumed(self, session: Session, own: Credentials) -> Credentials:
        from botocore.credentials import Credentials

        asked = {"RoleArn": self._iam.role_arn, "RoleSessionName": self._iam.session_name}
        if self._iam.role_external_id:
            asked["ExternalId"] = self._iam.role_external_id
        with _one_line(f"the role {self._iam.role_arn} cannot be assumed: "):
            given = _sts(session, self.region(), own).assume_role(**asked)["Credentials"]
        return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])

    def _opened(self) -> Session:
        from botocore.session import Session

        if self._session is None:
            self._session = Session(profile=self._iam.profile or None)
        return self._session


def why_refused() -> str:
    """What AWS says about the last token, as the rest of a line; nothing if none was signed."""
    return f"; {Signer.last.why_refused()}" if Signer.last else ""


def _sts(session: Session, region: str, credentials: Credentials) -> Any:
    """A client of the Security Token Service of the region, with a deadline."""
    from botocore.config import Config

    frozen = credentials.get_frozen_credentials()
    limits = Config(
        connect_timeout=ANSWERS_WITHIN_S,
        read_timeout=ANSWERS_WITHIN_S,
        retries={"total_max_attempts": 1},
    )
    return session.create_client(
        "sts", region_name=region, config=limits, aws_access_key_id=frozen.access_key,
        aws_secret_access_key=frozen.secret_key, aws_session_token=frozen.token,
    )  # fmt: skip


@contextmanager
def _one_line(begin: str = "") -> Iterator[None]:
    """Turn an error of AWS' library into a TokenError of one line."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise TokenError(f"{begin}AWS answers {_code(error)} to {error.operation_name}") from None
    except BotoCoreError as error:
        raise TokenError(f"{begin}{_words(error)}") from None


def _code(error: Any) -> str:
    """AWS' code of an error. Its message may hold what was signed, with a session token."""
    return str(error.response.get("Error", {}).get("Code") or "an error without a code")


def _words(error: Exception) -> str:
    """An error of AWS' library on one line; such errors name files, profiles and addresses."""
    return " ".join(str(error).split())[:300]
