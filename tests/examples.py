"""How many examples Hypothesis makes of a test that takes long for each.

A few of them in each run, many in every fourth run of CI (``EXAMPLES=many``), and all of them with
``EXAMPLES=all``. The examples of each run are others, so what one run misses is found by another.
"""

from __future__ import annotations

import math
import os
from typing import Final

from hypothesis import settings

SHARES: Final = {"few": (0.1, 15), "many": (0.3, 50), "all": (1.0, math.inf)}
"""Of the examples, and no more than that. A cycle of the smallest state takes 5 ms of CPU time, and
some examples a hundred cycles: two of 4 300 tests took a sixth of the time of all."""

_ASKED: Final = os.environ.get("EXAMPLES", "few")
ARE_FEW: Final = _ASKED == "few"
SHARE, MOST = SHARES[_ASKED]

LEAST: Final = 5


def examples(most: int) -> settings:
    """The settings of a test with that many examples at most; Hypothesis' own default is 100."""
    some = max(LEAST, min(MOST, math.ceil(most * SHARE)))
    return settings(max_examples=min(most, int(some)))
