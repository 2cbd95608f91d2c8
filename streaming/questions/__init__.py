"""Questions that the command line and the exporter answer alike, from the newest snapshots.

``QUESTIONS`` has every question that a module of this folder declares, so a new question is a new
file.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from streaming.questions.question import Question, questions_of

QUESTIONS: Final[dict[str, Question]] = questions_of(
    import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)
)
