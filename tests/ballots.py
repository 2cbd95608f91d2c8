"""Ballots of tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin.rules.election.ballots import Ballot


def warm_first(eligible: NDArray[np.bool_]) -> NDArray[np.int16]:
    """[P, R] slots in KIP-1303's order, given who holds enough local log."""
    everywhere = np.ones(eligible.shape, bool)
    return Ballot(everywhere, (~eligible).astype(np.int8)).order(everywhere)
