import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Where Kafka's own consumers go on whose committed offset the log does not have any more.
 *
 * <p>Arguments: bootstrap, topic, committed offset, and groups as {@code name:protocol:auto.offset.reset}. A line for
 * each group is its name and the offset at which it goes on, or the name of the exception with which it stops.
 */
public final class Resumed {

    private static final long DEADLINE_MS = 60_000;

    public static void main(String[] arguments) {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        long committed = Long.parseLong(arguments[2]);
        for (int i = 3; i < arguments.length; i++) {
            String[] group = arguments[i].split(":");
            System.out.println(group[0] + " " + resume(arguments[0], partition, committed, group));
        }
    }

    private static String resume(String bootstrap, TopicPartition partition, long committed, String[] group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group[0]);
        settings.put("group.protocol", group[1]);
        settings.put("auto.offset.reset", group[2]);
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", "1");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(partition.topic()));
            long deadlineMs = System.currentTimeMillis() + DEADLINE_MS;
            while (System.currentTimeMillis() < deadlineMs) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    return Long.toString(record.offset());
                }
                if (consumer.assignment().contains(partition)) {
                    long position = positionOf(consumer, partition, committed);
                    if (position != committed) {
                        return Long.toString(position);
                    }
                }
            }
            return "nothing";
        } catch (OffsetOutOfRangeException stopped) {
            return stopped.getClass().getSimpleName();
        }
    }

    private static long positionOf(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long otherwise) {
        try {
            return consumer.position(partition, Duration.ofMillis(200));
        } catch (TimeoutException notYet) {
            return otherwise;
        }
    }
}
