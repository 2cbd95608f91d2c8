package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import kafka.server.KafkaConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

import java.util.Collection;
import java.util.Set;
import java.util.TreeSet;

/** The names of the settings that Kafka has. */
final class Settings {

    private Settings() { }

    /** Those of topics, and of brokers without the names that they have for settings of topics. */
    static void names(JsonNode question, ObjectNode answer) {
        Set<String> broker = new TreeSet<>(KafkaConfig.configDef().names());
        broker.addAll(QuotaConfig.brokerQuotaConfigs().names());
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.values().forEach(
            synonyms -> synonyms.forEach(synonym -> broker.remove(synonym.name())));
        put(answer.putArray("topic"), new TreeSet<>(LogConfig.configNames()));
        put(answer.putArray("broker"), broker);
    }

    private static void put(ArrayNode array, Collection<String> names) {
        names.forEach(array::add);
    }
}
