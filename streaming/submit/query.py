"""Entry point for spark-submit: runs ``kafka-twin query`` in the session that spark-submit made.

Arguments are those of the command, such as ``repartition 8``.
"""

import os
import sys

from streaming.cli.main import main

os.environ["KAFKA_TWIN_QUERY_MASTER"] = ""  # the file may name another one, for kafka-twin run
main(["query", *sys.argv[1:]])
