"""The name of each setting in each client library, as lines to paste.

Invariants:
- The key is Kafka's name. For a library without the setting, the entry has a replacement or states that there is none.
- `{value}` is filled in, `{seconds}` for libraries that count in seconds. Text that is not a setting is a comment in
  the library's language.
- Lines can be pasted one below the other: keyword arguments end with a comma.
- A change that takes two deploys has two lines, the first deploy first.
- The library of a group is recognised by the lines of its clients' logs, never by names.
"""

from collections.abc import Iterable
from typing import Final

PROPERTIES: Final[dict[str, dict[str, str]]] = {
    "max.poll.interval.ms": {
        "java": "max.poll.interval.ms={value}",
        "librdkafka": "max.poll.interval.ms={value}",
        "kafka-python": "max_poll_interval_ms={value},",
        "aiokafka": "max_poll_interval_ms={value},\nrebalance_timeout_ms={value},",
        "sarama": "// no poll timer: return from ConsumeClaim within this time after session.Context() is done\n"
        "config.Consumer.Group.Rebalance.Timeout = {value} * time.Millisecond",
        "kafkajs": "// no poll timer: a handler blocks heartbeats; call heartbeat() in it, or set\n"
        "sessionTimeout: {value}, rebalanceTimeout: {value},",
        "slackwater": "max_poll_interval_ms={value},",
        "spark": '.option("kafka.max.poll.interval.ms", {value})',
        "franz-go": "// no poll timer: rejoin within this time after a rebalance begins\n"
        "kgo.RebalanceTimeout({value} * time.Millisecond),",
        "kafka-go": "// no poll timer: rejoin within this time after a rebalance begins\n"
        "RebalanceTimeout: {value} * time.Millisecond,",
        "ruby-kafka": "# no poll timer: rejoin within this time after a rebalance begins\n"
        "rebalance_timeout: {seconds},",
        "brod": "%% no poll timer: rejoin within this time after a rebalance begins\n"
        "{{rebalance_timeout_seconds, {seconds}}},",
    },
    "max.poll.records": {
        "java": "max.poll.records={value}",
        "librdkafka": "# no such setting: poll() returns one record; limit num_messages of consume()",
        "kafka-python": "max_poll_records={value},",
        "aiokafka": "max_poll_records={value},",
        "sarama": "// no batches: the time per message counts; this limits the messages buffered per partition\n"
        "config.ChannelBufferSize = {value}",
        "kafkajs": "// no such setting: lower maxBytesPerPartition, and call heartbeat() between messages",
        "slackwater": "max_poll_records={value},",
        "spark": "# the records of a batch; numInputRows of lastProgress is the present number\n"
        '.option("maxOffsetsPerTrigger", {value})\n'
        "# without a limit, a batch has what arrived since the last one: a shorter trigger makes it smaller\n"
        '.trigger(processingTime="<a shorter interval>")',
        "franz-go": "// the second argument is the limit\nclient.PollRecords(ctx, {value})",
        "kafka-go": "// no batches: ReadMessage returns one message; a faster handler helps",
        "ruby-kafka": "# no such setting: lower max_bytes of each_batch",
        "brod": "%% no such setting: lower max_bytes of the consumer configuration",
    },
    "session.timeout.ms": {
        "java": "session.timeout.ms={value}",
        "librdkafka": "session.timeout.ms={value}",
        "kafka-python": "session_timeout_ms={value},",
        "aiokafka": "session_timeout_ms={value},",
        "sarama": "config.Consumer.Group.Session.Timeout = {value} * time.Millisecond",
        "kafkajs": "sessionTimeout: {value},",
        "slackwater": "session_timeout_ms={value},",
        "spark": '.option("kafka.session.timeout.ms", {value})',
        "franz-go": "kgo.SessionTimeout({value} * time.Millisecond),",
        "kafka-go": "SessionTimeout: {value} * time.Millisecond,",
        "ruby-kafka": "session_timeout: {seconds},",
        "brod": "{{session_timeout_seconds, {seconds}}},",
    },
    "heartbeat.interval.ms": {
        "java": "heartbeat.interval.ms={value}",
        "librdkafka": "heartbeat.interval.ms={value}",
        "kafka-python": "heartbeat_interval_ms={value},",
        "aiokafka": "heartbeat_interval_ms={value},",
        "sarama": "config.Consumer.Group.Heartbeat.Interval = {value} * time.Millisecond",
        "kafkajs": "heartbeatInterval: {value},",
        "slackwater": "heartbeat_interval_ms={value},",
        "spark": '.option("kafka.heartbeat.interval.ms", {value})',
        "franz-go": "kgo.HeartbeatInterval({value} * time.Millisecond),",
        "kafka-go": "HeartbeatInterval: {value} * time.Millisecond,",
        "ruby-kafka": "heartbeat_interval: {seconds},",
        "brod": "{{heartbeat_rate_seconds, {seconds}}},",
    },
    "group.instance.id": {
        "java": "group.instance.id={value}",
        "librdkafka": "group.instance.id={value}",
        "kafka-python": 'group_instance_id="{value}",',
        "aiokafka": 'group_instance_id="{value}",',
        "sarama": 'config.Consumer.Group.InstanceId = "{value}"',
        "kafkajs": "// not supported: kafkajs has no static membership",
        "slackwater": 'group_instance_id="{value}",',
        "spark": '.option("kafka.group.instance.id", "{value}")',
        "franz-go": 'kgo.InstanceID("{value}"),',
        "kafka-go": "// not supported: kafka-go has no static membership",
        "ruby-kafka": "# not supported: ruby-kafka has no static membership",
        "brod": "%% see the group configuration of your version; older versions have no static membership",
    },
    "group.id": {
        "java": "group.id={value}",
        "librdkafka": "group.id={value}",
        "kafka-python": 'group_id="{value}",',
        "aiokafka": 'group_id="{value}",',
        "sarama": 'sarama.NewConsumerGroup(addresses, "{value}", config)',
        "kafkajs": 'groupId: "{value}",',
        "slackwater": 'group_id="{value}",',
        "spark": '.option("kafka.group.id", "{value}")',
        "franz-go": 'kgo.ConsumerGroup("{value}"),',
        "kafka-go": 'GroupID: "{value}",',
        "ruby-kafka": 'group_id: "{value}",',
        "brod": 'brod:start_link_group_subscriber(Client, <<"{value}">>, Topics, GroupConfig, ConsumerConfig, Cb, []),',
    },
    "partition.assignment.strategy": {
        "java": "# first deploy: the new assignor before the current one\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor,"
        "org.apache.kafka.clients.consumer.RangeAssignor\n"
        "# second deploy, after all members have the first\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "librdkafka": "# no rolling upgrade (both kinds together are rejected): stop all members, then start them\n"
        "partition.assignment.strategy=cooperative-sticky",
        "kafka-python": "# 3.0 and newer; first deploy: the new assignor before the current one\n"
        "partition_assignment_strategy=[CooperativeStickyAssignor, RangePartitionAssignor],\n"
        "# second deploy, after all members have the first\n"
        "partition_assignment_strategy=[CooperativeStickyAssignor],",
        "aiokafka": "# aiokafka has no cooperative assignor; sticky moves fewer partitions but still stops all\n"
        "partition_assignment_strategy=[StickyPartitionAssignor],",
        "sarama": "// sarama has no cooperative strategy; sticky moves fewer partitions but still stops all\n"
        "config.Consumer.Group.Rebalance.GroupStrategies = "
        "[]sarama.BalanceStrategy{{sarama.NewBalanceStrategySticky()}}",
        "kafkajs": "// not supported: kafkajs has no sticky and no cooperative assigner",
        "slackwater": "# first deploy: the new assignor before the current one\n"
        'partition_assignment_strategy=["cooperative-sticky", "range"],\n'
        "# second deploy, after all members have the first\n"
        'partition_assignment_strategy=["cooperative-sticky"],',
        "spark": "# first deploy: the new assignor before the current one\n"
        '.option("kafka.partition.assignment.strategy", "cooperative-sticky,range")\n'
        "# second deploy, after all members have the first\n"
        '.option("kafka.partition.assignment.strategy", "cooperative-sticky")',
        "franz-go": "// the default of franz-go; no rolling upgrade from another balancer without two deploys\n"
        "kgo.Balancers(kgo.CooperativeStickyBalancer()),",
        "kafka-go": "// not supported: kafka-go has no sticky and no cooperative balancer",
        "ruby-kafka": "# not supported: ruby-kafka has no cooperative assignment",
        "brod": "%% not supported: brod has no cooperative assignment",
    },
    "consumer.session.timeout.ms": {
        "broker": "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type groups --entity-name GROUP "
        "--add-config consumer.session.timeout.ms={value}",
    },
    "group.initial.rebalance.delay.ms": {"broker": "group.initial.rebalance.delay.ms={value}"},
    "group.max.session.timeout.ms": {"broker": "group.max.session.timeout.ms={value}"},
}


