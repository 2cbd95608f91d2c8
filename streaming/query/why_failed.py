"""Why Spark or Kafka's Java client failed, in one line.

An exception of the client says little (*Failed to create new KafkaAdminClient*); what is wrong is
said by the exceptions that caused it, in the words of its Java settings. The line has the outermost
and the innermost that say something, and our setting. Where a task failed, Spark has the exceptions
as text.

Source: kafka-clients 3.9.2 and Java 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql.streaming.query import StreamingQuery

from streaming.runtime.errors import without_secrets

_LONGEST: Final = 400
_WHAT_RAN: Final = "\n=== Streaming Query ==="
"""Spark's error message ends here; the plan of the query follows, which explains nothing."""

_OF_A_TASK: Final = re.compile(r"^.*executor [^)]*\): (?=[\w.$]+(Exception|Error)\b)")
_THROWN: Final = re.compile(r"^(?:Caused by: )?((?:[\w$]+\.)*[\w$]*(?:Exception|Error))(?:: |$)")
_PACKAGE: Final = re.compile(r"\b(?:[a-z][\w$]*\.){2,}(?=[A-Z]\w*(?:Exception|Error)\b)")
_SAYS_NOTHING: Final = re.compile(
    r"^(\w+: )*(Failed to (create new|construct) (kafka )?(\w*Client|consumer|producer)$"
    r"|Job aborted due to stage failure|\[STREAM_FAILED\]|Traceback \(most recent call last\):)",
    re.IGNORECASE,
)
_OF_KAFKA: Final = ("org.apache.kafka.", "org.apache.spark.sql.kafka010.")

_SETTINGS: Final = (
    (r"No resolvable bootstrap urls", "no name in bootstrap can be resolved"),
    (r"Timed out waiting for a node assignment|Timeout expired while fetching topic metadata",
     "no address in bootstrap answers; a wrong security_protocol or ssl_ciphers ends like this"),
    (r"retrieving token from callback handler",
     "sasl_oauthbearer_* gives no token, kafka-twin check says why"),
    (r"Unable to load credentials|[cC]redentials? provider",
     "AWS' chain has no credentials: see the login AWS_MSK_IAM"),
    (r"token\.endpoint\.url|OAuth", "see sasl_oauthbearer_*"),
    (r"SaslAuthenticationException", "see sasl_*"),
    (r"LoginModule|JAAS|LoginException", "see sasl_mechanism"),
    (r"truststore|CERTIFICATE entries|Failed to load PEM SSL keystore", "see ssl_cafile"),
    (r"PEM keystore|Private key|[kK]ey ?[sS]pec", "see ssl_certfile, ssl_keyfile and ssl_password"),
    (r"SslAuthenticationException|SSLHandshakeException|PKIX",
     "see ssl_cafile, ssl_certfile and ssl_check_hostname"),
)  # fmt: skip
"""What the messages of the Java client mean in settings of a ``client`` section, first match."""


def cause(query: StreamingQuery, kafka: str) -> str:
    """Why a query ended by itself, in one line.

    Args:
        query: that has ended.
        kafka: the cluster it reads from, as the line names it: ``bus 10.0.0.1:9092``.
    """
    failure = query.exception()
    if failure is None:
        return "it ended without a reason"
    # PySpark keeps the class and the message of the outermost exception alone.
    lines = [str(failure), *thrown(query._jsq.exception().get())]
    return in_one_line(lines, kafka)


def first_line(error: Exception) -> str:
    """The message of an exception of the JVM, or of PySpark, cut to one line."""
    lines = thrown(error.java_exception) if isinstance(error, Py4JJavaError) else [str(error)]
    return in_one_line(lines) or type(error).__name__


def thrown(throwable: Any) -> Iterator[str]:
    """The exceptions of the JVM as text, the outermost first."""
    for _ in range(20):  # a chain may be a ring
        if throwable is None:
            return
        yield str(throwable.toString())
        throwable = throwable.getCause()


def in_one_line(texts: Iterable[str], kafka: str = "") -> str:
    """What these exceptions say, without secrets.

    Args:
        texts: of exceptions, the outermost first; the text of one may hold stack traces.
        kafka: the cluster, named if the exceptions are of its client; may be empty.
    """
    whole = [text.partition(_WHAT_RAN)[0] for text in texts]
    lines = [line.strip() for text in whole for line in text.splitlines() if line.strip()]
    errors = [line for line in (_OF_A_TASK.sub("", line) for line in lines) if _THROWN.match(line)]
    said = _most_telling([_PACKAGE.sub("", line.removeprefix("Caused by: ")) for line in errors])
    if not said:
        return without_secrets(lines[-1] if lines else "")[:_LONGEST]
    text = ": ".join(said)
    names = " ".join((text, *errors))
    if any(package in line for package in _OF_KAFKA for line in errors):
        if meaning := next((m for form, m in _SETTINGS if re.search(form, names)), ""):
            text = f"{text[:_LONGEST]} ({meaning})"
        text = f"{kafka}: {text}" if kafka else text
    return without_secrets(text)[: 2 * _LONGEST]


def _most_telling(errors: list[str]) -> list[str]:
    """The outermost and the innermost of these that say something that the other does not."""
    telling = [line for line in errors if not _SAYS_NOTHING.search(line)] or errors[-1:]
    if not telling:
        return []
    first, last = telling[0], telling[-1]
    message = last.partition(": ")[2] or last
    return [last] if message in first or first in last else [first, last]
