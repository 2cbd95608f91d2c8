#!/bin/sh
# kafka-twin-alive [PROGRAM [SECONDS]]: success if the program got on in the last SECONDS (60).
# Without PROGRAM: whichever runs here. PROGRAM is collector, query, archive, exporter or tap.
set -eu
program=${1:-*} seconds=${2:-60}
recent=$(find "${KAFKA_TWIN_HEALTH_FOLDER:-/tmp}" -maxdepth 1 -name "$program.alive" -newermt "$seconds seconds ago")
[ -n "$recent" ]
