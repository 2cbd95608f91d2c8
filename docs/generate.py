"""The pages of docs/ that are made from the code; ``make docs`` runs this.

A test compares the committed pages with what this writes, so they cannot fall behind.
"""

from __future__ import annotations

from pathlib import Path

from streaming.checks.rights import Right, rights
from streaming.runtime.config import Config
from twin.metrics import METRICS, TAP_METRICS, Metric
from twin.rules.election import LossOutcome
from twin.rules.risks import RULES
from twin.tables import ALL, Table

DOCS = Path(__file__).resolve().parent

_WHEN = {
    "always": "Always",
    "topic": "Per topic (granularity topic or partition)",
    "partition": "Per partition (granularity partition; at any granularity where a risk holds)",
    "replica": "Per replica (as per partition)",
}


def metrics() -> str:
    """docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "Made by `make docs` from `twin/metrics.py`. Every series carries `cluster`. What is",
        "unknown has no series: the one negative value is a leader of -1, which means no leader.",
        "A series goes with its partition.",
    ]
    for level, title in _WHEN.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| metric | type | labels | meaning |",
            "|---|---|---|---|",
        ]
        lines += [_metric(metric) for metric in METRICS if metric.level == level]
    lines += [
        "",
        "## Of `kafka-twin tap --metrics-port`",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
        *map(_metric, TAP_METRICS),
    ]
    lines += ["", "## Values of labels", "", "`outcome`, best first: "]
    lines[-1] += ", ".join(f"`{outcome.name.lower()}`" for outcome in LossOutcome) + "."
    lines += [
        "",
        "`rule`: `kafka` (Kafka 4.x today), `kip1303` (KIP-1303, not in any Kafka yet).",
        "",
    ]
    lines += [
        "A `risk` opens when its condition has held for so long, and closes when it has been gone",
        "for so long; both in seconds.",
        "",
        "| `risk` | `severity` | meaning | opens after | closes after | source |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{rule.name}` | {rule.severity} | {rule.sentence} | {rule.open_after_ms / 1000:g}"
        f" | {rule.close_after_ms / 1000:g} | {rule.source} |"
        for rule in RULES
    ]
    return "\n".join(lines) + "\n"


def _metric(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


def tables() -> str:
    """docs/tables.md."""
    lines = [
        "# Tables",
        "",
        "Made by `make docs` from `twin/tables.py`. A message on the bus is one or more frames,",
        "each an Arrow IPC stream of one of these tables; its metadata holds `kind`, `version`,",
        "`cluster`, `shard`, `shards`, `observed_at_ms`, `cycle`, `part`, `parts` and `complete`.",
        "Kinds that begin with `fleet.` are the twin's state and its snapshots; the others are",
        'observations. -1 is "not known" in offset, time and size columns, and in yes/no columns.',
    ]
    for table in ALL.values():
        lines += _table(table)
    return "\n".join(lines) + "\n"


def _table(table: Table) -> list[str]:
    lines = ["", f"## {table.kind}", "", f"Version {table.version}. {table.meaning}", ""]
    lines += ["| column | type | meaning | read from |", "|---|---|---|---|"]
    for column in table.columns:
        kind = str(column.dtype).replace("|", "\\|")
        if kind.startswith("dictionary"):
            kind = f"dictionary of {column.dtype.value_type}"
        lines.append(f"| `{column.name}` | {kind} | {column.meaning} | {column.source or '-'} |")
    return lines


_RIGHTS_BEGIN = "<!-- made by `make docs` from streaming/checks/rights.py -->"
_RIGHTS_END = "<!-- end -->"


def security() -> str:
    """docs/security.md: written by hand, but for the table of rights."""
    page = (DOCS / "security.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(_RIGHTS_BEGIN)
    _, _, after = rest.partition(_RIGHTS_END)
    table = ["| right | for | used by | without it |", "|---|---|---|---|"]
    table += [_right(right) for right in rights(Config())]
    return "\n".join([f"{before}{_RIGHTS_BEGIN}", *table, f"{_RIGHTS_END}{after}"])


def _right(right: Right) -> str:
    what = f"`{right.operation}` {str(right).removeprefix(f'{right.operation} ')}"
    wants = ", ".join(right.wants) + (f" (`{right.option}`)" if right.option else "")
    return f"| {what} | {wants} | {', '.join(right.programs)} | {right.without} |"


PAGES = {"metrics.md": metrics, "tables.md": tables, "security.md": security}


def main() -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
