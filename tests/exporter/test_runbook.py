"""The runbook's sections for the open risks of a partition, and the values in their commands."""

from __future__ import annotations

from typing import Any

from streaming.exporter.views.runbook import for_cluster, for_partition, runbook
from tests.builders import Partition, a_state
from tests.exporter.test_exporter import a_client, with_events
from twin.builtin import CATALOG


def a_partition(*risks: str, **others: Any) -> dict[str, Any]:
    of = {"topic": "orders", "partition": 7, "risks": [*risks], "leader": 3, "groups": []}
    return of | others


def steps_of(partition: dict[str, Any], address: str = "broker-1:9092") -> dict[str, str]:
    [section] = for_partition(partition, address)["sections"]
    return {each["step"]: each["text"] for each in section["steps"]}


def test_each_risk_of_partitions_has_a_meaning_and_says_how_to_confirm_it_and_when_it_is_harmless():
    assert {risk.name for risk in CATALOG.risks} <= set(runbook())
    for name, section in runbook().items():
        steps = [each["step"] for each in section["steps"]]
        assert section["meaning"], name
        assert steps in (["confirm", "do", "harmless"], ["confirm", "harmless"]), name
        assert not any("](" in each["text"] for each in section["steps"]), name


def test_commands_have_the_partitions_own_names():
    steps = steps_of(a_partition("transaction_open"))
    assert "--bootstrap-server broker-1:9092 find-hanging --broker-id 3" in steps["confirm"]
    assert "--topic orders --partition 7" in steps["confirm"]


def test_what_is_not_known_stays_a_placeholder():
    steps = steps_of(a_partition("transaction_open", leader=-1), address="")
    assert "--bootstrap-server BOOTSTRAP find-hanging --broker-id LEADER" in steps["confirm"]


def test_the_one_group_of_a_partition_is_named_unless_a_shell_would_read_its_id_otherwise():
    def confirm(*groups: str) -> str:
        read = [{"group": each} for each in groups]
        return steps_of(a_partition("consumer_loses_records", groups=read))["confirm"]

    assert "--describe --group billing`" in confirm("billing")
    assert "--describe --group G`" in confirm("billing", "audit")
    assert "--describe --group G`" in confirm("$(reboot)")


def test_the_exporter_serves_the_sections_of_open_risks():
    client = a_client(with_events(a_state(Partition(isr=(1,)), min_insync_replicas=2)))
    about = "/api/v1/partitions/t/0"
    risks = client.get(about).json()["risks"]
    assert "under_min_isr" in risks
    sections = client.get(f"{about}/runbook").json()["sections"]
    assert [section["risk"] for section in sections] == risks
    assert client.get("/api/v1/partitions/t/9/runbook").status_code == 404


def test_commands_for_a_broker_have_its_id_where_one_broker_has_the_risk():
    def steps(risk: str, *brokers: int) -> str:
        [section] = for_cluster({risk: brokers}, "broker-1:9092")["sections"]
        return " ".join(each["text"] for each in section["steps"])

    silent = steps("broker_silent", 4)
    assert "`kafka-broker-api-versions.sh --bootstrap-server broker-1:9092`" in silent
    unregister = "`kafka-cluster.sh unregister --bootstrap-server broker-1:9092 --id"
    assert f"{unregister} 4`" in steps("broker_left_over", 4)
    assert f"{unregister} N`" in steps("broker_left_over", 4, 5)


def test_every_risk_of_brokers_and_of_the_cluster_has_a_section():
    names = [risk.name for risk in CATALOG.cluster.risks]
    found = for_cluster(dict.fromkeys(names, ()), "")["sections"]
    assert [section["risk"] for section in found] == names
