import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.io.File;
import java.io.IOException;
import java.io.PrintStream;

/** Prints the records of segments of __cluster_metadata as lines of JSON, by Kafka's own classes. */
public final class MetadataLog {

    private MetadataLog() { }

    public static void main(String[] segments) throws IOException {
        try (PrintStream out = new PrintStream(System.out, false, "UTF-8")) {
            for (String segment : segments) {
                try (FileRecords records = FileRecords.open(new File(segment), false)) {
                    for (RecordBatch batch : records.batches()) {
                        if (!batch.isControlBatch()) {
                            batch.forEach(record -> print(out, record));
                        }
                    }
                }
            }
        }
    }

    private static void print(PrintStream out, Record record) {
        ApiMessageAndVersion read = MetadataRecordSerde.INSTANCE.read(
            new ByteBufferAccessor(record.value()), record.valueSize());
        out.printf("{\"offset\": %d, \"at_ms\": %d, \"type\": \"%s\", \"data\": %s}%n",
            record.offset(), record.timestamp(), read.message().getClass().getSimpleName(),
            MetadataJsonConverters.writeJson(read.message(), read.version()));
    }
}
