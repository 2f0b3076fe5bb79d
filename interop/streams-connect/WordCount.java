import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * One instance of a word count, by default with at-least-once processing: lines are read, words pass through a repartition topic,
 * counts are stored with a changelog, and every new count is written.
 *
 * <pre>java WordCount BOOTSTRAP APPLICATION_ID INPUT OUTPUT STATE_DIR SESSION_MS [PROCESSING_GUARANTEE]</pre>
 *
 * Prints its state and its active tasks, one JSON object per line, when either changes. Stops when standard input ends.
 */
public final class WordCount {
    public static void main(String[] args) throws Exception {
        KafkaStreams streams = new KafkaStreams(topology(args[2], args[3]), settings(args));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Thread reporter = new Thread(() -> reportChanges(streams), "reporter");
        reporter.setDaemon(true);
        streams.start();
        reporter.start();
        waitForEndOfInput();
        streams.close(Duration.ofSeconds(20));
        System.out.println("{\"state\": \"STOPPED\", \"tasks\": []}");
    }

    private static Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    private static Properties settings(String[] args) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args.length > 6 ? args[6] : StreamsConfig.AT_LEAST_ONCE);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 1_000);
        settings.put(StreamsConfig.PROBING_REBALANCE_INTERVAL_MS_CONFIG, 60_000);
        settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, Integer.parseInt(args[5]));
        settings.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 500);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        return settings;
    }

    /** Polls state and tasks, because the state listener is not called when tasks change in RUNNING. */
    private static void reportChanges(KafkaStreams streams) {
        String last = "";
        while (true) {
            String tasks = streams.metadataForLocalThreads().stream()
                .flatMap(thread -> thread.activeTasks().stream())
                .map(task -> '"' + task.taskId().toString() + '"')
                .collect(Collectors.toCollection(TreeSet::new))
                .toString();
            String current = "{\"state\": \"" + streams.state() + "\", \"tasks\": " + tasks + "}";
            if (!current.equals(last)) {
                System.out.println(current);
                last = current;
            }
            try {
                Thread.sleep(50);
            } catch (InterruptedException interrupted) {
                return;
            }
        }
    }

    private static void waitForEndOfInput() throws IOException {
        while (System.in.read() >= 0) {
            // the input is ignored
        }
    }
}
