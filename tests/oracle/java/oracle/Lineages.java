package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogManagerConfig;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;

/** Leader epochs of a log, and its segments in remote storage: of one empty log that is moved from case to case. */
final class Lineages {

    private static final TopicIdPartition PARTITION =
        new TopicIdPartition(new Uuid(1, 1), new TopicPartition("t", 0));
    private static final Class<?> MANAGER = RemoteLogManager.class;
    private static final Method WITHIN = Reach.method(MANAGER, "isRemoteSegmentWithinLeaderEpochs",
        RemoteLogSegmentMetadata.class, long.class, NavigableMap.class);
    private static final Method FILTERED = Reach.method(MANAGER, "buildFilteredLeaderEpochMap", NavigableMap.class);
    private static final Method HIGHEST =
        Reach.method(MANAGER, "findHighestRemoteOffset", TopicIdPartition.class, UnifiedLog.class);
    private static final Method LOG_START =
        Reach.method(MANAGER, "findLogStartOffset", TopicIdPartition.class, UnifiedLog.class);

    private static final Class<?> COPY = Reach.type(MANAGER.getName() + "$RLMCopyTask");
    private static final Constructor<?> COPY_TASK =
        Reach.constructor(COPY, MANAGER, TopicIdPartition.class, int.class);
    private static final Method CANDIDATES =
        Reach.method(COPY, "candidateLogSegments", UnifiedLog.class, Long.class, Long.class);
    private static final Class<?> CANDIDATE = Reach.type(MANAGER.getName() + "$EnrichedLogSegment");
    private static final Field SEGMENT = Reach.field(CANDIDATE, "logSegment");
    private static final Field NEXT = Reach.field(CANDIDATE, "nextSegmentOffset");

    private final UnifiedLog log;
    private final RemoteLogManager manager;

    Lineages() throws IOException {
        Path folder = Files.createTempDirectory("oracle-log");
        Path logFolder = Files.createDirectory(folder.resolve("t-0"));
        // Files of a log that is deleted are kept for a minute: nothing here waits for that.
        LogConfig config = new LogConfig(Map.of("remote.storage.enable", "true", "segment.index.bytes", "1024",
            "file.delete.delay.ms", "0"));
        KafkaScheduler scheduler = new KafkaScheduler(1, true);
        scheduler.startup();
        log = UnifiedLog.create(logFolder.toFile(), config, 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
            Optional.of(PARTITION.topicId()));
        AbstractConfig settings = new AbstractConfig(RemoteLogManagerConfig.configDef(), Map.of(
            "remote.log.storage.system.enable", "true",
            "remote.log.storage.manager.class.name", NoStorage.class.getName(),
            "remote.log.metadata.manager.class.name", TierAnswers.class.getName()), false);
        manager = new RemoteLogManager(new RemoteLogManagerConfig(settings), 1, folder.toString(), "cluster",
            Time.SYSTEM, partition -> Optional.of(log), (partition, offset) -> { }, new BrokerTopicStats(),
            new Metrics(), Optional.empty());
    }

    /** The history after each step, and what it says of offsets and epochs. */
    void epochs(JsonNode question, ObjectNode answer) {
        LeaderEpochFileCache epochs = log.leaderEpochCache();
        epochs.clear();
        ArrayNode steps = answer.putArray("steps");
        for (JsonNode step : question.get("steps")) {
            switch (step.get(0).asText()) {
                case "assign" -> epochs.assign(step.get(1).intValue(), step.get(2).longValue());
                case "end" -> epochs.truncateFromEndAsyncFlush(step.get(1).longValue());
                case "start" -> epochs.truncateFromStartAsyncFlush(step.get(1).longValue());
                default -> throw new IllegalArgumentException("no step " + step);
            }
            ArrayNode entries = steps.addArray();
            for (EpochEntry entry : epochs.epochEntries()) {
                entries.addArray().add(entry.epoch()).add(entry.startOffset());
            }
        }
        ArrayNode ends = answer.putArray("ends");
        for (JsonNode ask : question.get("ends")) {
            Map.Entry<Integer, Long> end = epochs.endOffsetFor(ask.get(0).intValue(), ask.get(1).longValue());
            ends.addArray().add(end.getKey()).add(end.getValue());
        }
        ArrayNode of = answer.putArray("of");
        question.get("of").forEach(offset -> of.add(epochs.epochForOffset(offset.longValue()).orElse(-1)));
    }

    /** What remains of a history once the epochs in which nothing was written are dropped. */
    void filtered(JsonNode question, ObjectNode answer) throws ReflectiveOperationException {
        Map<?, ?> left = (Map<?, ?>) FILTERED.invoke(null, map(question.get("epochs")));
        ArrayNode epochs = answer.putArray("epochs");
        left.forEach((epoch, offset) -> epochs.addArray().add((Integer) epoch).add((Long) offset));
    }

