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
 * Kafka's own record batches as an oracle: one question per line in, one answer per line out, bytes in hex.
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
            JsonNode question = JSON.readTree(line);
            ObjectNode answer;
            try {
                answer = answer(question);
            } catch (RuntimeException error) {
                answer = JSON.createObjectNode().put("error", error.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static ObjectNode answer(JsonNode question) {
        if (question.has("write")) {
            return bytes(write(question.get("write"), question.get("records")));
        }
        if (question.has("marker")) {
            return bytes(marker(question.get("marker")));
        }
        if (question.has("append")) {
            return bytes(append(question));
        }
        return read(HEX.parseHex(question.get("read").asText()));
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
            JsonNode given = record.get(4);
            Header[] headers = new Header[given.size()];
            for (int at = 0; at < headers.length; at++) {
                headers[at] = new RecordHeader(given.get(at).get(0).asText(), hex(given.get(at).get(1)));
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

    private static ByteBuffer append(JsonNode question) {
        MemoryRecords records = MemoryRecords.readableRecords(
            ByteBuffer.wrap(HEX.parseHex(question.get("append").asText())));
        JsonNode logAppendTime = question.get("log_append_time");
        for (MutableRecordBatch batch : records.batches()) {
            batch.setLastOffset(question.get("last_offset").asLong());
            batch.setPartitionLeaderEpoch(question.get("leader_epoch").asInt());
            if (logAppendTime.isNull()) {
                batch.setMaxTimestamp(TimestampType.CREATE_TIME, question.get("max_timestamp").asLong());
            } else {
                batch.setMaxTimestamp(TimestampType.LOG_APPEND_TIME, logAppendTime.asLong());
            }
        }
        return records.buffer();
    }

    private static ObjectNode read(byte[] data) {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode batches = answer.putArray("batches");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            ObjectNode one = batches.addObject();
            one.put("base_offset", batch.baseOffset());
            one.put("last_offset", batch.lastOffset());
            one.put("next_offset", batch.nextOffset());
            one.put("size", batch.sizeInBytes());
            one.put("partition_leader_epoch", batch.partitionLeaderEpoch());
            one.put("crc", batch.checksum());
            one.put("codec", batch.compressionType().name);
            one.put("timestamp_type", batch.timestampType().id);
            one.put("max_timestamp", batch.maxTimestamp());
            one.put("is_transactional", batch.isTransactional());
            one.put("is_control", batch.isControlBatch());
            one.put("producer_id", batch.producerId());
            one.put("producer_epoch", batch.producerEpoch());
            one.put("base_sequence", batch.baseSequence());
            one.put("record_count", batch.countOrNull());
            if (batch.deleteHorizonMs().isPresent()) {
                one.put("delete_horizon_ms", batch.deleteHorizonMs().getAsLong());
            } else {
                one.putNull("delete_horizon_ms");
            }
            ArrayNode records = one.putArray("records");
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
        return answer;
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
