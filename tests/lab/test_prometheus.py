"""The Prometheus of the demo."""

from streaming.lab.prometheus import WAITS_CUT_TO_S, with_short_waits


def test_waits_of_rules_are_cut_and_nothing_else():
    rules = "    - expr: x > 5m\n      for: 5m\n      keep_firing_for: 10m\n      for: 0s\n"
    assert with_short_waits(rules) == (
        f"    - expr: x > 5m\n      for: {WAITS_CUT_TO_S}s\n"
        f"      keep_firing_for: {WAITS_CUT_TO_S}s\n      for: 0s\n"
    )
