import org.apache.kafka.common.utils.Exit;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Runs Kafka's command line tools one after the other in one JVM, since each start of one takes seconds.
 *
 * <p>A line of input is the arguments of one run, separated by tabs; the first is the name of the tool's class, or names
 * of which the first that exists is taken, separated by bars. The answer is what the tool prints, and a line with
 * {@link #END} and its exit code.
 */
public final class Tools {

    private static final String END = "\u0004";

    private static final class Exited extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    private static Integer exitCode;

    public static void main(String[] arguments) throws IOException, ClassNotFoundException {
        PrintStream out = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        // Scala keeps the stream that it finds first, so all runs have the same.
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(System.out);  // some tools say there why they failed
        Exit.setExitProcedure((code, message) -> {
            // Some tools catch what is thrown here, and end once more with another code.
            exitCode = exitCode == null ? Integer.valueOf(code) : exitCode;
            throw new Exited();
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            printed.reset();
            exitCode = null;
            String[] words = line.split("\t");
            int code = run(words[0].split("\\|"), Arrays.copyOfRange(words, 1, words.length));
            out.println(printed.toString(StandardCharsets.UTF_8));
            out.println(END + code);
            out.flush();
        }
    }

    private static int run(String[] names, String[] arguments) throws ClassNotFoundException {
        try {
            find(names).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return exitCode == null ? 0 : exitCode;
        } catch (InvocationTargetException failed) {
            if (!(failed.getCause() instanceof Exited)) {
                failed.getCause().printStackTrace();
            }
            return exitCode == null ? 1 : exitCode;
        } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static Class<?> find(String[] names) throws ClassNotFoundException {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException absent) {
                // The next one is what another release calls it.
            }
        }
        throw new ClassNotFoundException(String.join(", ", names));
    }
}
