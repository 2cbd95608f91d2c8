package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.MetadataVersion;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Who leads a partition after something happened to it: asks the controller's own PartitionChangeBuilder.
 *
 * <p>Question: {@code partition} (the registration before), {@code target} ({@code isr} and {@code uncleanShutdown},
 * what the event changes), {@code acceptable} (brokers that may lead), {@code minIsr}, {@code elrEnabled},
 * {@code election} (PREFERRED, ONLINE or UNCLEAN).
 *
 * <p>Answer: {@code elect}, an election on the sets as they were given; {@code electInBuild}, one on the sets the
 * controller arrives at first (finished reassignment, new ELR), which is the one that counts; {@code electsFrom}, those
 * sets; {@code after}, the partition once the change is made.
 *
 * <p>Which brokers are acceptable is the caller's matter in Kafka too (ReplicationControlManager).
 */
final class Elections {

    private static final Uuid TOPIC = new Uuid(1, 2);

    private final Method electLeader = Reach.method(PartitionChangeBuilder.class, "electLeader");
    private final Method finishReassignment =
        Reach.method(PartitionChangeBuilder.class, "completeReassignmentIfNeeded");
    private final Method populateElr = Reach.method(PartitionChangeBuilder.class, "maybePopulateTargetElr");
    private final Field targetReplicas = Reach.field(PartitionChangeBuilder.class, "targetReplicas");
    private final Field targetElr = Reach.field(PartitionChangeBuilder.class, "targetElr");
    private final Field electedNode = Reach.field(electLeader.getReturnType(), "node");
    private final Field electedUncleanly = Reach.field(electLeader.getReturnType(), "unclean");

    /** Kafka as it is: replicas in the order of the assignment. */
    void kafka(JsonNode question, ObjectNode answer) throws Exception {
        hold(question, Json.list(question.at("/partition/replicas")), answer);
    }

    /**
     * KIP-1303, which no Kafka has: today's code, over an assignment that lists the eligible replicas first. So this
     * judges one reading of the KIP: only the order of candidates changes.
     */
    void kip1303(JsonNode question, ObjectNode answer) throws Exception {
        Set<Integer> eligible = new HashSet<>(Json.list(question.get("eligible")));
        List<Integer> ordered = new ArrayList<>(Json.list(question.at("/partition/replicas")));
        ordered.sort((one, other) -> Boolean.compare(eligible.contains(other), eligible.contains(one)));  // stable
        hold(question, ordered, answer);
    }

    private void hold(JsonNode question, List<Integer> replicas, ObjectNode answer) throws Exception {
        PartitionRegistration before = registration(question.get("partition"), replicas);
        answer.set("elect", elect(builder(question, before)));

        PartitionChangeBuilder halfway = builder(question, before);
        finishReassignment.invoke(halfway);
        populateElr.invoke(halfway);
        ObjectNode electsFrom = answer.putObject("electsFrom");
        electsFrom.set("replicas", Json.array(numbers(targetReplicas.get(halfway))));
        electsFrom.set("isr", Json.array(halfway.targetIsr()));
        electsFrom.set("elr", Json.array(numbers(targetElr.get(halfway))));
        answer.set("electInBuild", elect(halfway));

        PartitionRegistration after = builder(question, before).build()
            .map(change -> before.merge((PartitionChangeRecord) change.message()))
            .orElse(before);
        ObjectNode registration = answer.putObject("after");
        registration.put("leader", after.leader);
        registration.set("isr", Json.array(after.isr));
        registration.set("elr", Json.array(after.elr));
        registration.set("lastKnownElr", Json.array(after.lastKnownElr));
    }

    private ObjectNode elect(PartitionChangeBuilder builder) throws ReflectiveOperationException {
        Object result = electLeader.invoke(builder);
        ObjectNode election = Json.MAPPER.createObjectNode();
        election.put("node", electedNode.getInt(result));
        election.put("unclean", electedUncleanly.getBoolean(result));
        return election;
    }

    private static PartitionRegistration registration(JsonNode partition, List<Integer> replicas) {
        return new PartitionRegistration.Builder()
            .setReplicas(Json.ints(replicas))
            .setDirectories(DirectoryId.unassignedArray(replicas.size()))
            .setIsr(Json.ints(partition.path("isr")))
            .setElr(Json.ints(partition.path("elr")))
            .setLastKnownElr(Json.ints(partition.path("lastKnownElr")))
            .setAddingReplicas(Json.ints(partition.path("adding")))
            .setRemovingReplicas(Json.ints(partition.path("removing")))
            .setLeader(partition.get("leader").intValue())
            .setLeaderRecoveryState(LeaderRecoveryState.RECOVERED)
            .setLeaderEpoch(1)
            .setPartitionEpoch(1)
            .build();
    }

    private static PartitionChangeBuilder builder(JsonNode question, PartitionRegistration before) {
        Set<Integer> acceptable = new HashSet<>(Json.list(question.get("acceptable")));
        PartitionChangeBuilder builder = new PartitionChangeBuilder(before, TOPIC, 0, acceptable::contains,
            MetadataVersion.LATEST_PRODUCTION, question.get("minIsr").intValue(),
            question.get("elrEnabled").booleanValue());
        builder.setDefaultDirProvider(broker -> DirectoryId.UNASSIGNED);
        builder.setElection(PartitionChangeBuilder.Election.valueOf(question.get("election").textValue()));
        JsonNode target = question.path("target");
        if (target.has("isr")) {
            builder.setTargetIsr(Json.list(target.get("isr")));
        }
        if (target.has("uncleanShutdown")) {
            builder.setUncleanShutdownReplicas(Json.list(target.get("uncleanShutdown")));
        }
        return builder;
    }

    @SuppressWarnings("unchecked")
    private static List<Integer> numbers(Object list) {
        return (List<Integer>) list;
    }
}
