import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Exit;

/**
 * The Java client and Kafka's command-line tools, driven by lines of JSON: one command in, one answer out, as
 * tests/interop/drivers/line.py describes them. The broker's address is the only argument.
 *
 * <p>Besides the commands that every driver has there is one for Kafka's tools, which run in this JVM, one at a time:
 * {"do": "tool", "main": class, "arguments": [...], "input": text} -> {"code": 0, "out": text, "err": text}.
 */
public final class ClientDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(50);
    private static final long COMMAND_MS = 40_000;
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final String bootstrap;
    private final Admin admin;
    private final Map<String, Member> members = new HashMap<>();

    private ClientDriver(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Tool.takeOver();
        ClientDriver driver = new ClientDriver(args[0]);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("answer", JSON.valueToTree(driver.answer(JSON.readTree(line))));
            } catch (Exception error) {
                Throwable cause = cause(error);
                answer.put("error", cause.toString()).put("code", Errors.forException(cause).code());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
        System.exit(0);
    }

    private static Throwable cause(Throwable error) {
        boolean wrapped = error instanceof ExecutionException || error instanceof CompletionException;
        return wrapped && error.getCause() != null ? cause(error.getCause()) : error;
    }

    private Object answer(JsonNode command) throws Exception {
        String topic = command.path("topic").asText();
        String group = command.path("group").asText();
        switch (command.get("do").asText()) {
            case "join":
                members.put(command.get("member").asText(), new Member(bootstrap, command));
                return null;
            case "snapshot":
                return member(command).look();
            case "commit":
                return member(command).ask(consumer -> commit(consumer, command.get("offsets")));
            case "committed":
                return member(command).ask(consumer -> committed(consumer, partition(command.get("partition").asText())));
            case "seek":
                return member(command).ask(consumer -> {
                    consumer.seek(partition(command.get("partition").asText()), command.get("offset").asLong());
                    return null;
                });
            case "close":
                Member ended = members.remove(command.get("member").asText());
                ended.close();
                return ended.look();
            case "produce":
                return produce(topic, command.get("records"), command.get("codec").asText());
            case "read":
                return read(topic, command.get("start"), command.get("count").asInt());
            case "offsets":
                return offsets(topic, command.get("partitions"));
            case "offset_at":
                return offsetAt(new TopicPartition(topic, command.get("partition").asInt()), command.get("timestamp").asLong());
            case "create_topic":
                createTopic(topic, command.get("partitions").asInt(), command.get("configs"));
                return null;
            case "delete_topic":
                return get(admin.deleteTopics(List.of(topic)).all());
            case "topics":
                return get(admin.listTopics().names());
            case "partitions":
                return get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size();
            case "add_partitions":
                return get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(command.get("total").asInt()))).all());
            case "config":
                return config(topic, command.get("name").asText());
            case "set_config":
                return setConfig(topic, new ConfigEntry(command.get("name").asText(), command.get("value").asText()));
            case "delete_records":
                return deleteRecords(new TopicPartition(topic, command.get("partition").asInt()), command.get("before").asLong());
            case "groups":
                return get(admin.listGroups().all()).stream().map(GroupListing::groupId).toList();
            case "group":
                return describe(get(admin.describeConsumerGroups(List.of(group)).all()).get(group));
            case "group_offsets":
                return groupOffsets(group);
            case "set_group_offsets":
                return get(admin.alterConsumerGroupOffsets(group, wanted(command.get("offsets"))).all());
            case "delete_group_offsets":
                return get(admin.deleteConsumerGroupOffsets(group, partitions(command.get("partitions"))).all());
            case "delete_group":
                return get(admin.deleteConsumerGroups(List.of(group)).all());
            case "cluster":
                return cluster();
            case "tool":
                return Tool.run(command.get("main").asText(), texts(command.get("arguments")), command.get("input").asText());
            default:
                throw new IllegalArgumentException("no such command: " + command);
        }
    }

    private Member member(JsonNode command) {
        return members.get(command.get("member").asText());
    }

    private static <T> T get(Future<T> future) throws Exception {
        return future.get(COMMAND_MS, TimeUnit.MILLISECONDS);
    }

    // --- members ---------------------------------------------------------------------------------------------------

    private interface Work {
        Object on(KafkaConsumer<byte[], byte[]> consumer) throws Exception;
    }

    /** A consumer that is polled on its own thread, which alone touches it, until it is closed. */
    private static final class Member implements ConsumerRebalanceListener {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final BlockingQueue<FutureTask<Object>> inbox = new LinkedBlockingQueue<>();
        private final ArrayNode events = JSON.createArrayNode();
        private final ArrayNode moments = JSON.createArrayNode();
        private final ArrayNode records = JSON.createArrayNode();
        private List<String> assignment = List.of();
        private int generation = -1;
        private RuntimeException failure;
        private boolean closed;

        Member(String bootstrap, JsonNode command) {
            Map<String, Object> settings = new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap,
                "client.id", command.get("member").asText(),
                "group.id", command.get("group").asText(),
                "partition.assignment.strategy", assignors(command.get("assignor").asText()),
                "session.timeout.ms", command.get("session_ms").asInt(),
                "heartbeat.interval.ms", 200,
                "metadata.max.age.ms", 500,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false));
            if (!command.get("instance").isNull()) {
                settings.put("group.instance.id", command.get("instance").asText());
            }
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            if (command.get("pattern").isNull()) {
                consumer.subscribe(texts(command.get("topics")), this);
            } else {
                consumer.subscribe(Pattern.compile(command.get("pattern").asText()), this);
            }
            Thread thread = new Thread(this::live);
            thread.setDaemon(true);
            thread.start();
        }

        private static String assignors(String names) {
            return Stream.of(names.split(",")).map(ASSIGNORS::get).collect(Collectors.joining(","));
        }

        private void live() {
            try {
                while (!closed) {
                    note(consumer.poll(POLL));
                    for (FutureTask<Object> work = inbox.poll(); work != null; work = inbox.poll()) {
                        work.run();
                    }
                }
            } catch (RuntimeException error) {
                synchronized (this) {
                    failure = error;
                }
            }
        }

        private synchronized void note(Iterable<ConsumerRecord<byte[], byte[]>> came) {
            came.forEach(record -> records.add(shown(record)));
            assignment = names(consumer.assignment());
            generation = consumer.groupMetadata().generationId();
        }

        Object ask(Work work) throws Exception {
            FutureTask<Object> task = new FutureTask<>(() -> work.on(consumer));
            inbox.add(task);
            return get(task);
        }

        void close() throws Exception {
            ask(consumer -> {
                closed = true;
                consumer.close();
                return null;
            });
        }

        synchronized ObjectNode look() {
            if (failure != null) {
                throw failure;
            }
            ObjectNode seen = JSON.createObjectNode().put("generation", generation);
            seen.set("assignment", JSON.valueToTree(assignment));
            seen.set("events", events.deepCopy());
            seen.set("moments", moments.deepCopy());
            seen.set("records", records.deepCopy());
            return seen;
        }

        private synchronized void event(String kind, Collection<TopicPartition> partitions) {
            if (!partitions.isEmpty()) {
                events.addArray().add(kind).add(JSON.valueToTree(names(partitions)));
                moments.add(System.nanoTime());
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            event("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            event("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            event("lost", partitions);
        }
    }

    private static Object commit(KafkaConsumer<byte[], byte[]> consumer, JsonNode offsets) {
        if (offsets.isNull()) {
            consumer.commitSync();
        } else {
            consumer.commitSync(wanted(offsets));
        }
        return null;
    }

    private static Object committed(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition) {
        OffsetAndMetadata found = consumer.committed(Set.of(partition)).get(partition);
        return found == null ? null : List.of(found.offset(), found.metadata());
    }

    // --- records ---------------------------------------------------------------------------------------------------

    private List<List<Long>> produce(String topic, JsonNode records, String codec) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "compression.type", codec);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : records) {
                JsonNode partition = record.get("partition");
                JsonNode timestamp = record.get("timestamp");
                ProducerRecord<byte[], byte[]> made = new ProducerRecord<>(
                    topic,
                    partition.isNull() ? null : partition.asInt(),
                    timestamp.isNull() ? null : timestamp.asLong(),
                    bytes(record.get("key")),
                    bytes(record.get("value")));
                record.get("headers").forEach(header -> made.headers().add(header.get(0).asText(), bytes(header.get(1))));
                sent.add(producer.send(made));
            }
            List<List<Long>> told = new ArrayList<>();
            for (Future<RecordMetadata> one : sent) {
                told.add(List.of((long) get(one).partition(), get(one).offset()));
            }
            return told;
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "none");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private ArrayNode read(String topic, JsonNode start, int count) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            Map<TopicPartition, Long> from = new HashMap<>();
            start.properties().forEach(
                one -> from.put(new TopicPartition(topic, Integer.parseInt(one.getKey())), one.getValue().asLong()));
            consumer.assign(from.keySet());
            from.forEach(consumer::seek);
            ArrayNode came = JSON.createArrayNode();
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(COMMAND_MS);
            while (came.size() < count && System.nanoTime() < deadline) {
                consumer.poll(POLL).forEach(record -> came.add(shown(record)));
            }
            return came;
        }
    }

    private Map<Integer, List<Long>> offsets(String topic, JsonNode partitions) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> asked = new ArrayList<>();
            partitions.forEach(one -> asked.add(new TopicPartition(topic, one.asInt())));
            Map<TopicPartition, Long> first = consumer.beginningOffsets(asked);
            Map<TopicPartition, Long> end = consumer.endOffsets(asked);
            Map<Integer, List<Long>> found = new HashMap<>();
            asked.forEach(one -> found.put(one.partition(), List.of(first.get(one), end.get(one))));
            return found;
        }
    }

    private Long offsetAt(TopicPartition partition, long timestamp) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition);
            return found == null ? null : found.offset();
        }
    }

    private static ObjectNode shown(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode shown = JSON.createObjectNode()
            .put("topic", record.topic())
            .put("partition", record.partition())
            .put("offset", record.offset())
            .put("key", text(record.key()))
            .put("value", text(record.value()))
            .put("timestamp", record.timestamp());
        ArrayNode headers = shown.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return shown;
    }

    // --- admin -----------------------------------------------------------------------------------------------------

    private void createTopic(String topic, int partitions, JsonNode configs) throws Exception {
        Map<String, String> settings = new HashMap<>();
        configs.properties().forEach(one -> settings.put(one.getKey(), one.getValue().asText()));
        get(admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(settings))).all());
    }

    private String config(String topic, String name) throws Exception {
        ConfigResource asked = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return get(admin.describeConfigs(List.of(asked)).all()).get(asked).get(name).value();
    }

    private Object setConfig(String topic, ConfigEntry entry) throws Exception {
        ConfigResource asked = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp set = new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
        return get(admin.incrementalAlterConfigs(Map.of(asked, List.of(set))).all());
    }

    private long deleteRecords(TopicPartition partition, long before) throws Exception {
        Map<TopicPartition, RecordsToDelete> asked = Map.of(partition, RecordsToDelete.beforeOffset(before));
        return get(admin.deleteRecords(asked).lowWatermarks().get(partition)).lowWatermark();
    }

    private static Map<String, Object> describe(ConsumerGroupDescription found) {
        Map<String, Object> members = new HashMap<>();
        for (MemberDescription member : found.members()) {
            members.put(member.clientId(), names(member.assignment().topicPartitions()));
        }
        return Map.of(
            "state", found.groupState().toString(), "protocol", found.partitionAssignor(), "members", members);
    }

    private Map<String, Long> groupOffsets(String group) throws Exception {
        Map<String, Long> found = new HashMap<>();
        get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).forEach(
            (partition, committed) -> found.put(partition.toString(), committed.offset()));
        return found;
    }

    private Map<String, Object> cluster() throws Exception {
        DescribeClusterResult found = admin.describeCluster();
        List<String> nodes = new ArrayList<>();
        for (Node node : get(found.nodes())) {
            nodes.add(node.host() + ":" + node.port());
        }
        return Map.of("id", get(found.clusterId()), "controller", get(found.controller()).id(), "nodes", nodes);
    }

    // --- forms -----------------------------------------------------------------------------------------------------

    private static TopicPartition partition(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }

    private static Set<TopicPartition> partitions(JsonNode names) {
        return Set.copyOf(texts(names).stream().map(ClientDriver::partition).toList());
    }

    /** Offsets by partition: a number, or a pair of offset and metadata. */
    private static Map<TopicPartition, OffsetAndMetadata> wanted(JsonNode offsets) {
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        offsets.properties().forEach(one -> {
            JsonNode value = one.getValue();
            wanted.put(partition(one.getKey()), value.isArray()
                ? new OffsetAndMetadata(value.get(0).asLong(), value.get(1).asText())
                : new OffsetAndMetadata(value.asLong()));
        });
        return wanted;
    }

    private static List<String> names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().toList();
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(one -> texts.add(one.asText()));
        return texts;
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    // --- Kafka's tools ---------------------------------------------------------------------------------------------

    /** Runs a tool's main() with its own standard streams, and takes its exit for what it is. */
    private static final class Tool {
        private static final PrintStream BETWEEN_TOOLS = System.err;
        private static final Switch OUT = new Switch();
        private static final Switch ERR = new Switch();

        /** The first exit's code; a tool that takes its own exit for an error exits a second time. */
        private static Integer exitCode;

        /** Ends a tool where it exits. */
        private static final class Exited extends Error {
            private static final long serialVersionUID = 1L;
        }

        /** A stream that leads elsewhere for each tool: Scala keeps the first System.out it sees. */
        private static final class Switch extends OutputStream {
            private volatile OutputStream target = BETWEEN_TOOLS;

            @Override
            public void write(int one) throws IOException {
                target.write(one);
            }

            @Override
            public void write(byte[] data, int from, int count) throws IOException {
                target.write(data, from, count);
            }
        }

        static void takeOver() {
            System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
            Exit.setExitProcedure(Tool::exit);
            Exit.setHaltProcedure(Tool::exit);
            Exit.setShutdownHookAdder((name, hook) -> { });
        }

        private static void exit(int code, String message) {
            exitCode = exitCode == null ? (Integer) code : exitCode;
            throw new Exited();
        }

        static ObjectNode run(String main, List<String> arguments, String input) throws Exception {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            InputStream before = System.in;
            OUT.target = out;
            ERR.target = err;
            System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
            exitCode = null;
            try {
                Object given = arguments.toArray(new String[0]);
                Class.forName(main).getMethod("main", String[].class).invoke(null, given);
            } catch (InvocationTargetException error) {
                if (!(error.getCause() instanceof Exited)) {
                    throw new IllegalStateException(main + " failed", error.getCause());
                }
            } finally {
                System.setIn(before);
                OUT.target = BETWEEN_TOOLS;
                ERR.target = BETWEEN_TOOLS;
            }
            return JSON.createObjectNode()
                .put("code", exitCode == null ? 0 : exitCode)
                .put("out", out.toString(StandardCharsets.UTF_8))
                .put("err", err.toString(StandardCharsets.UTF_8));
        }
    }
}
