package oracle;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;

import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/** Passes what a RemoteLogManager asks of its metadata manager to the tier of the case at hand. */
public final class TierAnswers implements RemoteLogMetadataManager {

    static Tier tier;

    @Override
    public Optional<RemoteLogSegmentMetadata> remoteLogSegmentMetadata(TopicIdPartition partition, int epoch,
                                                                       long offset) {
        return tier.segment(epoch, offset);
    }

    @Override
    public Optional<Long> highestOffsetForEpoch(TopicIdPartition partition, int epoch) {
        return tier.highestOffset(epoch);
    }

    @Override
    public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(TopicIdPartition partition) {
        return tier.all();
    }

    @Override
    public Iterator<RemoteLogSegmentMetadata> listRemoteLogSegments(TopicIdPartition partition, int epoch) {
        return tier.ofEpoch(epoch);
    }

    @Override
    public CompletableFuture<Void> addRemoteLogSegmentMetadata(RemoteLogSegmentMetadata segment) {
        throw new UnsupportedOperationException();
    }

    @Override
    public CompletableFuture<Void> updateRemoteLogSegmentMetadata(RemoteLogSegmentMetadataUpdate update) {
        throw new UnsupportedOperationException();
    }

    @Override
    public CompletableFuture<Void> putRemotePartitionDeleteMetadata(RemotePartitionDeleteMetadata deletion) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void onPartitionLeadershipChanges(Set<TopicIdPartition> led, Set<TopicIdPartition> followed) { }

    @Override
    public void onStopPartitions(Set<TopicIdPartition> partitions) { }

    @Override
    public long remoteLogSize(TopicIdPartition partition, int epoch) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void configure(Map<String, ?> configs) { }

    @Override
    public void close() { }
}
