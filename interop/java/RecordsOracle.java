import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Kafka's record batches as a test oracle: one request per line in, one result per line out, bytes in hex.
 *
 * <pre>
 * {"write": {"codec": "none", "base_offset": 0, "log_append_time": null, "delete_horizon": null, "producer_id": -1,
 *   "producer_epoch": -1, "base_sequence": -1, "transactional": false, "last_offset": null, "leader_epoch": -1},
 *  "records": [[offset, timestamp, key, value, [[name, value], ...]], ...]}              -> {"bytes": hex}
 * {"marker": {"commit": true, "coordinator_epoch": 1, "base_offset": 0, "timestamp": 0, "leader_epoch": 0,
 *   "producer_id": 1, "producer_epoch": 0}}                                              -> {"bytes": hex}
 * {"append": hex, "last_offset": 7, "leader_epoch": 3, "log_append_time": 5 or null, "max_timestamp": 5} -> {"bytes": hex}
 * {"read": hex}                                               -> {"batches": [...]} or {"error": the exception}
 * </pre>
 */
public final class RecordsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            ObjectNode result;
            try {
                result = execute(request);
            } catch (RuntimeException error) {
                result = JSON.createObjectNode().put("error", error.toString());
            }
            out.println(JSON.writeValueAsString(result));
            out.flush();
        }
    }

    private static ObjectNode execute(JsonNode request) {
        if (request.has("write")) {
            return bytes(write(request.get("write"), request.get("records")));
        }
        if (request.has("marker")) {
            return bytes(marker(request.get("marker")));
        }
        if (request.has("append")) {
            return bytes(append(request));
        }
        return read(HEX.parseHex(request.get("read").asText()));
    }

    private static ObjectNode bytes(ByteBuffer buffer) {
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return JSON.createObjectNode().put("bytes", HEX.formatHex(copy));
    }

    private static ByteBuffer write(JsonNode batch, JsonNode records) {
        JsonNode logAppendTime = batch.get("log_append_time");
        JsonNode deleteHorizon = batch.get("delete_horizon");
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1024),
            RecordBatch.MAGIC_VALUE_V2,
            Compression.of(batch.get("codec").asText()).build(),
            logAppendTime.isNull() ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME,
            batch.get("base_offset").asLong(),
            logAppendTime.isNull() ? RecordBatch.NO_TIMESTAMP : logAppendTime.asLong(),
            batch.get("producer_id").asLong(),
            (short) batch.get("producer_epoch").asInt(),
            batch.get("base_sequence").asInt(),
            batch.get("transactional").asBoolean(),
            false,
            batch.get("leader_epoch").asInt(),
            Integer.MAX_VALUE,
            deleteHorizon.isNull() ? RecordBatch.NO_TIMESTAMP : deleteHorizon.asLong());
        for (JsonNode record : records) {
            JsonNode headerList = record.get(4);
            Header[] headers = new Header[headerList.size()];
            for (int at = 0; at < headers.length; at++) {
                headers[at] = new RecordHeader(headerList.get(at).get(0).asText(), hex(headerList.get(at).get(1)));
            }
            builder.appendWithOffset(
                record.get(0).asLong(), record.get(1).asLong(), hex(record.get(2)), hex(record.get(3)), headers);
        }
        if (!batch.get("last_offset").isNull()) {
            builder.overrideLastOffset(batch.get("last_offset").asLong());
        }
        return builder.build().buffer();
    }

    private static ByteBuffer marker(JsonNode marker) {
        ControlRecordType type = marker.get("commit").asBoolean() ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        return MemoryRecords.withEndTransactionMarker(
            marker.get("base_offset").asLong(),
            marker.get("timestamp").asLong(),
            marker.get("leader_epoch").asInt(),
            marker.get("producer_id").asLong(),
            (short) marker.get("producer_epoch").asInt(),
            new EndTransactionMarker(type, marker.get("coordinator_epoch").asInt())).buffer();
    }

    private static ByteBuffer append(JsonNode request) {
        MemoryRecords records = MemoryRecords.readableRecords(
            ByteBuffer.wrap(HEX.parseHex(request.get("append").asText())));
        JsonNode logAppendTime = request.get("log_append_time");
        for (MutableRecordBatch batch : records.batches()) {
            batch.setLastOffset(request.get("last_offset").asLong());
            batch.setPartitionLeaderEpoch(request.get("leader_epoch").asInt());
            if (logAppendTime.isNull()) {
                batch.setMaxTimestamp(TimestampType.CREATE_TIME, request.get("max_timestamp").asLong());
            } else {
                batch.setMaxTimestamp(TimestampType.LOG_APPEND_TIME, logAppendTime.asLong());
            }
        }
        return records.buffer();
    }

    private static ObjectNode read(byte[] data) {
        ObjectNode result = JSON.createObjectNode();
        ArrayNode batches = result.putArray("batches");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            ObjectNode json = batches.addObject();
            json.put("base_offset", batch.baseOffset());
            json.put("last_offset", batch.lastOffset());
            json.put("next_offset", batch.nextOffset());
            json.put("size", batch.sizeInBytes());
            json.put("partition_leader_epoch", batch.partitionLeaderEpoch());
            json.put("crc", batch.checksum());
            json.put("codec", batch.compressionType().name);
            json.put("timestamp_type", batch.timestampType().id);
            json.put("max_timestamp", batch.maxTimestamp());
            json.put("is_transactional", batch.isTransactional());
            json.put("is_control", batch.isControlBatch());
            json.put("producer_id", batch.producerId());
            json.put("producer_epoch", batch.producerEpoch());
            json.put("base_sequence", batch.baseSequence());
            json.put("record_count", batch.countOrNull());
            if (batch.deleteHorizonMs().isPresent()) {
                json.put("delete_horizon_ms", batch.deleteHorizonMs().getAsLong());
            } else {
                json.putNull("delete_horizon_ms");
            }
            ArrayNode records = json.putArray("records");
            for (Record record : batch) {
                ArrayNode row = records.addArray();
                row.add(record.offset()).add(record.timestamp());
                row.add(hex(record.key())).add(hex(record.value()));
                ArrayNode headers = row.addArray();
                for (Header header : record.headers()) {
                    byte[] value = header.value();
                    headers.addArray().add(header.key()).add(value == null ? null : HEX.formatHex(value));
                }
            }
        }
        return result;
    }

    private static byte[] hex(JsonNode text) {
        return text.isNull() ? null : HEX.parseHex(text.asText());
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return HEX.formatHex(copy);
    }
}
