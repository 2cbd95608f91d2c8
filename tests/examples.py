"""How many examples Hypothesis makes of a test that takes long for each.

A part of them in CI, fewer where somebody waits for the result, and all of them with
``ALL_EXAMPLES=1``. The examples of each run are others, so what one run misses is found by another.
"""

from __future__ import annotations

import math
import os
from typing import Final

from hypothesis import settings

ALL: Final = bool(os.environ.get("ALL_EXAMPLES"))

IN_CI: Final = bool(os.environ.get("CI"))

SHARE, MOST = (0.3, 50) if IN_CI else (0.1, 20)
"""Of the examples, and no more than that. A cycle of the smallest state takes 5 ms of CPU time, and
some examples a hundred cycles: two of 4 300 tests took a sixth of the time of all."""

LEAST: Final = 10


def examples(most: int) -> settings:
    """The settings of a test with that many examples at most; Hypothesis' own default is 100."""
    some = max(LEAST, min(MOST, math.ceil(most * SHARE)))
    return settings(max_examples=most if ALL else min(most, some))
