#!/bin/sh
# Restart brokers batch by batch, in the order that kafka-twin plans from the live state.
#
#   rolling-restart.sh COMMAND BROKER...
#   rolling-restart.sh 'ssh -n "kafka-$BROKER" sudo systemctl restart kafka' 1 2 3 4 5
#
# COMMAND is run for each broker of a batch at the same time, with the broker's id as $BROKER. It
# must not return before the old process has ended, and must fail if the restart has failed.
#
# A broker that may not be restarted yet is waited for. If the time is over, or a command fails, the
# script ends, says which brokers are left, and has restarted nothing else.
#
# Environment:
#   KAFKA_TWIN  how to call kafka-twin, e.g. "kafka-twin --config twin.toml"
#   TERMS       options of the gate, e.g. "--margin 1 --allow-rf1"
#   BATCHES     options of plan roll alone, e.g. "--racks --most 3"
#   WAIT        how long to wait for each answer, 15m by default
set -u

twin=${KAFKA_TWIN:-kafka-twin}
limit=${WAIT:-15m}
if [ $# -lt 2 ]; then
    echo "usage: $0 COMMAND BROKER..." >&2
    exit 2
fi
command=$1
shift
left="$*"

options() { # --broker for each id
    for id in "$@"; do printf -- '--broker %s ' "$id"; done
}

give_up() {
    echo "$1; not restarted: $left" >&2
    exit 1
}

# Options are words, so they are split on purpose.
# shellcheck disable=SC2046,SC2086
while [ -n "$left" ]; do
    batch=$($twin plan roll --next --wait "$limit" ${BATCHES:-} ${TERMS:-} $(options $left)) ||
        give_up "none of the brokers may be restarted"
    # The gate has the last word, right before the restart.
    $twin gate restart --wait "$limit" ${TERMS:-} $(options $batch) ||
        give_up "the gate is closed"

    jobs=
    for id in $batch; do
        echo "restarting broker $id"
        BROKER=$id sh -c "$command" &
        jobs="$jobs $!"
    done
    failed=
    for job in $jobs; do wait "$job" || failed=1; done

    rest=
    for id in $left; do
        case " $batch " in *" $id "*) ;; *) rest="$rest $id" ;; esac
    done
    left=${rest# }
    [ -z "$failed" ] || give_up "a restart command of batch $batch has failed"

    # Not by observations from before the restart.
    $twin gate in-sync --since now --wait "$limit" ||
        give_up "batch $batch is not in sync"
done
