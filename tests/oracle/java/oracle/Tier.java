package oracle;

import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Iterator;
import java.util.Optional;

/** Kafka's cache of a partition's remote segments, whose members are not public. */
final class Tier {

    private static final Class<?> CACHE = RemoteLogMetadataCache.class;
    private static final Method ADD = Reach.method(CACHE, "addCopyInProgressSegment", RemoteLogSegmentMetadata.class);
    private static final Method UPDATE =
        Reach.method(CACHE, "updateRemoteLogSegmentMetadata", RemoteLogSegmentMetadataUpdate.class);
    private static final Method SEGMENT = Reach.method(CACHE, "remoteLogSegmentMetadata", int.class, long.class);
    private static final Method HIGHEST = Reach.method(CACHE, "highestOffsetForEpoch", int.class);
    private static final Method ALL = Reach.method(CACHE, "listAllRemoteLogSegments");
    private static final Method OF_EPOCH = Reach.method(CACHE, "listRemoteLogSegments", int.class);

    private final RemoteLogMetadataCache cache = new RemoteLogMetadataCache();

    /** The name of what Kafka threw, or "ok": a transition it does not allow may be dropped in silence. */
    String add(RemoteLogSegmentMetadata segment) {
        return refusal(ADD, segment);
    }

    String update(RemoteLogSegmentMetadataUpdate update) {
        return refusal(UPDATE, update);
    }

    Optional<RemoteLogSegmentMetadata> segment(int epoch, long offset) {
        return ask(SEGMENT, epoch, offset);
    }

    Optional<Long> highestOffset(int epoch) {
        return ask(HIGHEST, epoch);
    }

    Iterator<RemoteLogSegmentMetadata> all() {
        return ask(ALL);
    }

    Iterator<RemoteLogSegmentMetadata> ofEpoch(int epoch) {
        return ask(OF_EPOCH, epoch);
    }

    private String refusal(Method method, Object event) {
        try {
            method.invoke(cache, event);
            return "ok";
        } catch (InvocationTargetException refused) {
            return refused.getCause().getClass().getSimpleName();
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    @SuppressWarnings("unchecked")
    private <T> T ask(Method method, Object... arguments) {
        try {
            return (T) method.invoke(cache, arguments);
        } catch (ReflectiveOperationException failure) {
            throw new IllegalStateException(failure.getCause() == null ? failure : failure.getCause());
        }
    }
}
