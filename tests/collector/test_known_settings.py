"""The list of Kafka's settings against what the collector reads."""

from collections import Counter

from streaming.collector.settings.config_values import BROKER_KEYS, BROKER_OWN_KEYS, TOPIC_KEYS
from streaming.collector.settings.known import SETTINGS, Use

READ = {*TOPIC_KEYS, *BROKER_KEYS, *BROKER_OWN_KEYS}


def test_every_setting_that_is_read_is_listed_as_used_and_no_other():
    assert {setting.name for setting in SETTINGS if setting.use is Use.USED} == READ


def test_no_setting_is_listed_twice_at_a_level():
    counts = Counter((setting.name, setting.level) for setting in SETTINGS)
    assert not [key for key, count in counts.items() if count > 1]
