"""``python -m streaming`` is ``kafka-twin``."""

from streaming.cli.main import main

main()
