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
p { margin: 0 0 .6rem; color: var(--muted); }
a { color: var(--accent); text-underline-offset: 3px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
section, figure.pictures { background: var(--card); border: 1px solid var(--line);
  border-radius: 8px;
  padding: 1rem 1.2rem; margin: 1rem 0 0; }
ul { margin: 0; padding-left: 1.1rem; }
li { padding: .15rem 0; overflow-wrap: anywhere; }
li a, td a { font-variant-numeric: tabular-nums; white-space: nowrap; }
li:has(> strong):not(:first-child) { border-top: 1px solid var(--line); margin-top: .5rem;
  padding-top: .5rem; }
main { counter-reset: cause; }
strong[id] { font-weight: 600; }
strong[id]::before { counter-increment: cause; content: counter(cause) ". "; }
em { color: var(--muted); font-size: .85rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); font-size: .85rem; font-weight: 600; }
td:first-child { min-width: 7.5rem; color: var(--muted); }
tbody tr:last-child > * { border-bottom: 0; }
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
@media (max-width: 40rem) { main { padding: .8rem; } td:first-child { min-width: 0; }
  section, figure.pictures { padding: .8rem; } }
@media print { body { background: none; } section, figure.pictures { break-inside: avoid;
  border: 0; } }
"""

STYLE_HASH: Final = f"'sha256-{base64.b64encode(sha256(STYLE.encode()).digest()).decode()}'"
"""For a content security policy that allows this style alone."""
