"""Metrics that the tap serves about itself (``metrics.tap_port``)."""

from __future__ import annotations

from typing import Final, Literal

from streaming.runtime.exposition.build import build_info, declared
from twin.declarations.declare import Metric


def _of_a_broker(
    name: str, text: str, *labels: str, kind: Literal["counter", "gauge"] = "counter"
) -> Metric:
    return Metric(f"tap_{name}", text, labels=("broker", *labels), type=kind)


BUILD: Final = build_info("tap")
LINES: Final = _of_a_broker("lines", "Lines that the tap read from the broker's logs.")
ROWS: Final = _of_a_broker(
    "rows",
    "Rows that the tap made from the broker's logs and encoded for the bus, by table.",
    "table",
)
ROWS_WAITING: Final = _of_a_broker(
    "rows_waiting",
    "Rows that the tap has not encoded yet: the name of their topic is not known, or they wait for "
    "a later line.",
    kind="gauge",
)
MESSAGES: Final = _of_a_broker(
    "messages", "Messages that the tap gave to the bus; those that did not arrive are dropped too."
)
REFUSED: Final = _of_a_broker(
    "refused",
    "Lines that have the form of a known kind and cannot be read by the tap, by reason.",
    "reason",
)
DROPPED: Final = _of_a_broker(
    "dropped",
    "Rows and messages that the tap did not send: rows, rows of an unknown_topic, messages.",
    "what",
)
SKIPPED_BYTES: Final = _of_a_broker(
    "skipped_bytes",
    "Bytes of the broker's logs that the tap skipped because lines came too fast.",
)
BEHIND_BYTES: Final = _of_a_broker(
    "behind_bytes",
    "Bytes of the broker's log files that are written and that the tap has not read.",
    kind="gauge",
)
LOGS: Final = _of_a_broker(
    "logs",
    "Logs of the broker that the tap follows, by whether they can be read.",
    "state",
    kind="gauge",
)

OWN: Final = declared(globals())
