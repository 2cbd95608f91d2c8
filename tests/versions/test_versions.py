"""The twin of clusters of other Kafka releases, held to those releases' own tools.

``make versions`` plays the same story on more of them, and upgrades a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.cluster.conftest import running
from tests.versions.releases import IN_CI, Release
from tests.versions.stage import LOST, cluster_of, stage
from tests.versions.story import BACK, BEFORE, LOST_ONE, Account, play
from twin.declarations.table import UNKNOWN

# Kafka moves leaders by itself on a machine that is too busy, and predictions are about one cause.
pytestmark = [pytest.mark.cluster, pytest.mark.releases]


@pytest.fixture(scope="module", params=IN_CI)
def release(request: pytest.FixtureRequest) -> Release:
    """One release after the other."""
    return Release(request.param)


@pytest.fixture(scope="module")
def account(
    release: Release, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Account]:
    """A broker of three was killed and came back."""
    home = tmp_path_factory.mktemp("release")
    with (
        running(cluster_of(release, home / "cluster"), request.session) as cluster,
        stage(cluster, release) as prepared,
    ):
        yield play(prepared, home)


def test_every_number_is_what_the_tools_of_that_release_say(account: Account) -> None:
    assert set(account.numbers) == {BEFORE, LOST_ONE, BACK}
    for moment, numbers in account.numbers.items():
        assert numbers.wrong == [], moment
        assert numbers.unknown == 0, moment
        assert numbers.right > 250, moment


def test_every_partition_of_a_killed_broker_gets_the_predicted_leader(account: Account) -> None:
    assert account.wrong_predictions == []
    predicted = {key: leader for key, leader, _ in account.predicted}
    assert len(predicted) >= 12
    assert predicted["versions-single", 1] == -1
    assert predicted["versions-behind", 0] == -1
    assert predicted["versions-behind-unclean", 0] == 3
    assert predicted["versions-pair", 0] == 3


def test_a_lost_broker_stays_with_its_rack_and_is_back_when_it_answers(
    account: Account, release: Release
) -> None:
    before = account.brokers[BEFORE]
    assert sorted(before) == [1, 2, 3]
    assert all(row.answered and row.fenced <= 0 for row in before.values())

    lost = account.brokers[LOST_ONE]
    assert lost == before | {LOST: replace(before[LOST], answered=False, fenced=lost[LOST].fenced)}
    assert lost[LOST].fenced in ((1,) if release.lists_fenced else (1, UNKNOWN))

    assert account.brokers[BACK] == before


def test_what_a_release_cannot_say_is_unknown(account: Account) -> None:
    replicas = "partitions.replicas"
    assert f"{replicas}.last_tiered_offset" in account.known_fields  # since 3.9
    assert f"{replicas}.pending_upload_offset" not in account.known_fields  # since 4.2
    assert "partitions.upload_lag_bytes" in account.known_fields


def test_check_finds_all_that_the_twin_needs(account: Account, release: Release) -> None:
    assert account.check.stderr == ""
    assert account.check.returncode == 0
    lines = account.check.stdout.splitlines()
    lacking = [line for line in lines if line.startswith("missing: ")]
    not_asked = ["missing: ListOffsets -6, which Kafka 4.2 and later answer (not brokers 1, 2, 3)"]
    assert [line.split(" -> ")[0] for line in lacking] == [
        *(not_asked if release.number < (4, 2) else []),
        # Of the stage's topics, one keeps nothing on disk.
        "missing: threshold of KIP-1303 within local retention, which is shorter for 1 partition "
        "of 1 topic (versions-idle)",
        "missing: collector.metrics_url is not set",
        # The stage's brokers have Kafka's default.
        "missing: 12 bus partitions have one replica, of topics kafka-twin.observations, "
        "kafka-twin.snapshots, kafka-twin.events",
    ]
