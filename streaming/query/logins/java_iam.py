"""AWS_MSK_IAM for Spark's Java client: AWS' login for it, and the region for which it signs.

Java logs in to buses alone: what else the programs ask a cluster, they ask with kafka-python.

Source: software.amazon.msk:aws-msk-iam-auth 2.4.0, MSKCredentialProvider and
IAMOAuthBearerLoginCallbackHandler; the AWS SDK for Java 2, DefaultAwsRegionProviderChain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from streaming.query.logins.jaas import jaas
from streaming.runtime import jars
from streaming.runtime.config import ConfigError
from streaming.runtime.kafka.iam import Iam, iam_of
from streaming.runtime.kafka.iam_tokens import Signer
from streaming.runtime.kafka.tokens import TokenError

Clients = Iterable[Mapping[str, Any]]
"""The client settings of the buses that Java logs in to."""

_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_HANDLER: Final = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
REGION: Final = "aws.region"
"""The system property that AWS' SDK reads first. The login itself has no option for it."""


def options(iam: Iam) -> dict[str, str]:
    """Settings of the Java client."""
    named = {
        "awsProfileName": iam.profile,
        "awsRoleArn": iam.role_arn,
        "awsRoleSessionName": iam.session_name if iam.role_arn else "",
        "awsRoleExternalId": iam.role_external_id,
        "awsStsRegion": Signer(iam).region() if iam.role_arn else "",
    }
    given = {name: value for name, value in named.items() if value}
    if given:  # otherwise it would log in as somebody else where these credentials fail
        given["awsAddDefaultProviders"] = "false"
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": _HANDLER,
        "sasl.jaas.config": jaas(_MODULE, given),
    }


def jars_for(clients: Clients) -> list[Path]:
    """The jars that the logins of these buses need; none if nobody logs in by AWS_MSK_IAM.

    Raises:
        JarError: one is missing, and cannot be fetched.
    """
    return jars.ensure("iam") if any(map(iam_of, clients)) else []


def set_region(spark: SparkSession, clients: Clients) -> None:
    """Set the region in the driver's JVM; it may come from AWS_DEFAULT_REGION or a profile.

    Of buses in several regions it is that of the first one; ``require_region`` refuses the others.

    Raises:
        TokenError: no region is known.
    """
    if region := region_of(clients):
        _java_system(spark).setProperty(REGION, region)


def of_executors(clients: Clients) -> dict[str, str]:
    """Spark's setting of the region for executors on other machines.

    Raises:
        TokenError: no region is known.
    """
    region = region_of(clients)
    return {"spark.executorEnv.AWS_REGION": region} if region else {}


def require_region(spark: SparkSession, client: Mapping[str, Any]) -> None:
    """Refuse a bus that is not in the region for which this JVM signs.

    Raises:
        ConfigError: the bus is in another region, or the JVM has no region.
        TokenError: no region is known.
    """
    region = region_of([client])
    if not region:
        return
    in_jvm = _java_system(spark).getProperty(REGION)
    if not in_jvm:
        raise ConfigError(
            "bus.client.sasl_mechanism: the login for AWS_MSK_IAM is loaded when the program "
            "starts, and no bus needed it then: restart the program"
        )
    if region != in_jvm:
        raise ConfigError(
            f"bus.client.sasl_aws_region: this bus is in {region}, and this program signs requests "
            f"for {in_jvm}: AWS' login for Java supports one region in a process; give the "
            "clusters of each region a configuration file and programs of their own"
        )


def region_of(clients: Clients) -> str:
    """The region of the first bus whose region is known; empty if no bus needs AWS_MSK_IAM.

    Raises:
        TokenError: no region is known.
    """
    failure: TokenError | None = None
    for iam in filter(None, map(iam_of, clients)):
        try:
            return Signer(iam).region()
        except TokenError as error:
            failure = error
    if failure is not None:
        raise failure
    return ""


def _java_system(spark: SparkSession) -> Any:
    """Java's class of system properties, in the JVM of the driver."""
    assert spark.sparkContext._jvm is not None
    return spark.sparkContext._jvm.java.lang.System
