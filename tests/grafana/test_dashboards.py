"""The dashboards ask only for what is exported, and stay what is committed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final

import promql_parser
import pytest
import yaml

from grafana.__main__ import DASHBOARDS, FOLDER, text
from grafana.layout import TAG, WIDTH, Dashboard
from grafana.queries import ELECTION_POLICIES, LABELS, Scope
from streaming.grafana.annotate import KINDS
from streaming.grafana.commands import BY_HAND
from tests.grafana.pages import ROOT, Json, each_dashboard, panels
from twin.builtin import CATALOG
from twin.cluster_rules.disks.dir_contents import CLASSES
from twin.engine.shard_state import ShardState
from twin.kafka.election import Outcome

PROVISIONING = ROOT / "grafana" / "provisioning"


def queries(dashboard: Dashboard) -> Iterator[tuple[str, str, str]]:
    """(panel's title, expression, legend) of every target, and the variables' own queries."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target.get("legendFormat", "")
    for variable in dashboard.variables:
        definition = variable.get("definition", "")
        if asked := re.fullmatch(r"label_values\((.+), (\w+)\)", definition):
            yield variable["name"], f"max by ({asked[2]}) ({asked[1]})", ""
        elif definition:
            yield variable["name"], definition.removeprefix("query_result(").removesuffix(")"), ""


def parsed(expr: str) -> promql_parser.Expr:
    """The query with Grafana's own variables filled in, as Grafana does before it asks."""
    return promql_parser.parse(re.sub(r"\$__(rate_interval|range)", "1m", expr))


def nodes(expr: promql_parser.Expr, kind: type) -> list[Any]:
    matches: list[Any] = []
    promql_parser.walk(expr, lambda node: matches.append(node) if isinstance(node, kind) else None)
    return matches


def selectors(expr: promql_parser.Expr) -> list[promql_parser.VectorSelector]:
    ranged = [matrix.vector_selector for matrix in nodes(expr, promql_parser.MatrixSelector)]
    return ranged + nodes(expr, promql_parser.VectorSelector)


def variables_in(value: Json) -> set[str]:
    """Names of the dashboard's variables a part of it uses; Grafana's own begin with two bars."""
    names = re.findall(r"\$\{?(\w+)", json.dumps(value))
    return {name for name in names if not name.startswith("__")}


def label_values() -> dict[str, set[str]]:
    """The values that a label has on any cluster, by the label's name."""
    state = ShardState.empty(CATALOG, "c", 0, 1)
    values: dict[str, set[str]] = {}
    for metric in CATALOG.metrics:
        if metric.labels and metric.compute is not None:
            for chosen in metric.compute(**state.arguments(metric.reads)):
                for label, value in zip(metric.labels, chosen, strict=True):
                    values.setdefault(label, set()).add(value)
    return values


# ------------------------------------------------------------ files


@each_dashboard
def test_a_committed_dashboard_is_the_one_that_is_generated(dashboard):
    assert (FOLDER / f"{dashboard.uid}.json").read_text() == text(dashboard), "run: make docs"


def test_no_dashboard_is_committed_that_nothing_generates():
    assert {path.stem for path in FOLDER.iterdir()} == {d.uid for d in DASHBOARDS}


def test_provisioning_reads_the_folder_of_the_dashboards_and_a_prometheus():
    [provider] = yaml.safe_load((PROVISIONING / "dashboards" / "kafka-twin.yaml").read_text())[
        "providers"
    ]
    assert provider["type"] == "file"
    assert provider["options"]["path"] == "$KAFKA_TWIN_DASHBOARDS"
    sources = yaml.safe_load((PROVISIONING / "datasources" / "kafka-twin.yaml").read_text())
    by_type = {source["type"]: source for source in sources["datasources"]}
    assert set(by_type) == {"prometheus", "alertmanager"}
    alertmanager = by_type["prometheus"]["jsonData"]["alertmanagerUid"]
    assert alertmanager == by_type["alertmanager"]["uid"]


# ------------------------------------------------------------ queries


@each_dashboard
def test_every_query_parses_and_asks_for_metrics_that_are_exported(dashboard):
    for title, expr, _ in queries(dashboard):
        names = {selector.name for selector in selectors(parsed(expr))}
        assert names, f"{title}: {expr}"
        assert names <= set(LABELS), f"{title}: {expr}"


@each_dashboard
def test_every_label_that_is_matched_grouped_by_or_shown_is_on_the_metric(dashboard):
    for title, expr, legend in queries(dashboard):
        tree = parsed(expr)
        for selector in selectors(tree):
            matched = {matcher.name for matcher in selector.matchers.matchers}
            assert matched <= set(LABELS[str(selector.name)]), f"{title}: {expr}"
        for group in nodes(tree, promql_parser.AggregateExpr):
            by = set(group.modifier.labels) if group.modifier else set()
            for selector in selectors(group):
                assert by <= set(LABELS[str(selector.name)]), f"{title}: {expr}"
        shown = set(re.findall(r"{{(\w+)}}", legend))
        grouped = {
            label
            for group in nodes(tree, promql_parser.AggregateExpr)
            for label in (group.modifier.labels if group.modifier else ())
        }
        assert shown <= grouped, f"{title}: {legend}"


@each_dashboard
def test_every_query_is_of_one_cluster_or_of_those_that_are_chosen(dashboard):
    """But for the one that lists the clusters."""
    cluster = "$clusters" if dashboard.is_of_fleet else "$cluster"
    for title, expr, _ in queries(dashboard):
        for selector in selectors(parsed(expr)):
            chosen = {m.name: m.value for m in selector.matchers.matchers}
            assert title in ("cluster", "clusters") or chosen["cluster"] == cluster, title


@each_dashboard
def test_every_value_of_a_label_that_is_asked_for_is_one_the_twin_gives(dashboard):
    possible = {
        **label_values(),
        "class": set(CLASSES),
        "bound": {"earliest", "latest", "line"},
        "risk": {risk.name for risk in CATALOG.all_risks},
        "severity": {risk.severity for risk in CATALOG.all_risks},
    }
    for title, expr, _ in queries(dashboard):
        for selector in selectors(parsed(expr)):
            for matcher in selector.matchers.matchers:
                if "$" not in matcher.value and matcher.name != "topic":
                    asked = set(matcher.value.split("|"))
                    assert asked <= possible[matcher.name], f"{title}: {expr}"


def test_an_election_policy_has_a_panel_if_the_twin_knows_it():
    assert {"now", *ELECTION_POLICIES} == label_values()["rule"]


@pytest.mark.parametrize("rule", ELECTION_POLICIES)
def test_the_matrix_has_every_outcome_of_losing_a_broker(rule):
    [cluster] = [d for d in DASHBOARDS if d.uid == "kafka-twin-cluster"]
    asked = {
        matcher.value
        for title, expr, _ in queries(cluster)
        if title.startswith("If a broker were lost now") and f'rule="{rule}"' in expr
        for selector in selectors(parsed(expr))
        for matcher in selector.matchers.matchers
        if matcher.name == "outcome"
    }
    assert asked == {outcome.name.lower() for outcome in Outcome}


@pytest.mark.parametrize(
    ("panel", "metric"),
    [
        ("Time until a disk is full", "kafka_twin_log_dir_full_seconds"),
        ("How long remote storage may be away", "kafka_twin_tier_outage_survived_seconds"),
    ],
)
def test_a_time_that_is_not_in_sight_is_not_on_the_axis_of_those_that_are(panel, metric):
    [cluster] = [d for d in DASHBOARDS if d.uid == "kafka-twin-cluster"]
    [expr] = [expr for title, expr, _ in queries(cluster) if title == panel]
    tree = parsed(expr)
    assert [selector.name for selector in selectors(tree)] == [metric]
    assert str(tree.op) == "<"
    assert tree.rhs.val == float("inf")


def test_a_query_for_a_label_the_metric_has_not_is_refused():
    with pytest.raises(KeyError, match="kafka_twin_up has no label rule"):
        Scope().series("up", rule="kafka")


# ------------------------------------------------------------ variables and links


@each_dashboard
def test_every_variable_that_is_used_is_offered_and_every_one_offered_is_used(dashboard):
    page = dashboard.json()
    offered = {variable["name"] for variable in page["templating"]["list"]}
    assert variables_in(page) == offered


@each_dashboard
def test_a_variable_depends_only_on_variables_before_it(dashboard):
    before: set[str] = set()
    for variable in dashboard.variables:
        assert variables_in(variable) <= before, variable["name"]
        before.add(variable["name"])


@each_dashboard
def test_every_dashboard_is_listed_at_the_top_of_the_others(dashboard):
    page = dashboard.json()
    assert page["tags"] == [TAG]
    siblings, console = page["links"]
    assert siblings["tags"] == [TAG]
    assert (console["type"], console["title"]) == ("link", "Console")


def test_the_partition_dashboard_opens_on_a_topic_at_risk_and_last_on_an_internal_one():
    """By the order in which Prometheus returns topics; the first one is the default."""
    [page] = [d for d in DASHBOARDS if d.uid == "kafka-twin-partition"]
    [variable] = [v for v in page.variables if v["name"] == "topic"]
    assert variable["sort"] == 0, "Grafana keeps the order"
    ranks = re.findall(r"\((\w+{[^}]*})\) \* 0 \+ (\d)", variable["definition"])
    assert [int(rank) for _, rank in ranks] == [4, 3, 2, 1, 0]
    for series, rank in ranks:
        assert ("topic!~" in series) == (rank != "0"), "internal topics, whatever their risks"
    [name] = re.findall(variable["regex"].strip("/"), '{topic="orders.eu_1-x"} 4 1769000000000')
    assert name == "orders.eu_1-x"


# ------------------------------------------------------------ what fits, and what is shown

PX: Final = (1600 - 32) / WIDTH
"""Width of a column of Grafana's grid in a window of 1600 px."""

TITLE_PX: Final = 110
"""Width of the icon, the menu and the margins around the title of a panel."""


@each_dashboard
def test_a_title_fits_its_panel(dashboard):
    for panel in panels(dashboard):
        assert 7.5 * len(panel["title"]) + TITLE_PX <= panel["gridPos"]["w"] * PX, panel["title"]


@each_dashboard
def test_the_columns_of_a_table_fit_its_width_and_none_is_too_narrow_for_its_header(dashboard):
    for panel in panels(dashboard):
        if panel["type"] == "table":
            [organize] = [t for t in panel["transformations"] if t["id"] == "organize"]
            columns = set(organize["options"]["renameByName"].values())
            widths = {
                override["matcher"]["options"]: each["value"]
                for override in panel["fieldConfig"]["overrides"]
                for each in override["properties"]
                if each["id"] == "custom.minWidth"
            }
            assert widths.keys() == columns, panel["title"]
            assert all(px >= 7 * len(name) for name, px in widths.items()), panel["title"]
            assert sum(widths.values()) <= panel["gridPos"]["w"] * PX - 16, panel["title"]
            assert "filterable" not in panel["fieldConfig"]["defaults"]["custom"], "hides headers"


@each_dashboard
def test_timelines_and_bar_charts_are_not_coloured_by_thresholds(dashboard):
    """Grafana would merge states by threshold, and fill all bars as the first, hidden or not."""
    for panel in panels(dashboard):
        if panel["type"] in ("state-timeline", "barchart", "timeseries"):
            colour = panel["fieldConfig"]["defaults"]["color"]["mode"]
            assert colour != "thresholds", panel["title"]


@each_dashboard
def test_an_axis_with_a_lowest_value_does_not_go_to_100_where_all_values_are_that(dashboard):
    for panel in panels(dashboard):
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["type"] != "barchart" or defaults["min"] == 0, panel["title"]
        is_chart = panel["type"] in ("timeseries", "barchart")
        if is_chart and "min" in defaults and "max" not in defaults:
            above = 0.01 if panel["type"] == "timeseries" and defaults["unit"] == "s" else 1
            assert defaults["custom"]["axisSoftMax"] == defaults["min"] + above, panel["title"]


@each_dashboard
def test_no_more_than_five_numbers_stand_side_by_side(dashboard):
    by_band: dict[int, int] = {}
    for panel in panels(dashboard):
        if panel["type"] == "stat":
            by_band[panel["gridPos"]["y"]] = by_band.get(panel["gridPos"]["y"], 0) + 1
    assert max(by_band.values(), default=0) <= 5


# ------------------------------------------------------------ panels


def test_every_dashboard_has_its_own_uid_of_a_length_grafana_takes():
    uids = [dashboard.uid for dashboard in DASHBOARDS]
    assert len(set(uids)) == len(uids)
    assert max(map(len, uids)) <= 40


@each_dashboard
def test_every_panel_has_an_id_of_its_own(dashboard):
    ids = [panel["id"] for panel in dashboard.json()["panels"]]
    assert len(set(ids)) == len(ids)
    assert min(ids) > 0


@each_dashboard
def test_no_two_panels_overlap_and_all_are_on_the_grid(dashboard):
    places = [panel["gridPos"] for panel in dashboard.json()["panels"]]
    for place in places:
        assert place["w"] > 0
        assert place["x"] + place["w"] <= WIDTH
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, f"{one} {other}"


@each_dashboard
def test_every_panel_says_what_it_shows_and_every_value_has_a_unit(dashboard):
    for panel in panels(dashboard):
        assert panel["description"].endswith("."), panel["title"]
        assert len(panel["description"]) <= 250, panel["title"]
        config = panel["fieldConfig"]
        units = [p for o in config["overrides"] for p in o["properties"] if p["id"] == "unit"]
        assert "unit" in config["defaults"] or units or panel["title"] == "Its risks"


@each_dashboard
def test_every_target_has_a_letter_of_its_own(dashboard):
    for panel in panels(dashboard):
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters) > 0, panel["title"]


