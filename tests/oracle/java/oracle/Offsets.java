package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/** What a log itself answers to ListOffsets: of one empty log whose offsets are moved from case to case. */
final class Offsets {

    private static final long[] TIMESTAMPS = {-1, -2, -4, -5, -6};
    private static final Field HIGHEST_REMOTE = Reach.field(UnifiedLog.class, "highestOffsetInRemoteStorage");

    private final UnifiedLog log;

    Offsets() throws IOException {
        Path folder = Files.createDirectory(Files.createTempDirectory("oracle-offsets").resolve("t-0"));
        KafkaScheduler scheduler = new KafkaScheduler(1, true);
        scheduler.startup();
        log = UnifiedLog.create(folder.toFile(), config(true), 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
            Optional.of(new Uuid(1, 1)), new ConcurrentHashMap<>(), true, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
    }

    void offsets(JsonNode question, ObjectNode answer) throws IOException, IllegalAccessException {
        log.updateConfig(config(question.get("remote").booleanValue()));
        log.truncateFullyAndStartAt(question.get("logEnd").longValue(),
            Optional.of(question.get("logStart").longValue()));
        log.updateLocalLogStartOffset(question.get("localStart").longValue());
        HIGHEST_REMOTE.setLong(log, question.get("lastTiered").longValue());
        for (long timestamp : TIMESTAMPS) {
            answer.put(Long.toString(timestamp), log.fetchOffsetByTimestamp(timestamp, Optional.empty())
                .timestampAndOffsetOpt().map(found -> found.offset).orElse(-1L));
        }
    }

    private static LogConfig config(boolean remote) {
        // Files of a log that is deleted are kept for a minute: nothing here waits for that.
        return new LogConfig(Map.of("remote.storage.enable", Boolean.toString(remote), "segment.index.bytes", "1024",
            "file.delete.delay.ms", "0"));
    }
}
