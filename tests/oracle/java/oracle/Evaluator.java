package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** Puts one question to a class of Kafka. What it throws becomes the answer's error. */
@FunctionalInterface
interface Evaluator {

    void answer(JsonNode question, ObjectNode answer) throws Exception;
}
