"""How many examples Hypothesis makes of a test that takes long for each.

All of them in CI and with ``tests/run --all``, fewer where somebody waits for the result. The
examples of each run are others, so what a few miss in one run is found in another.
"""

from __future__ import annotations

import math
import os
from typing import Final

from hypothesis import settings

THOROUGH: Final = bool(os.environ.get("CI") or os.environ.get("ALL_EXAMPLES"))

QUICK_SHARE: Final = 0.2
"""Of the examples, outside CI. A cycle of the smallest state takes 5 ms of CPU time: the property
tests that run cycles took 120 of the 400 s of all tests that start nothing."""

LEAST: Final = 10
QUICK_MOST: Final = 100


def examples(most: int) -> settings:
    """The settings of a test with that many examples in CI; Hypothesis' own default is 100."""
    quick = max(LEAST, min(QUICK_MOST, math.ceil(most * QUICK_SHARE)))
    return settings(max_examples=most if THOROUGH else min(most, quick))
