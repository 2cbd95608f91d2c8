"""The Prometheus rules: valid, about metrics that exist, tested, and explained in the runbook."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from grafana.queries import LABELS
from tests.grafana.test_dashboards import nodes, parsed, selectors
from twin.builtin import CATALOG
from twin.declarations.declare import Risk

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RULES = sorted(FOLDER.glob("rules/*.rules.yml"))
TESTS = sorted(FOLDER.glob("tests/*.test.yml"))
ALERTS: list[dict[str, Any]] = [
    rule
    for path in RULES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
]
CASES: list[dict[str, Any]] = [
    case
    for path in TESTS
    for test in yaml.safe_load(path.read_text())["tests"]
    for case in test["alert_rule_test"]
]

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None and not os.environ.get("CI"),
    reason="promtool is not on the PATH; it is in Debian's package prometheus",
)


def by_name(alert: dict[str, Any]) -> str:
    return str(alert["alert"])


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_the_example_configuration_and_its_rules_are_valid():
    assert promtool("check", "rules", *RULES).count("SUCCESS") == len(RULES)
    promtool("check", "config", FOLDER / "prometheus.yml")


@needs_promtool
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_every_alert_fires_is_silent_below_and_resolves(path: Path):
    promtool("test", "rules", path)


@pytest.mark.parametrize("alert", ALERTS, ids=by_name)
def test_it_has_a_case_that_fires_and_silent_ones_before_and_after(alert):
    mine = [case for case in CASES if case["alertname"] == alert["alert"]]
    fires = [bool(case["exp_alerts"]) for case in mine]
    assert any(fires)
    assert not fires[0]
    assert not all(fires[fires.index(True) :]), "it never resolves"


@pytest.mark.parametrize("alert", ALERTS, ids=by_name)
def test_alerts_of_clusters_are_apart(alert):
    """Whatever is put together or compared is of one cluster; that none is there has no cluster."""
    tree = parsed(alert["expr"])
    for group in nodes(tree, promql_parser.AggregateExpr):
        assert group.modifier is not None, alert["expr"]
        assert "cluster" in group.modifier.labels, alert["expr"]
    for matched in re.findall(r"\b(?:on|ignoring) \(([^)]*)\)", alert["expr"]):
        assert matched.startswith("cluster"), alert["expr"]


@pytest.mark.parametrize("alert", ALERTS, ids=by_name)
def test_every_metric_exists(alert):
    named = {selector.name for selector in selectors(parsed(alert["expr"]))}
    assert named
    assert named <= LABELS.keys(), named - LABELS.keys()


@pytest.mark.parametrize("alert", ALERTS, ids=by_name)
def test_an_alert_says_what_a_person_needs(alert):
    assert re.fullmatch(r"KafkaTwin[A-Z]\w+", alert["alert"])
    assert alert["labels"]["severity"] in ("page", "warn", "info")
    assert alert["for"]
    assert alert["keep_firing_for"]
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    assert "$labels.cluster" in notes["summary"]


@pytest.mark.parametrize("alert", ALERTS, ids=by_name)
def test_its_runbook_section_exists(alert):
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert page.endswith("/docs/runbook.md")
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("risk", CATALOG.all_risks, ids=lambda risk: risk.name)
def test_a_risk_has_one_name_in_its_alert_label_expression_runbook_and_api(risk: Risk):
    [alert] = [alert for alert in ALERTS if alert["labels"].get("risk") == risk.name]
    camel_case = risk.name.replace("_", " ").title().replace(" ", "")
    assert alert["alert"] == f"KafkaTwin{camel_case}"
    assert alert["labels"]["severity"] == risk.severity
    assert f'risk="{risk.name}"' in alert["expr"]
    assert alert["annotations"]["runbook_url"].endswith(f"#{risk.name}")
    path = {"partition": f"partitions?risk={risk.name}", "broker": "brokers", "cluster": "summary"}
    assert alert["annotations"]["description"].endswith(f"/api/v1/{path[risk.per]}.")


def test_no_alert_is_about_a_risk_that_is_not_there():
    named = {alert["labels"]["risk"] for alert in ALERTS if "risk" in alert["labels"]}
    assert named == {risk.name for risk in CATALOG.all_risks}


@pytest.mark.parametrize("alert", ALERTS, ids=by_name)
def test_it_is_one_of_a_cause_and_not_one_of_a_partition(alert):
    grouped = re.match(r"(count|max|min|sum) by \(([\w, ]+)\)", alert["expr"])
    assert grouped
    assert grouped[2] in (
        "cluster",
        "cluster, broker",
        "cluster, broker, rack",
        "cluster, reason",
        "cluster, source",
    )
