"""What ``check`` says of the archive's size."""

from streaming.checks.cluster_checks import archive_cost
from streaming.history.archive.cost import bytes_a_day
from streaming.runtime.config import ArchiveConfig, Config


def test_a_day_of_a_large_cluster_takes_what_was_measured_and_seldom_measurements_take_less():
    assert 3.7e9 < bytes_a_day(1_000_000, 60_000) < 4.0e9
    assert bytes_a_day(1_000_000, 300_000) < bytes_a_day(1_000_000, 60_000) / 2


def test_check_says_what_a_day_will_take_if_there_is_an_archive():
    assert [*archive_cost(Config(), 3_000)] == []
    config = Config(archive=ArchiveConfig(path="past", retention_ms=864_000_000))
    [found] = archive_cost(config, 300_000)
    assert str(found) == (
        "ok: archive.path = past: about 1159 MB a day for 300000 replicas, and 11.6 GB in the "
        "10 days of archive.retention_ms"
    )
