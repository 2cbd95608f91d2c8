"""The report of the demo's scripts, for a terminal."""

from __future__ import annotations

from streaming.history.report.writing.markdown import escaped, link
from streaming.lab.scripts.script_report import as_text


def test_what_markdown_needs_is_not_printed():
    names = ["__remote_log_metadata-1 [2]", "1) first", "a*b ** c", "http://evil | x"]
    for name in names:
        assert as_text(escaped(name)) == name
    moment = link("http://127.0.0.1:9410/", 1_800_000_000_000)
    line = f"* {moment} **{escaped('broker 2 was lost')}** (orders-1) *(certain)*"
    assert as_text(line) == "* 08:00:00 broker 2 was lost (orders-1) (certain)"
