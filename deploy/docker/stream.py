"""What spark-submit runs: ``kafka-twin stream``, in the session that it was given."""

from streaming.cli import main

main(["stream"])
