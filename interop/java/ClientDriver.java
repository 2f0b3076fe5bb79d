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
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
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
 * The Java client and Kafka's command-line tools, controlled by JSON lines: one command in, one result out, as
 * described in tests/interop/drivers/line.py. The broker's address is the only argument.
 *
 * <p>In addition to the commands of every driver, one command runs Kafka's tools in this JVM, one at a time:
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
        Tool.redirectStreams();
        ClientDriver driver = new ClientDriver(args[0]);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode response = JSON.createObjectNode();
            try {
                response.set("result", JSON.valueToTree(driver.execute(JSON.readTree(line))));
            } catch (Exception error) {
                Throwable cause = cause(error);
                response.put("error", cause.toString()).put("code", Errors.forException(cause).code());
            }
            out.println(JSON.writeValueAsString(response));
            out.flush();
        }
        System.exit(0);
    }

    private static Object coordinatorMetrics(KafkaConsumer<?, ?> consumer) {
        ObjectNode metrics = JSON.createObjectNode();
        consumer.metrics().forEach((name, metric) -> {
            if (name.group().equals("consumer-coordinator-metrics") && metric.metricValue() instanceof Double) {
                metrics.put(name.name(), (Double) metric.metricValue());
            }
        });
        return metrics;
    }

    private static Throwable cause(Throwable error) {
        boolean wrapped = error instanceof ExecutionException || error instanceof CompletionException;
        return wrapped && error.getCause() != null ? cause(error.getCause()) : error;
    }

    private Object execute(JsonNode command) throws Exception {
        String topic = command.path("topic").asText();
        String group = command.path("group").asText();
        switch (command.get("do").asText()) {
            case "join":
                members.put(command.get("member").asText(), new Member(bootstrap, command));
                return null;
            case "snapshot":
                return member(command).snapshot();
            case "metrics":
                return member(command).call(ClientDriver::coordinatorMetrics);
            case "commit":
                return member(command).call(consumer -> commit(consumer, command.get("offsets")));
            case "committed":
                return member(command).call(consumer -> committed(consumer, partition(command.get("partition").asText())));
            case "seek":
                return member(command).call(consumer -> {
                    consumer.seek(partition(command.get("partition").asText()), command.get("offset").asLong());
                    return null;
                });
            case "close":
                Member closed = members.remove(command.get("member").asText());
                closed.close();
                return closed.snapshot();
            case "loop":
                return loop(topic, group, command.get("end").asText());
            case "transact":
                transact(command.get("transactional_id").asText(), topic, command.get("transactions"));
                return null;
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
                return get(admin.alterConsumerGroupOffsets(group, offsetsByPartition(command.get("offsets"))).all());
            case "delete_group_offsets":
                return get(admin.deleteConsumerGroupOffsets(group, partitions(command.get("partitions"))).all());
            case "delete_group":
                return get(admin.deleteConsumerGroups(List.of(group)).all());
            case "cluster":
                return cluster();
            case "tool":
                return Tool.run(command.get("main").asText(), texts(command.get("arguments")), command.get("input").asText());
            default:
                throw new IllegalArgumentException("unknown command: " + command);
        }
    }

    private Member member(JsonNode command) {
        return members.get(command.get("member").asText());
    }

    private static <T> T get(Future<T> future) throws Exception {
        return future.get(COMMAND_MS, TimeUnit.MILLISECONDS);
    }

    // --- loops -----------------------------------------------------------------------------------------------------

    private static final class Failed extends RuntimeException {}

    private final List<KafkaConsumer<byte[], byte[]>> leftOpen = new ArrayList<>();

    /** A program as users write it; line.py describes it. The Java client has only batches. */
    private Object loop(String topic, String group, String end) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", group,
            "auto.offset.reset", "earliest",
            "enable.auto.commit", !end.equals("commit"),
            "auto.commit.interval.ms", 200);
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        leftOpen.add(consumer);
        consumer.subscribe(List.of(topic));
        try {
            int number = 0;
            while (number < 4) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    if (++number == 4) {
                        switch (end) {
                            case "raise" -> throw new Failed();
                            case "commit" -> consumer.commitSync();
                            case "hold" -> Thread.sleep(2_000);
                            default -> { }
                        }
                        break;
                    }
                }
            }
        } catch (Failed failed) {
            consumer.close();
        }
        if (end.equals("break")) {
            consumer.close();
        }
        return null;
    }

    // --- members ---------------------------------------------------------------------------------------------------

    private interface Work {
        Object on(KafkaConsumer<byte[], byte[]> consumer) throws Exception;
    }

    /** A consumer that is polled on its own thread until it is closed; only that thread uses it. */
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
            Thread thread = new Thread(this::run);
            thread.setDaemon(true);
            thread.start();
        }

        private static String assignors(String names) {
            return Stream.of(names.split(",")).map(ASSIGNORS::get).collect(Collectors.joining(","));
        }

        private void run() {
            try {
                while (!closed) {
                    record(consumer.poll(POLL));
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

        private synchronized void record(Iterable<ConsumerRecord<byte[], byte[]>> received) {
            received.forEach(record -> records.add(toJson(record)));
            assignment = names(consumer.assignment());
            generation = consumer.groupMetadata().generationId();
        }

        Object call(Work work) throws Exception {
            FutureTask<Object> task = new FutureTask<>(() -> work.on(consumer));
            inbox.add(task);
            return get(task);
        }

        void close() throws Exception {
            call(consumer -> {
                closed = true;
                consumer.close();
                return null;
            });
        }

        synchronized ObjectNode snapshot() {
            if (failure != null) {
                throw failure;
            }
            ObjectNode snapshot = JSON.createObjectNode().put("generation", generation);
            snapshot.set("assignment", JSON.valueToTree(assignment));
            snapshot.set("events", events.deepCopy());
            snapshot.set("moments", moments.deepCopy());
            snapshot.set("records", records.deepCopy());
            return snapshot;
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
            consumer.commitSync(offsetsByPartition(offsets));
        }
        return null;
    }

    private static Object committed(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition) {
        OffsetAndMetadata committed = consumer.committed(Set.of(partition)).get(partition);
        return committed == null ? null : List.of(committed.offset(), committed.metadata());
    }

    // --- records ---------------------------------------------------------------------------------------------------

    /** Runs transactions one after the other; the last one may stay open, as in a process that crashes. */
    private void transact(String id, String topic, JsonNode transactions) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transactional.id", id);
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        for (JsonNode transaction : transactions) {
            producer.beginTransaction();
            for (JsonNode value : transaction.get("values")) {
                producer.send(new ProducerRecord<>(topic, 0, null, value.asText().getBytes(StandardCharsets.UTF_8)));
            }
            if (!transaction.get("group").isNull()) {
                producer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(transaction.get("offset").asLong())),
                        new ConsumerGroupMetadata(transaction.get("group").asText()));
            }
            String end = transaction.get("end").asText();
            if (end.equals("commit")) {
                producer.commitTransaction();
            } else {
                producer.flush();
                if (end.equals("abort")) {
                    producer.abortTransaction();
                }
            }
        }
    }

    private List<List<Long>> produce(String topic, JsonNode records, String codec) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "compression.type", codec);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : records) {
                JsonNode partition = record.get("partition");
                JsonNode timestamp = record.get("timestamp");
                ProducerRecord<byte[], byte[]> produced = new ProducerRecord<>(
                    topic,
                    partition.isNull() ? null : partition.asInt(),
                    timestamp.isNull() ? null : timestamp.asLong(),
                    bytes(record.get("key")),
                    bytes(record.get("value")));
                record.get("headers").forEach(header -> produced.headers().add(header.get(0).asText(), bytes(header.get(1))));
                sent.add(producer.send(produced));
            }
            List<List<Long>> positions = new ArrayList<>();
            for (Future<RecordMetadata> future : sent) {
                positions.add(List.of((long) get(future).partition(), get(future).offset()));
            }
            return positions;
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
                entry -> from.put(new TopicPartition(topic, Integer.parseInt(entry.getKey())), entry.getValue().asLong()));
            consumer.assign(from.keySet());
            from.forEach(consumer::seek);
            ArrayNode records = JSON.createArrayNode();
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(COMMAND_MS);
            while (records.size() < count && System.nanoTime() < deadline) {
                consumer.poll(POLL).forEach(record -> records.add(toJson(record)));
            }
            return records;
        }
    }

    private Map<Integer, List<Long>> offsets(String topic, JsonNode partitions) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> requested = new ArrayList<>();
            partitions.forEach(number -> requested.add(new TopicPartition(topic, number.asInt())));
            Map<TopicPartition, Long> first = consumer.beginningOffsets(requested);
            Map<TopicPartition, Long> end = consumer.endOffsets(requested);
            Map<Integer, List<Long>> offsets = new HashMap<>();
            requested.forEach(partition ->
                offsets.put(partition.partition(), List.of(first.get(partition), end.get(partition))));
            return offsets;
        }
    }

    private Long offsetAt(TopicPartition partition, long timestamp) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            OffsetAndTimestamp offset = consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition);
            return offset == null ? null : offset.offset();
        }
    }

    private static ObjectNode toJson(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode json = JSON.createObjectNode()
            .put("topic", record.topic())
            .put("partition", record.partition())
            .put("offset", record.offset())
            .put("key", text(record.key()))
            .put("value", text(record.value()))
            .put("timestamp", record.timestamp());
        ArrayNode headers = json.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return json;
    }

    // --- admin -----------------------------------------------------------------------------------------------------

    private void createTopic(String topic, int partitions, JsonNode configs) throws Exception {
        Map<String, String> settings = new HashMap<>();
        configs.properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        get(admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(settings))).all());
    }

    private String config(String topic, String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return get(admin.describeConfigs(List.of(resource)).all()).get(resource).get(name).value();
    }

    private Object setConfig(String topic, ConfigEntry entry) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp set = new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
        return get(admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all());
    }

    private long deleteRecords(TopicPartition partition, long before) throws Exception {
        Map<TopicPartition, RecordsToDelete> deletions = Map.of(partition, RecordsToDelete.beforeOffset(before));
        return get(admin.deleteRecords(deletions).lowWatermarks().get(partition)).lowWatermark();
    }

    private static Map<String, Object> describe(ConsumerGroupDescription description) {
        Map<String, Object> members = new HashMap<>();
        for (MemberDescription member : description.members()) {
            members.put(member.clientId(), names(member.assignment().topicPartitions()));
        }
        return Map.of(
            "state", description.groupState().toString(), "protocol", description.partitionAssignor(), "members", members);
    }

    private Map<String, Long> groupOffsets(String group) throws Exception {
        Map<String, Long> offsets = new HashMap<>();
        get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).forEach(
            (partition, committed) -> offsets.put(partition.toString(), committed.offset()));
        return offsets;
    }

    private Map<String, Object> cluster() throws Exception {
        DescribeClusterResult result = admin.describeCluster();
        List<String> nodes = new ArrayList<>();
        for (Node node : get(result.nodes())) {
            nodes.add(node.host() + ":" + node.port());
        }
        return Map.of("id", get(result.clusterId()), "controller", get(result.controller()).id(), "nodes", nodes);
    }

    // --- conversions -----------------------------------------------------------------------------------------------

    private static TopicPartition partition(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }

    private static Set<TopicPartition> partitions(JsonNode names) {
        return Set.copyOf(texts(names).stream().map(ClientDriver::partition).toList());
    }

    /** Offsets by partition: a number, or a pair of offset and metadata. */
    private static Map<TopicPartition, OffsetAndMetadata> offsetsByPartition(JsonNode offsets) {
        Map<TopicPartition, OffsetAndMetadata> result = new HashMap<>();
        offsets.properties().forEach(entry -> {
            JsonNode value = entry.getValue();
            result.put(partition(entry.getKey()), value.isArray()
                ? new OffsetAndMetadata(value.get(0).asLong(), value.get(1).asText())
                : new OffsetAndMetadata(value.asLong()));
        });
        return result;
    }

    private static List<String> names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().toList();
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(element -> texts.add(element.asText()));
        return texts;
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    // --- Kafka's tools ---------------------------------------------------------------------------------------------

    /** Runs a tool's main() with its own standard streams, and turns its exit into a result. */
    private static final class Tool {
        private static final PrintStream BETWEEN_TOOLS = System.err;
        private static final SwitchStream OUT = new SwitchStream();
        private static final SwitchStream ERR = new SwitchStream();

        /** The code of the first exit; a tool that catches its own exit as an error exits a second time. */
        private static Integer exitCode;

        /** Thrown where a tool exits. */
        private static final class Exited extends Error {
            private static final long serialVersionUID = 1L;
        }

        /** A stream whose target changes per tool, because Scala keeps the first System.out that it reads. */
        private static final class SwitchStream extends OutputStream {
            private volatile OutputStream target = BETWEEN_TOOLS;

            @Override
            public void write(int data) throws IOException {
                target.write(data);
            }

            @Override
            public void write(byte[] data, int from, int count) throws IOException {
                target.write(data, from, count);
            }
        }

        static void redirectStreams() {
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
                Object argv = arguments.toArray(new String[0]);
                Class.forName(main).getMethod("main", String[].class).invoke(null, argv);
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
