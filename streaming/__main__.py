"""``python -m streaming`` is ``kafka-twin``."""

from streaming.cli import main

main()
