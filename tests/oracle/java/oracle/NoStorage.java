package oracle;

import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

import java.io.InputStream;
import java.util.Map;
import java.util.Optional;

/** A RemoteLogManager must have a storage; none of the questions here reaches it. */
public final class NoStorage implements RemoteStorageManager {

    @Override
    public Optional<RemoteLogSegmentMetadata.CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment,
                                                                                LogSegmentData data) {
        throw new UnsupportedOperationException();
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) {
        throw new UnsupportedOperationException();
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end) {
        throw new UnsupportedOperationException();
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType kind) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void configure(Map<String, ?> configs) { }

    @Override
    public void close() { }
}
