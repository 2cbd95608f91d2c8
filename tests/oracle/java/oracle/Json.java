package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;

import java.util.ArrayList;
import java.util.List;

/** Lists of broker ids, as JSON and as Kafka wants them. A list that is left out is empty. */
final class Json {

    static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() { }

    static List<Integer> list(JsonNode array) {
        List<Integer> values = new ArrayList<>(array.size());
        array.forEach(value -> values.add(value.intValue()));
        return values;
    }

    static int[] ints(JsonNode array) {
        return ints(list(array));
    }

    static int[] ints(List<Integer> values) {
        return values.stream().mapToInt(Integer::intValue).toArray();
    }

    static ArrayNode array(List<Integer> values) {
        ArrayNode array = MAPPER.createArrayNode();
        values.forEach(array::add);
        return array;
    }

    static ArrayNode array(int[] values) {
        ArrayNode array = MAPPER.createArrayNode();
        for (int value : values) {
            array.add(value);
        }
        return array;
    }
}
