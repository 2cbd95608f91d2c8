"""Entry point for spark-submit: runs ``kafka-twin query`` in the session that spark-submit made."""

from streaming.cli.main import main

main(["query"])
