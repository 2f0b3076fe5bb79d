import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Kafka's messages as a test oracle: one request per line in, one JSON result per line out.
 *
 * <pre>
 * read request 11 7 &lt;hex of header and body&gt;
 * read response 11 7 &lt;hex of header and body&gt;
 * default request 11 7
 * rewrite request 11 7 4 &lt;hex of body&gt;
 * </pre>
 *
 * "read" returns the header and the body as Kafka's JSON (of records only the size), the number of remaining bytes, and
 * both encoded again in hex. "default" returns the same for an empty body. "rewrite" reads a body in one version and
 * writes it in another. A failure returns "error".
 */
public final class MessageOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(execute(line.split(" ", -1))));
            out.flush();
        }
    }

    private static ObjectNode execute(String[] arguments) {
        ObjectNode result = JSON.createObjectNode();
        try {
            boolean request = arguments[1].equals("request");
            ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(arguments[2]));
            short version = Short.parseShort(arguments[3]);
            short headerVersion = request ? type.requestHeaderVersion(version) : type.responseHeaderVersion(version);
            Message header = request ? new RequestHeaderData() : new ResponseHeaderData();
            ApiMessage body = request ? type.newRequest() : type.newResponse();
            result.put("headerVersion", headerVersion);
            if (arguments[0].equals("read")) {
                ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(arguments[4]));
                ByteBufferAccessor accessor = new ByteBufferAccessor(bytes);
                header.read(accessor, headerVersion);
                body.read(accessor, version);
                result.put("left", bytes.remaining());
                result.set("header", json(header, headerVersion));
                result.put("bytes", hex(header, headerVersion) + hex(body, version));
            } else if (arguments[0].equals("rewrite")) {
                body.read(new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(arguments[5]))), version);
                result.put("bytes", hex(body, Short.parseShort(arguments[4])));
            } else {
                result.put("bytes", hex(body, version));
            }
            result.set("body", json(body, version));
        } catch (InvocationTargetException error) {
            result.put("error", error.getCause().toString());
        } catch (Exception error) {
            result.put("error", error.toString());
        }
        return result;
    }

    private static JsonNode json(Message message, short version) throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return (JsonNode) converter
            .getMethod("write", message.getClass(), short.class, boolean.class)
            .invoke(null, message, version, false);
    }

    private static String hex(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(bytes), cache, version);
        return HEX.formatHex(bytes.array());
    }
}
