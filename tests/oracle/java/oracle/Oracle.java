package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * Answers questions from Kafka's own compiled classes: a line of JSON in, a line of JSON out, in the same order.
 *
 * <p>Each question has a {@code kind} and is answered with the same {@code id}. To judge another rule, write an
 * {@link Evaluator} and add it to {@link #evaluators}.
 */
public final class Oracle {

    private Oracle() { }

    private static Map<String, Evaluator> evaluators() throws IOException {
        Elections elections = new Elections();
        Lineages lineages = new Lineages();
        Offsets offsets = new Offsets();
        return Map.of(
            "election", elections::kafka,
            "election_kip1303", elections::kip1303,
            "selector", Selectors::rackAware,
            "follower_state", Replicas::followerState,
            "offsets", offsets::offsets,
            "epochs", lineages::epochs,
            "epochs_filtered", lineages::filtered,
            "uploads", lineages::uploads,
            "lineage", lineages::lineage,
            "settings", Settings::names);
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);  // what Kafka prints is no answer
        Map<String, Evaluator> evaluators = evaluators();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(Json.MAPPER.writeValueAsString(answer(evaluators, Json.MAPPER.readTree(line))));
            if (!in.ready()) {
                out.flush();  // somebody waits for it
            }
        }
        out.flush();
    }

    private static ObjectNode answer(Map<String, Evaluator> evaluators, JsonNode question) {
        ObjectNode answer = Json.MAPPER.createObjectNode();
        answer.set("id", question.path("id"));
        String kind = question.path("kind").asText();
        Evaluator evaluator = evaluators.get(kind);
        if (evaluator == null) {
            return answer.put("error", "no evaluator of kind '" + kind + "'");
        }
        try {
            evaluator.answer(question, answer);
        } catch (Exception | LinkageError failure) {
            Throwable cause = failure instanceof InvocationTargetException ? failure.getCause() : failure;
            return answer.put("error", cause.toString());
        }
        return answer;
    }
}