@each_dashboard
def test_every_column_that_is_renamed_or_coloured_is_a_column_of_the_table(dashboard):
    for panel in panels(dashboard):
        for change in panel.get("transformations", []):
            if change["id"] == "organize":
                names = set(change["options"]["renameByName"].values())
                matched = {o["matcher"]["options"] for o in panel["fieldConfig"]["overrides"]}
                assert matched <= names, panel["title"]


@each_dashboard
def test_what_the_exporter_marks_is_shown_on_the_panels_that_it_concerns(dashboard):
    """By the tags that streaming.grafana.annotate gives."""
    ids = {panel["id"] for panel in panels(dashboard)}
    marks = dashboard.json()["annotations"]["list"]
    assert bool(marks) == (dashboard.uid not in ("kafka-twin-itself", "kafka-twin-fleet"))
    for each in marks:
        twin, cluster, kind, *topics = each["target"]["tags"]
        assert (twin, cluster) == ("kafka-twin", "cluster:$cluster")
        assert kind in KINDS | {BY_HAND}
        assert topics in ([], ["topic:$topic"])
        assert topics == [] or dashboard.uid == "kafka-twin-partition"
        assert 0 < len(each["filter"]["ids"]) <= 3
        assert set(each["filter"]["ids"]) <= ids
    shown = [each["target"]["tags"][2] for each in marks if each["enable"]]
    assert shown in ([], [BY_HAND, "broker_fenced", "broker_unfenced"])
    assert len({each["iconColor"] for each in marks}) == len(marks)