LIBRDKAFKA: Final = "librdkafka"
OWN: Final = "slackwater"
SPARK: Final = "spark"
"""Libraries that need more than their names for the settings. `spark` is Slackwater's source for Spark."""
UNKNOWN_LIBRARY: Final = "java"
"""The library whose lines, under Kafka's names, are shown for a group of unknown library."""
BROKER: Final = "broker"
WITHOUT_POLL_TIMER: Final = frozenset({"sarama", "kafkajs", "franz-go", "kafka-go", "ruby-kafka", "brod"})
"""Libraries whose members leave only if they do not rejoin within the rebalance timeout."""
WITH_UNDERSCORES: Final = ("kafka-python", "aiokafka", OWN)
"""Libraries that write Kafka's names with underscores."""
UNSUPPORTED: Final[dict[str, frozenset[str]]] = {
    "kafkajs": frozenset({"group.instance.id", "partition.assignment.strategy"}),
    "aiokafka": frozenset({"partition.assignment.strategy"}),
    "sarama": frozenset({"partition.assignment.strategy"}),
    "kafka-go": frozenset({"group.instance.id", "partition.assignment.strategy"}),
    "ruby-kafka": frozenset({"group.instance.id", "partition.assignment.strategy"}),
    "brod": frozenset({"partition.assignment.strategy"}),
}
"""Settings whose prescribed value (static membership, the cooperative assignor) a library does not have."""
ONLY_FOR: Final[dict[str, frozenset[str | None]]] = {
    "KAFKA-8653": frozenset({"ruby-kafka", "brod"}),  # they can join with version 0 of JoinGroup
    "KAFKA-12984": frozenset({None, "java"}),
    "librdkafka issue 2261": frozenset({None, "librdkafka"}),
}
"""Bugs that concern the clients of some libraries only; None is an unknown library."""


