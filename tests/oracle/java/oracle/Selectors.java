package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.replica.ClientMetadata;
import org.apache.kafka.common.replica.PartitionView;
import org.apache.kafka.common.replica.RackAwareReplicaSelector;
import org.apache.kafka.common.replica.ReplicaView;
import org.apache.kafka.common.security.auth.KafkaPrincipal;

import java.net.InetAddress;
import java.util.LinkedHashSet;
import java.util.Set;

/** Which replica a consumer is sent to, by the selector that brokers are configured with. */
final class Selectors {

    private static final TopicPartition PARTITION = new TopicPartition("t", 0);

    private Selectors() { }

    static void rackAware(JsonNode question, ObjectNode answer) {
        int leaderId = question.get("leader").intValue();
        ReplicaView leader = null;
        Set<ReplicaView> views = new LinkedHashSet<>();
        for (JsonNode replica : question.get("replicas")) {
            int broker = replica.get("broker").intValue();
            Node node = new Node(broker, "127.0.0.1", 9092, replica.path("rack").textValue());
            ReplicaView view = new ReplicaView.DefaultReplicaView(node, replica.get("end").longValue(),
                replica.get("sinceCaughtUpMs").longValue());
            views.add(view);
            if (broker == leaderId) {
                leader = view;
            }
        }
        ClientMetadata client = new ClientMetadata.DefaultClientMetadata(question.path("rack").asText(""), "client",
            InetAddress.getLoopbackAddress(), KafkaPrincipal.ANONYMOUS, "PLAINTEXT");
        try (RackAwareReplicaSelector selector = new RackAwareReplicaSelector()) {
            answer.put("selected", selector
                .select(PARTITION, client, new PartitionView.DefaultPartitionView(views, leader))
                .map(view -> view.endpoint().id())
                .orElse(-1));
        } catch (java.io.IOException impossible) {
            throw new java.io.UncheckedIOException(impossible);
        }
    }
}
