"""The documentation agrees with the code."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from docs import generate as docs
from docs.pages.markdown import state_tables
from streaming.cli.main import main
from streaming.exporter.views.matrix import Square
from streaming.exporter.web_application import endpoints
from streaming.questions.gate.restart import ALLOWABLE
from tests.exporter.test_exporter import a_client, a_full_store
from twin.builtin import CATALOG
from twin.questions.gate import Reason

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(docs.PAGES))
def test_a_generated_page_is_the_one_that_is_committed(name):
    assert (docs.DOCS / name).read_text() == docs.PAGES[name](), "run: make docs"


def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_between_the_pages_leads_somewhere():
    folders = (ROOT, ROOT / "docs", ROOT / "grafana", ROOT / "deploy" / "kubernetes")
    for page in (path for folder in folders for path in folder.glob("*.md")):
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(linked), f"{page.name}: {target}#{anchor}"


def test_every_command_has_help_that_says_what_it_is_for():
    runner = CliRunner()
    top = runner.invoke(main, ["--help"])
    assert top.exit_code == 0
    for command in ("demo", "cluster", "collector", "query", "exporter", "run", "tail", "check"):
        assert command in top.output
        shown = runner.invoke(main, [command, "--help"])
        assert shown.exit_code == 0
        assert shown.output.startswith("Usage: ")


def commands_below(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command and every group of them, by what a user types."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from commands_below(command, f"{path}{name} ")


@pytest.mark.parametrize(
    "command", [pytest.param(command, id=name) for name, command in commands_below(main)]
)
def test_the_summary_of_a_command_is_a_sentence_that_is_not_cut(command: click.Command):
    summary = command.get_short_help_str(limit=1_000)
    assert 0 < len(summary) <= 45
    assert summary.endswith(".")


def test_no_list_of_commands_is_cut():
    groups = {"": main} | {n: c for n, c in commands_below(main) if isinstance(c, click.Group)}
    assert len(groups) > 4
    for name in groups:
        shown = CliRunner().invoke(main, [*name.split(), "--help"], terminal_width=80)
        _, commands, listed = shown.output.partition("Commands:\n")
        assert commands, name
        assert "..." not in listed


def test_a_wrong_configuration_is_one_line_and_no_traceback(tmp_path):
    path = tmp_path / "twin.toml"
    path.write_text("[cluster]\nname = 5\n")
    for command in ("collector", "query", "exporter", "run", "check"):
        ended = CliRunner().invoke(main, ["--config", str(path), command])
        assert ended.exit_code == 1
        assert ended.output == f"Error: {path}: cluster.name: Expected `str`, got `int`\n"


def test_every_risk_has_a_section_in_the_runbook_and_no_other_has():
    runbook = (docs.DOCS / "runbook.md").read_text(encoding="utf-8")
    sections = {line.removeprefix("## ") for line in runbook.splitlines() if line.startswith("## ")}
    risks = {risk.name for risk in CATALOG.all_risks}
    assert risks <= sections
    assert {name for name in sections if "_" in name} <= risks


def test_every_reason_and_option_of_the_gate_is_explained():
    page = (docs.DOCS / "gate.md").read_text(encoding="utf-8")
    words = set(re.findall(r"`([a-z_0-9]+)", page))
    assert {reason.name.lower() for reason in Reason} <= words
    assert {f"allow_{name}" for name in ALLOWABLE} <= words


BY_ELECTION_RULE = {"next_leaders", "standing", "if_leader_lost", "election_rules"}
NAMED_BY_DATA = {"risks", "cluster_risks", "racks", "read_replicas", "settings"} | BY_ELECTION_RULE
NUMBERS_BY_LABELS = {"metrics"} | {metric.name for metric in CATALOG.all_metrics if metric.labels}


def fields(answer: Any) -> set[str]:
    """Names of all fields, at any depth: not of risks, racks, election rules, values of labels."""
    if isinstance(answer, list):
        return set[str]().union(*map(fields, answer))
    if not isinstance(answer, dict):
        return set()
    inner = [list(v.values()) if k in NAMED_BY_DATA and isinstance(v, dict) else v
             for k, v in answer.items() if k not in NUMBERS_BY_LABELS]  # fmt: skip
    return set(answer) | fields(inner)


def test_every_field_parameter_and_word_of_the_api_is_explained_and_no_other():
    client = a_client(a_full_store())
    declared = endpoints(CATALOG)
    parameters = [item for each in declared for item in (each.parameters or {}).items()]
    served = {name for name, parameter in parameters if parameter.place == "query"}
    served |= {each.path.rpartition("/")[2] for each in declared if "/whatif/" in each.path}
    for path in (
        "summary", "brokers", "brokers/log-dirs", "partitions", "groups", "groups/replay",
        "problems",
    ):  # fmt: skip
        served |= fields(client.get(f"/api/v1/{path}").json())
    served |= fields(client.get("/api/v1/predictions").json()["predictions"])
    page = (docs.DOCS / "api.md").read_text(encoding="utf-8")
    shown = [c for table in state_tables(CATALOG) for c in table.columns if c.in_api]
    words = {word.name.lower() for c in shown for kind in (c.enum, c.flags) for word in kind or ()}
    words |= {square.name.lower() for square in Square}
    explained = set(re.findall(r"`([a-z_0-9-]+)`", page))
    assert served | words <= explained, (served | words) - explained
    rows = re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z_0-9]+)`", row)}
    assert named <= served | words, named - served - words
