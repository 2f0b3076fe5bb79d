import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * Kafka's assignors as a test oracle: one scenario per line in, one result per line out.
 *
 * <pre>
 * {"assignor": "range", "repeat": 0,
 *  "topics": {"t": {"partitions": 2, "racks": [["a"], ["b"]]}},
 *  "members": [{"id": "c1", "instance": null, "subscription": "hex"}]}
 * </pre>
 *
 * Without "repeat" the result holds every assignment in bytes, and every subscription encoded in versions 0 to 3. With
 * "repeat": n it holds the nanoseconds of n runs of assign() alone, and with "repeat_whole": m those of m runs from
 * bytes to bytes.
 */
public final class AssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode scenario = JSON.readTree(line);
            int repeat = scenario.path("repeat").asInt(0);
            out.println(JSON.writeValueAsString(repeat > 0 ? time(scenario, repeat) : assign(scenario)));
            out.flush();
        }
    }

    private static ObjectNode assign(JsonNode scenario) {
        Map<String, byte[]> bytes = subscriptionBytes(scenario);
        ObjectNode result = JSON.createObjectNode();
        try {
            Map<String, Assignment> assigned = assignor(scenario)
                .assign(cluster(scenario), new GroupSubscription(subscriptions(scenario, bytes)))
                .groupAssignment();
            ObjectNode assignments = result.putObject("assignments");
            assigned.forEach((member, assignment) ->
                assignments.put(member, hex(ConsumerProtocol.serializeAssignment(assignment))));
        } catch (RuntimeException failure) {
            result.put("error", failure.toString());
        }
        ObjectNode encoded = result.putObject("subscriptions");
        subscriptions(scenario, bytes).forEach((member, subscription) -> {
            ArrayNode versions = encoded.putArray(member);
            for (short version = 0; version <= 3; version++)
                versions.add(hex(ConsumerProtocol.serializeSubscription(subscription, version)));
        });
        return result;
    }

    private static ObjectNode time(JsonNode scenario, int repeat) {
        Map<String, byte[]> bytes = subscriptionBytes(scenario);
        Cluster cluster = cluster(scenario);
        Map<String, Subscription> decoded = subscriptions(scenario, bytes);
        ObjectNode result = JSON.createObjectNode();
        ArrayNode assign = result.putArray("assign_ns");
        for (int run = 0; run < repeat; run++) {
            // Reading user data moves the buffer's position; a leader decodes each subscription before every assignment.
            decoded.values().forEach(subscription -> Optional.ofNullable(subscription.userData()).ifPresent(ByteBuffer::rewind));
            ConsumerPartitionAssignor assignor = assignor(scenario);
            System.gc();
            long start = System.nanoTime();
            assignor.assign(cluster, new GroupSubscription(decoded));
            assign.add(System.nanoTime() - start);
        }
        ArrayNode whole = result.putArray("bytes_to_bytes_ns");
        for (int run = 0; run < scenario.path("repeat_whole").asInt(0); run++) {
            ConsumerPartitionAssignor assignor = assignor(scenario);
            System.gc();
            long start = System.nanoTime();
            GroupSubscription members = new GroupSubscription(subscriptions(scenario, bytes));
            for (Assignment assignment : assignor.assign(cluster, members).groupAssignment().values())
                ConsumerProtocol.serializeAssignment(assignment);
            whole.add(System.nanoTime() - start);
        }
        return result;
    }

    private static ConsumerPartitionAssignor assignor(JsonNode scenario) {
        String name = scenario.get("assignor").asText();
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(name);
        }
    }

    private static Map<String, byte[]> subscriptionBytes(JsonNode scenario) {
        Map<String, byte[]> bytes = new HashMap<>();
        for (JsonNode member : scenario.get("members"))
            bytes.put(member.get("id").asText(), HEX.parseHex(member.get("subscription").asText()));
        return bytes;
    }

    /** Fills a HashMap in the order of the members, as the client's leader does. */
    private static Map<String, Subscription> subscriptions(JsonNode scenario, Map<String, byte[]> bytes) {
        Map<String, Subscription> decoded = new HashMap<>();
        for (JsonNode member : scenario.get("members")) {
            String id = member.get("id").asText();
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(bytes.get(id)));
            if (member.hasNonNull("instance"))
                subscription.setGroupInstanceId(Optional.of(member.get("instance").asText()));
            decoded.put(id, subscription);
        }
        return decoded;
    }

    private static Cluster cluster(JsonNode scenario) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        scenario.get("topics").properties().forEach(topic -> {
            JsonNode racks = topic.getValue().path("racks");
            int count = topic.getValue().get("partitions").asInt();
            for (int partition = 0; partition < count; partition++) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks.path(partition))
                    replicas.add(nodes.computeIfAbsent(rack.asText(), r -> new Node(nodes.size(), "h", 9092, r)));
                if (replicas.isEmpty())
                    replicas.add(nodes.computeIfAbsent("", r -> new Node(nodes.size(), "h", 9092)));
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), partition, all[0], all, all));
            }
        });
        return new Cluster("oracle", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HEX.formatHex(bytes);
    }
}
