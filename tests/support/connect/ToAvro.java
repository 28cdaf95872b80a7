import static java.nio.charset.StandardCharsets.UTF_8;

import io.apicurio.registry.utils.converter.avro.AvroData;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Base64;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Makes Avro of Kafka Connect's JSON messages as the Avro converter does.
 *
 * <p>A line of input is the Base64 of a message key or value with its schema; a line of output is the Avro schema in
 * Base64, a blank, and the record in Base64, or {@code error: ...}.
 */
public final class ToAvro {
    public static void main(String[] arguments) throws Exception {
        AvroData avro = new AvroData(1000);
        PrintStream out = new PrintStream(System.out, false, UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        try (JsonConverter converter = new JsonConverter()) {
            converter.configure(Map.of("schemas.enable", true, "replace.null.with.default", false), false);
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                try {
                    SchemaAndValue said = converter.toConnectData("topic", Base64.getDecoder().decode(line));
                    out.println(written(avro, said));
                } catch (RuntimeException problem) {
                    out.println("error: " + problem);
                }
            }
        }
        out.flush();
    }

    private static String written(AvroData avro, SchemaAndValue said) throws IOException {
        Schema schema = avro.fromConnectSchema(said.schema());
        Object record = avro.fromConnectData(said.schema(), said.value());
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
        new GenericDatumWriter<Object>(schema, GenericData.get()).write(record, encoder);
        encoder.flush();
        Base64.Encoder base64 = Base64.getEncoder();
        return base64.encodeToString(schema.toString().getBytes(UTF_8)) + " " + base64.encodeToString(bytes.toByteArray());
    }
}
