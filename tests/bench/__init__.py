"""Figures that the documentation quotes, one JSON line each."""

from __future__ import annotations

import json
import os
from typing import Any


def figure(name: str, value: float, unit: str, **about: Any) -> None:
    """Print one figure with the load average beside it: these figures move with the machine."""
    line = {"figure": name, "value": round(value, 4), "unit": unit, **about}
    print(json.dumps(line | {"load": round(os.getloadavg()[0], 1)}), flush=True)
