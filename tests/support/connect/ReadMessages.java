import static java.nio.charset.StandardCharsets.UTF_8;

import io.debezium.time.Date;
import io.debezium.time.MicroTime;
import io.debezium.time.MicroTimestamp;
import io.debezium.time.Timestamp;
import io.debezium.time.Year;
import io.debezium.time.ZonedTimestamp;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Base64;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Reads messages as Kafka Connect does and writes them back; works out times as Debezium does.
 *
 * <p>A line of input is the Base64 of a message key or value, or a question such as {@code date 2023-11-30}; a line of
 * output is its answer: the message as Kafka Connect writes it again, the number or text, or {@code error: ...}.
 */
public final class ReadMessages {
    public static void main(String[] arguments) throws Exception {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", true, "replace.null.with.default", false), false);
        PrintStream out = new PrintStream(System.out, false, UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                out.println(line.contains(" ") ? time(line) : again(converter, line));
            } catch (RuntimeException problem) {
                out.println("error: " + problem);
            }
        }
        out.flush();
    }

    private static String again(JsonConverter converter, String line) {
        SchemaAndValue read = converter.toConnectData("topic", Base64.getDecoder().decode(line));
        ((Struct) read.value()).validate();
        return new String(converter.fromConnectData("topic", read.schema(), read.value()), UTF_8);
    }

    private static Object time(String question) {
        String[] said = question.split(" ", 2);
        switch (said[0]) {
            case "date":
                return Date.toEpochDay(LocalDate.parse(said[1]), null);
            case "timestamp":
                return Timestamp.toEpochMillis(LocalDateTime.parse(said[1]), null);
            case "microtimestamp":
                return MicroTimestamp.toEpochMicros(LocalDateTime.parse(said[1]), null);
            case "microtime":
                return MicroTime.toMicroOfDay(Duration.parse(said[1]), true);
            case "zonedtimestamp":
                return ZonedTimestamp.toIsoString(LocalDateTime.parse(said[1]).atZone(ZoneOffset.UTC), null, null);
            case "year":
                return Year.class.getSimpleName() + said[1];
            default:
                throw new IllegalArgumentException(question);
        }
    }
}