@each_dashboard
def test_a_table_says_why_it_is_empty(dashboard):
    """Grafana shows a header alone if a table has several queries."""
    for panel in panels(dashboard):
        if panel["type"] == "table":
            assert len(panel["targets"]) == 1, panel["title"]
            assert panel["fieldConfig"]["defaults"]["noValue"], panel["title"]


def test_no_link_hands_all_topics_to_the_dashboard_of_one_partition():
    one, others = {}, {}
    for dashboard in DASHBOARDS:
        for variable in dashboard.variables:
            there = one if dashboard.uid == "kafka-twin-partition" else others
            there[variable["name"]] = variable.get("multi", False)
    assert not any(one.values())
    assert not {name for name, is_multi in others.items() if is_multi} & one.keys()


def test_a_stack_has_no_lines_and_its_colours_have_meanings():
    for dashboard in DASHBOARDS:
        for panel in panels(dashboard):
            custom = panel["fieldConfig"]["defaults"].get("custom", {})
            if custom.get("stacking", {}).get("mode") == "normal":
                assert custom["lineWidth"] == 0, panel["title"]


def test_what_is_read_first_fits_a_few_screens():
    """145 panels, none of them collapsed, were not read."""
    of_cluster, of_fleet = (
        [
            panel
            for d in DASHBOARDS
            if d.is_of_fleet == is_of_fleet
            for panel in d.json()["panels"]
            if panel["type"] != "row"
        ]
        for is_of_fleet in (False, True)
    )
    assert len(of_cluster) <= 100
    assert len(of_fleet) <= 12


def test_the_first_screen_says_which_broker_is_down():
    [cluster] = [d for d in DASHBOARDS if d.uid == "kafka-twin-cluster"]
    by_title = {panel["title"]: panel["gridPos"] for panel in panels(cluster)}
    assert by_title["Brokers down"]["y"] + by_title["Brokers down"]["h"] <= 8
    assert by_title["Brokers"]["y"] <= 13
