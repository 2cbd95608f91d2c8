"""Remote storage away for hours: when disks are full, what is out of reach, and the way back."""

from __future__ import annotations

from streaming.questions.tier_outage.tier_outage import tier_outage

__all__ = ("tier_outage",)
