#!/usr/bin/env bash
# Formats and starts one Kafka node with tiered storage in a folder that all nodes share. For demos and tests.
#   NODE_ID VOTERS CLUSTER_ID   who it is; VOTERS as controller.quorum.voters, itself where not set
#   ROLES                       broker,controller (default), broker, or controller
#   INTERNAL PUBLISHED          host for those on the network (its own name), host:port for those outside
#   RACK HEAP                   broker.rack, Java heap (256m)
#   PROPERTIES                  further lines of server.properties, which win
#   SCRAM_USERS                 name=password,...: users that the cluster is formatted with
#   LOGS                        a folder for server.log and a request.log of all requests, which a tap reads
set -euo pipefail
: "${NODE_ID:=1}" "${INTERNAL:=$(hostname)}" "${ROLES:=broker,controller}" "${HEAP:=256m}" "${REPLICATION:=3}"
: "${VOTERS:=$NODE_ID@localhost:9093}" "${CLUSTER_ID:=a2Fma2EtdHdpbi1kZW1vMQ}" "${PUBLISHED:=$INTERNAL:9092}"
listeners="PUBLISHED://:9092,INTERNAL://:19092"
[[ $ROLES != *controller* ]] || listeners+=",CONTROLLER://:9093"
cat > /tmp/server.properties <<EOF
process.roles=$ROLES
node.id=$NODE_ID
controller.quorum.voters=$VOTERS
listeners=$listeners
advertised.listeners=PUBLISHED://$PUBLISHED,INTERNAL://$INTERNAL:19092
listener.security.protocol.map=PUBLISHED:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
broker.rack=${RACK:-az-$NODE_ID}
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
log.dirs=/var/lib/kafka/data
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
default.replication.factor=$REPLICATION
offsets.topic.num.partitions=5
offsets.topic.replication.factor=$REPLICATION
transaction.state.log.replication.factor=$REPLICATION
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=$REPLICATION
group.initial.rebalance.delay.ms=0
remote.log.storage.system.enable=true
remote.log.metadata.manager.listener.name=INTERNAL
remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage
rsm.config.dir=/var/lib/kafka/remote
rsm.config.delete.on.close=false
rlmm.config.remote.log.metadata.topic.num.partitions=5
rlmm.config.remote.log.metadata.topic.min.isr=1
rlmm.config.remote.log.metadata.topic.replication.factor=$REPLICATION
# What Kafka does once a minute or five is done at once: a demo shows it.
remote.log.manager.task.interval.ms=1000
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=500
log.segment.delete.delay.ms=1000
follower.fetch.last.tiered.offset.enable=true
${PROPERTIES:-}
EOF
cat /opt/kafka/log4j2.properties ${LOGS:+/opt/kafka/log4j2-files.properties} > /tmp/log4j2.properties
java=(java "-Xmx$HEAP" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData
      -Dlog4j2.configurationFile=/tmp/log4j2.properties)
if [[ ! -f /var/lib/kafka/data/meta.properties ]]; then
  users=()
  IFS=, read -ra pairs <<< "${SCRAM_USERS:-}"
  for pair in "${pairs[@]}"; do
    users+=(--add-scram "SCRAM-SHA-512=[name=${pair%%=*},password=${pair#*=}]")
  done
  "${java[@]}" kafka.tools.StorageTool format --cluster-id "$CLUSTER_ID" --config /tmp/server.properties "${users[@]}"
fi
# In the place of this shell, so that a stop is Kafka's controlled shutdown.
exec "${java[@]}" -javaagent:/opt/kafka/jmx/jmx_prometheus_javaagent-1.0.1.jar=7071:/opt/kafka/jmx/kafka.yml \
  ${JAVA_OPTIONS:-} kafka.Kafka /tmp/server.properties