    /** Segments given one by one, and which of them belong to the log. */
    void lineage(JsonNode question, ObjectNode answer) throws ReflectiveOperationException, IOException {
        Map<Integer, RemoteLogSegmentMetadata> segments = new LinkedHashMap<>();
        question.get("segments").forEach(each -> segments.put(each.get("segment").intValue(), segment(each)));
        Tier tier = new Tier();
        TierAnswers.tier = tier;
        ArrayNode events = answer.putArray("events");
        for (JsonNode event : question.get("events")) {
            int number = event.get(0).intValue();
            RemoteLogSegmentState state = RemoteLogSegmentState.forId(event.get(1).numberValue().byteValue());
            events.add(state == RemoteLogSegmentState.COPY_SEGMENT_STARTED
                ? tier.add(segments.get(number))
                : tier.update(new RemoteLogSegmentMetadataUpdate(id(number), 0, Optional.empty(), state, 1)));
        }
        ObjectNode states = answer.putObject("states");
        for (Iterator<RemoteLogSegmentMetadata> all = tier.all(); all.hasNext();) {
            RemoteLogSegmentMetadata segment = all.next();
            states.put(Integer.toString(number(segment)), segment.state().id());
        }
        ArrayNode at = answer.putArray("at");
        for (JsonNode ask : question.get("at")) {
            at.add(tier.segment(ask.get(0).intValue(), ask.get(1).longValue()).map(Lineages::number).orElse(-1));
        }
        ArrayNode highest = answer.putArray("highest");
        ArrayNode listed = answer.putArray("listed");
        for (JsonNode epoch : question.get("ofEpochs")) {
            highest.add(tier.highestOffset(epoch.intValue()).orElse(-1L));
            ArrayNode numbers = listed.addArray();
            tier.ofEpoch(epoch.intValue()).forEachRemaining(segment -> numbers.add(number(segment)));
        }
        move(question);
        Object history = FILTERED.invoke(null, log.leaderEpochCache().epochWithOffsets());
        ObjectNode within = answer.putObject("within");
        for (Map.Entry<Integer, RemoteLogSegmentMetadata> one : segments.entrySet()) {
            within.put(one.getKey().toString(),
                (Boolean) WITHIN.invoke(null, one.getValue(), log.logEndOffset(), history));
        }
        OffsetAndEpoch remote = (OffsetAndEpoch) HIGHEST.invoke(manager, PARTITION, log);
        answer.putArray("remoteEnd").add(remote.offset()).add(remote.epoch());
        answer.put("logStart", (Long) LOG_START.invoke(manager, PARTITION, log));
    }

    /** Which local segments a leader would copy next. */
    void uploads(JsonNode question, ObjectNode answer) throws ReflectiveOperationException, IOException {
        JsonNode boundaries = question.get("boundaries");
        log.truncateFullyAndStartAt(boundaries.get(0).longValue(), Optional.empty());
        for (JsonNode boundary : boundaries) {
            if (boundary != boundaries.get(0)) {
                log.roll(Optional.of(boundary.longValue()));
            }
        }
        Object task = COPY_TASK.newInstance(manager, PARTITION, 0);
        ArrayNode uploads = answer.putArray("uploads");
        for (Object found : (List<?>) CANDIDATES.invoke(task, log, question.get("from").longValue(),
            question.get("lastStable").longValue())) {
            uploads.addArray().add(((LogSegment) SEGMENT.get(found)).baseOffset()).add(NEXT.getLong(found) - 1);
        }
    }

    private void move(JsonNode question) throws IOException {
        long localStart = question.get("localStart").longValue();
        log.truncateFullyAndStartAt(question.get("logEnd").longValue(), Optional.of(localStart));
        log.updateLocalLogStartOffset(localStart);
        log.leaderEpochCache().clear();
        map(question.get("epochs")).forEach(log.leaderEpochCache()::assign);
    }

    private static NavigableMap<Integer, Long> map(JsonNode pairs) {
        NavigableMap<Integer, Long> map = new TreeMap<>();
        pairs.forEach(pair -> map.put(pair.get(0).intValue(), pair.get(1).longValue()));
        return map;
    }

    private static RemoteLogSegmentMetadata segment(JsonNode json) {
        return new RemoteLogSegmentMetadata(id(json.get("segment").intValue()), json.get("start").longValue(),
            json.get("end").longValue(), 0, 1, 0, 1, map(json.get("epochs")));
    }

    private static RemoteLogSegmentId id(int number) {
        return new RemoteLogSegmentId(PARTITION, new Uuid(2, number));
    }

    private static int number(RemoteLogSegmentMetadata segment) {
        return (int) segment.remoteLogSegmentId().id().getLeastSignificantBits();
    }
}
