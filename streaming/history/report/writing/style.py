"""The style of a report's page, and its digest for a content security policy."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --ground: #f4f6f9; --card: #fff; --text: #1c2128;
  --muted: #57606a;
  --line: #d5dbe3; --accent: #1d57b5; --bad: #c9302a; --warn: #b4770c; --calm: #2f6fdf; }
@media (prefers-color-scheme: dark) { :root { --ground: #0e1217; --card: #161b22; --text: #e6ebf1;
  --muted: #9ba7b4; --line: #30373f; --accent: #82b1ff; --bad: #ff6b60; --warn: #e0a33f;
  --calm: #5b95f5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system,
  "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .6rem; }
p { margin: 0 0 .6rem; } .muted { color: var(--muted); }
a { color: var(--accent); text-underline-offset: 3px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
section, figure.pictures { background: var(--card); border: 1px solid var(--line);
  border-radius: 8px;
  padding: 1rem 1.2rem; margin: 1rem 0 0; }
.time { font-variant-numeric: tabular-nums; white-space: nowrap; }
ul { list-style: none; margin: 0; padding: 0; }
li { display: grid; grid-template-columns: 4.9rem 1fr; gap: 0 .6rem; padding: .22rem 0;
  overflow-wrap: anywhere; }
li.plain { display: list-item; list-style: disc; margin-left: 1.1rem; }
li.cause { font-weight: 600; border-top: 1px solid var(--line); margin-top: .5rem;
  padding-top: .6rem; }
li.cause:first-child { border-top: 0; margin-top: 0; padding-top: 0; }
li small { color: var(--muted); font-size: .85rem; font-weight: 400; }
.d1 { padding-left: 1rem; } .d2 { padding-left: 2rem; } .d3 { padding-left: 3rem; }
.d4 { padding-left: 4rem; }
.sure { display: inline-block; border: 1px solid var(--line); border-radius: 99px;
  padding: 0 .5rem;
  font-size: .78rem; color: var(--muted); }
.sure.inferred { border-style: dashed; font-style: italic; }
.number { display: inline-block; min-width: 1.4rem; padding: 0 .3rem; border-radius: 99px;
  margin-right: .4rem;
  text-align: center; background: var(--text); color: var(--card); font-size: .8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); font-size: .85rem; font-weight: 600; }
tbody th { min-width: 7.5rem; font-weight: 400; color: var(--muted); }
tbody tr:last-child > * { border-bottom: 0; }
.unknown { color: var(--muted); font-style: italic; }
.pictures figcaption { display: flex; justify-content: space-between; font-size: .85rem;
  color: var(--muted);
  margin-top: .5rem; } .pictures figcaption b { font-weight: 600; }
.pictures svg { display: block; border-bottom: 1px solid var(--line); }
.pictures svg.marks { border: 0; overflow: visible; } .pictures text { fill: var(--accent);
  font-size: 12px;
  font-weight: 600; }
rect.bad { fill: var(--bad); } rect.warn { fill: var(--warn); } rect.calm { fill: var(--calm); }
.axis { display: flex; justify-content: space-between; margin: .3rem 0 0; font-size: .82rem;
  color: var(--muted); font-variant-numeric: tabular-nums; }
@media (max-width: 40rem) { main { padding: .8rem; } tbody th { min-width: 0; }
  section, figure.pictures { padding: .8rem; }
  li { grid-template-columns: 1fr; } .d1, .d2, .d3, .d4 { padding-left: .7rem;
  border-left: 2px solid var(--line); }
  .d2 { margin-left: .6rem; } .d3 { margin-left: 1.2rem; } .d4 { margin-left: 1.8rem; } }
@media print { body { background: none; } section, figure.pictures { break-inside: avoid;
  border: 0; } }
"""

STYLE_HASH: Final = f"'sha256-{base64.b64encode(sha256(STYLE.encode()).digest()).decode()}'"
"""For a content security policy that allows this style alone."""
