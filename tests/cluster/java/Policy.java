import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/**
 * Creates topics as managed services do: with few settings, and with no small segments.
 */
public final class Policy implements CreateTopicPolicy {
    private static final Set<String> ALLOWED =
            Set.of("cleanup.policy", "max.message.bytes", "retention.ms", "segment.bytes");
    private static final long SMALLEST = 52_428_800;

    /** A broker finds this class since its jar is that of an agent; the agent does nothing. */
    public static void premain(String arguments) {}

    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void validate(RequestMetadata topic) {
        if (topic.topic().startsWith("__")) {
            return;
        }
        topic.configs().forEach((name, value) -> {
            if (!ALLOWED.contains(name)) {
                throw new PolicyViolationException("Config property '" + name + "' is not allowed.");
            }
            if (name.equals("segment.bytes") && Long.parseLong(value) < SMALLEST) {
                throw new PolicyViolationException("Config property 'segment.bytes' with value '"
                        + value + "' is lower than the minimum allowed value of " + SMALLEST + ".");
            }
        });
    }

    @Override
    public void close() {}
}
