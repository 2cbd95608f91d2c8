"""The example for a cluster that Strimzi runs: its rights are those of the list, and no others."""

from __future__ import annotations

from typing import Any, Final

import yaml

from streaming.checks.rights import is_on, rights
from streaming.runtime.config import Config
from streaming.runtime.configuration.loading import load
from tests.deploy.test_kubernetes import ROOT

FOLDER: Final = ROOT / "deploy/examples/strimzi"

OPTIONAL: Final = {right for right in rights(Config()) if not is_on(Config(), right.option)}


def granted(user: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Operation, resource and name of each right, in the words of the list."""
    found = set()
    for acl in user["spec"]["authorization"]["acls"]:
        of = acl["resource"]
        kind = of["type"].replace("transactionalId", "transactional-id")
        name = of.get("name", "*") + ("*" if of.get("patternType") == "prefix" else "")
        found |= {(operation, kind, name) for operation in acl["operations"]}
    return found


def listed(optional: bool) -> set[tuple[str, str, str]]:
    return {
        (right.operation.title().replace("_", ""), right.resource, right.name)
        for right in rights(Config())
        if (right in OPTIONAL) == optional
    }


def test_the_user_has_the_rights_of_the_list_and_no_others():
    user = yaml.safe_load((FOLDER / "kafka-user.yaml").read_text())
    assert granted(user) == listed(optional=False)


def test_what_only_a_command_needs_is_a_comment():
    text = (FOLDER / "kafka-user.yaml").read_text()
    without_marks = text.replace("      # - ", "      - ").replace("      #   ", "        ")
    user = yaml.safe_load(without_marks)
    assert granted(user) == listed(optional=False) | listed(optional=True)
    assert listed(optional=True)


def test_the_user_is_that_of_the_settings_and_of_the_cluster():
    config = load(FOLDER / "twin.toml", {})
    user = yaml.safe_load((FOLDER / "kafka-user.yaml").read_text())
    [kafka] = yaml.safe_load_all((FOLDER / "kafka.yaml").read_text())
    assert user["metadata"]["name"] == config.cluster.client["sasl_plain_username"]
    name = user["metadata"]["labels"]["strimzi.io/cluster"]
    assert name == kafka["metadata"]["name"] == config.cluster.name
    [listener] = kafka["spec"]["kafka"]["listeners"]
    assert config.cluster.bootstrap == f"{name}-kafka-bootstrap:{listener['port']}"
    mechanism = listener["authentication"]["type"]
    assert config.cluster.client["sasl_mechanism"].lower() == mechanism
    assert user["spec"]["authentication"]["type"] == mechanism
