"""The report of what the scripts did, made of what the twin recorded meanwhile."""

from __future__ import annotations

import re
import time
from contextlib import closing
from pathlib import Path

from streaming.history.capsules.capsule_past import CapsulePast
from streaming.history.capsules.opening import Capsule
from streaming.history.capsules.recording import recorded
from streaming.history.capsules.saving import save
from streaming.history.report.making import report_of
from streaming.history.report.writing.render import rendered
from streaming.runtime.configuration.loading import load
from streaming.runtime.plugins import catalog_of


def report_since(from_ms: int, config_file: Path, capsule: Path) -> str:
    """What has happened since a moment, as Markdown; the past of that span is in the capsule then.

    The links lead to the console of the capsule, once ``kafka-twin capsule open`` serves it at the
    exporter's port.

    Args:
        from_ms: a moment of the last hour, for which the bus keeps observations.
        config_file: configuration of the twin.
        capsule: the file to write.

    Raises:
        UserError: nothing was recorded since then, or the file cannot be written.
    """
    config, to_ms = load(config_file), time.time_ns() // 1_000_000
    catalog = catalog_of(config)
    save(recorded(config, to_ms), catalog, from_ms, to_ms, capsule)
    with closing(Capsule(capsule)) as opened:
        past = CapsulePast(opened)
        span = past.span
        made = report_of(past, catalog, config.cluster.name, span.begin_ms, span.end_ms)
    return rendered(made, "md", f"http://127.0.0.1:{config.exporter.port}/")


def as_text(markdown: str) -> str:
    """A report for a terminal: without links, escapes and the marks of bold text."""
    text = re.sub(r"\[([^\]]+)\]\(<[^>]*>\)", r"\1", markdown).replace("&#8203;", "")
    text = re.sub(r"(?<!\\)\*\*|(?<!\\)\*(?=\()|(?<=\))\*", "", text)
    return re.sub(r"\\([^A-Za-z0-9\s])", r"\1", text)
