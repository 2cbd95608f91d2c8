"""AWS_MSK_IAM for Spark's Java client: AWS' login for it, and the region that its JVM is told.

Source: software.amazon.msk:aws-msk-iam-auth 2.4.0, MSKCredentialProvider and
IAMOAuthBearerLoginCallbackHandler; the AWS SDK for Java 2, DefaultAwsRegionProviderChain.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from streaming.query.logins.jaas import jaas
from streaming.runtime import jars
from streaming.runtime.config import Config, ConfigError
from streaming.runtime.kafka.iam import Iam, iam_of
from streaming.runtime.kafka.iam_tokens import Signer

_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_HANDLER: Final = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_REGION: Final = "aws.region"
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


def jars_for(config: Config) -> list[Path]:
    """The jars that the login needs; none if nobody logs in by it.

    Raises:
        JarError: one is missing, and cannot be fetched.
    """
    return jars.ensure("iam") if _used(config) else []


def tell_region(spark: SparkSession, config: Config) -> None:
    """Tell the driver's JVM the region, which may come from AWS_DEFAULT_REGION or a profile.

    Raises:
        ConfigError: cluster and bus are in two regions.
        TokenError: no region is known.
    """
    if region := _region(config):
        assert spark.sparkContext._jvm is not None
        spark.sparkContext._jvm.java.lang.System.setProperty(_REGION, region)


def of_executors(config: Config) -> dict[str, str]:
    """Spark's setting that tells executors on other machines the region.

    Raises:
        ConfigError, TokenError: as ``tell_region``.
    """
    region = _region(config)
    return {"spark.executorEnv.AWS_REGION": region} if region else {}


def _region(config: Config) -> str:
    """The region; empty if nobody logs in by AWS_MSK_IAM."""
    regions = sorted({Signer(iam).region() for iam in _used(config)})
    if len(regions) > 1:
        raise ConfigError(
            f"bus.client.sasl_aws_region: cluster and bus are in {' and '.join(regions)}, and "
            "AWS' login for the query's Java client knows one region: keep the bus in the same"
        )
    return regions[0] if regions else ""


def _used(config: Config) -> list[Iam]:
    logins = (iam_of(client) for client in (config.cluster.client, config.bus_client))
    return [iam for iam in logins if iam]