def properties(settings: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the lines to paste, per library (or for the broker), in the order of the settings."""
    lines: dict[str, list[str]] = {}
    for name, setting in settings.items():
        value = f"<{setting}>" if "%" in setting else setting
        seconds = -(-int(value) // 1000) if value.isdigit() else value  # never less than the milliseconds
        for library, line in PROPERTIES.get(name, {}).items():
            lines.setdefault(library, []).extend(line.format(value=value, seconds=seconds).split("\n"))
    return {library: tuple(own) for library, own in lines.items()}


_LINE_MARKERS: Final = {
    "spark": ("slackwater.spark.", "the Slackwater source for Spark"),
    "slackwater": ("slackwater.client.", "the Slackwater consumer"),
    "librdkafka": ("[thrd:", "rdkafka#", "KafkaError{code=", "cimpl.Kafka", "Confluent.Kafka."),
    "kafkajs": (
        '"logger":"kafkajs"',
        "logger: 'kafkajs'",
        "KafkaJS",
        "[Runner] ",
        "[ConsumerGroup] ",
        "[Connection] Response ",
    ),
    "franz-go": ("franz-go", "kgo/", "kgo-", "heartbeat errored", "join group failed", "group manage loop errored"),
    "kafka-go": ("entering loop for consumer group", "stopped heartbeat for group ", "segmentio/kafka-go"),
    "sarama": ("consumergroup/", "client/coordinator ", "client/metadata ", "[sarama]", "[Sarama]", "kafka server: "),
    "brod": ("coor=#PID<", "group coordinator (groupId="),
    "ruby-kafka": ("Kafka::", "Joining group `", "Joined group `"),
    "aiokafka": ("aiokafka",),
    "kafka-python": (
        " kafka.coordinator",
        ":kafka.coordinator",
        "[kafka.coordinator",
        " kafka.net.",
        " kafka.consumer",
        "IO loop starting (client_id=",
        "Heartbeat failed for group ",
        "Heartbeat failed: local member_id",
        "eartbeat session expired",
    ),
    "java": (
        "[Consumer clientId=",
        "[Consumer instanceId=",
        "[Worker clientId=",
        "ConsumerConfig values:",
        "org.apache.kafka",
        " o.a.k.",
        "AbstractCoordinator",
        "ConsumerCoordinator",
        "stream-thread [",
        "stream-client [",
    ),
}
"""Texts in the lines of a library's clients; the first library with one counts. Lines of aiokafka without a logger's
name are taken for those of kafka-python, whose settings have the same names."""


_SOFTWARE: Final = {
    "slackwater": OWN,
    "slackwater-spark": SPARK,
    "apache-kafka-java": "java",
    "librdkafka": LIBRDKAFKA,
    "confluent-kafka-python": LIBRDKAFKA,
    "confluent-kafka-go": LIBRDKAFKA,
    "confluent-kafka-dotnet": LIBRDKAFKA,
    "confluent-kafka-javascript": LIBRDKAFKA,
    "kafka-python": "kafka-python",
    "kgo": "franz-go",
    "sarama": "sarama",
}
"""The library of the name that a client sends in ApiVersions (KIP-511)."""


def library_of_software(names: Iterable[str]) -> str | None:
    """Return the library of these clients, from what they send in ApiVersions; None if unknown or mixed."""
    libraries = {_SOFTWARE.get(name) for name in names}
    return libraries.pop() if len(libraries) == 1 else None


def library_of(lines: Iterable[str], *, heartbeats_between_messages: bool = False) -> str | None:
    """Return the library whose clients wrote these lines; None if unknown or mixed."""
    if heartbeats_between_messages:  # only kafkajs does
        return "kafkajs"
    libraries = {
        next((name for name, markers in _LINE_MARKERS.items() if any(marker in line for marker in markers)), None)
        for line in lines
    } - {None}
    return libraries.pop() if len(libraries) == 1 else None
