"""Plays the tests: which runs of pytest there are, which of them are due, and in what order.

``make test``, ``make test-all`` and ``.ci/run`` are ``python -m tests.runner``. It reads
declarations (``runs.py``, ``groups.py``), asks git what has changed (``history.py``) and the
imports what depends on it (``imports.py``), decides (``due.py``), plays as much at a time as the
cores allow and no more than the time allows (``schedule.py``, ``playing.py``), plays again what
failed (``again.py``), and says in the last lines what holds (``report.py``). It knows nothing of
the tests themselves, and no test knows of it but for ``inside.py``, which runs in their processes.
"""
