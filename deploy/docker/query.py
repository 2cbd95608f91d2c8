"""What spark-submit runs: ``kafka-twin query``, in the session that it was given."""

from streaming.cli.main import main

main(["query"])
