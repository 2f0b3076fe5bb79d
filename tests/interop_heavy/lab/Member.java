import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.slf4j.LoggerFactory;

/**
 * One consumer process of an incident, with the Java client: {@code Member TOPICS|~PATTERN NAME=VALUE...}. It takes the
 * same commands on standard input as member.py.
 */
public final class Member {
    private static volatile double delay;
    private static volatile double once;
    private static volatile boolean fail;
    private static volatile boolean stopped;
    private static volatile String topics;

    private Member() {}

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        for (String pair : Arrays.copyOfRange(args, 1, args.length)) {
            settings.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        Thread listener = new Thread(Member::listen);
        listener.setDaemon(true);
        listener.start();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopped = true;
            try {
                main.join(30_000);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        if (args[0].startsWith("~")) {
            consumer.subscribe(Pattern.compile(args[0].substring(1)));
        } else {
            consumer.subscribe(Arrays.asList(args[0].split(",")));
        }
        try {
            while (!stopped) {
                String changed = topics;
                topics = null;
                if (changed != null) {
                    consumer.subscribe(Arrays.asList(changed.split(",")));
                }
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (!records.isEmpty()) {
                    handle();
                }
            }
        } catch (WakeupException woken) {
            // the finally block closes the consumer
        } catch (RuntimeException error) {
            LoggerFactory.getLogger("app").error("consumer loop died", error);
            throw error;
        } finally {
            consumer.close();
        }
    }

    private static void handle() throws InterruptedException {
        if (fail) {
            throw new IllegalStateException("cannot parse record");
        }
        double seconds = once > 0 ? once : delay;
        once = 0;
        Thread.sleep((long) (seconds * 1000));
    }

    private static void listen() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.trim().split(" ", 2);
                switch (words[0]) {
                    case "delay" -> delay = Double.parseDouble(words[1]);
                    case "once" -> once = Double.parseDouble(words[1]);
                    case "throw" -> fail = true;
                    case "subscribe" -> topics = words[1];
                    case "exit" -> Runtime.getRuntime().halt(1);
                    default -> { }
                }
            }
        } catch (java.io.IOException error) {
            // handled like the end of the stream
        }
        Runtime.getRuntime().halt(1);
    }
}
