package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.replica.Replica;
import org.apache.kafka.server.replica.ReplicaState;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;

import java.lang.reflect.Proxy;
import java.util.Optional;

/** What a leader notes of a follower, step by step, and whether that makes the follower caught up. */
final class Replicas {

    private static final TopicPartition PARTITION = new TopicPartition("t", 0);
    private static final long BROKER_EPOCH = 1;

    /** A replica asks only for the epoch of its live broker, to refuse fetches of an older one. */
    private static final MetadataCache METADATA = (MetadataCache) Proxy.newProxyInstance(
        Replicas.class.getClassLoader(), new Class<?>[] {MetadataCache.class}, (proxy, method, arguments) -> {
            if (method.getName().equals("getAliveBrokerEpoch")) {
                return Optional.of(BROKER_EPOCH);
            }
            throw new UnsupportedOperationException(method.getName());
        });

    private Replicas() { }

    static void followerState(JsonNode question, ObjectNode answer) {
        Replica replica = new Replica(1, PARTITION, METADATA);
        ArrayNode steps = answer.putArray("steps");
        for (JsonNode step : question.get("steps")) {
            long atMs = step.get("atMs").longValue();
            long leaderEnd = step.get("leaderEnd").longValue();
            if (step.has("newLeader")) {
                replica.resetReplicaState(atMs, leaderEnd, step.get("newLeader").booleanValue(),
                    step.get("inIsr").booleanValue());
            } else {
                replica.updateFetchStateOrThrow(new LogOffsetMetadata(step.get("offset").longValue()),
                    step.get("start").longValue(), atMs, leaderEnd, BROKER_EPOCH);
            }
            ReplicaState state = replica.stateSnapshot();
            JsonNode check = step.get("check");
            steps.addObject()
                .put("start", state.logStartOffset())
                .put("end", state.logEndOffset())
                .put("leaderEnd", state.lastFetchLeaderLogEndOffset())
                .put("lastFetchAtMs", state.lastFetchTimeMs())
                .put("caughtUpAtMs", state.lastCaughtUpTimeMs())
                .put("caughtUp", state.isCaughtUp(check.get("leaderEnd").longValue(),
                    check.get("nowMs").longValue(), check.get("lagMaxMs").longValue()));
        }
    }
}
