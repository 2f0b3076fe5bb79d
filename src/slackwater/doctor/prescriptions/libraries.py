"""What a setting is called in each client library, ready to be pasted.

Rules kept here
- The key is Kafka's own name. A library that has no such setting says what does the same, or that nothing does.
- `{value}` is filled in. What is no setting is a comment in the library's own language, so that all can be pasted.
- A change that needs two deploys is two lines, the first deploy's first.
- Which library a group uses is told by the lines that its clients wrote, never by names.
"""

from collections.abc import Iterable
from typing import Final

LIBRARIES: Final = ("java", "librdkafka", "kafka-python", "aiokafka", "sarama", "kafkajs", "slackwater")

PROPERTIES: Final[dict[str, dict[str, str]]] = {
    "max.poll.interval.ms": {
        "java": "max.poll.interval.ms={value}",
        "librdkafka": "max.poll.interval.ms={value}",
        "kafka-python": "max_poll_interval_ms={value}",
        "aiokafka": "max_poll_interval_ms={value},\nrebalance_timeout_ms={value},",
        "sarama": "// no poll timer: return from ConsumeClaim when session.Context() is done, within this time\n"
        "config.Consumer.Group.Rebalance.Timeout = {value} * time.Millisecond",
        "kafkajs": "// no poll timer: heartbeats stop while a handler works; call heartbeat() in it, or\n"
        "sessionTimeout: {value}, rebalanceTimeout: {value},",
        "slackwater": "max_poll_interval_ms={value}",
    },
    "max.poll.records": {
        "java": "max.poll.records={value}",
        "librdkafka": "# no such setting: poll() hands out one record at a time; of a batch take no more than\n"
        "consume(num_messages={value})",
        "kafka-python": "max_poll_records={value}",
        "aiokafka": "max_poll_records={value}",
        "sarama": "// no batches: what counts is the time per message; up to so many of a partition wait\n"
        "config.ChannelBufferSize = {value}",
        "kafkajs": "// no such setting: lower maxBytesPerPartition, and call heartbeat() between messages",
        "slackwater": "max_poll_records={value}",
    },
    "session.timeout.ms": {
        "java": "session.timeout.ms={value}",
        "librdkafka": "session.timeout.ms={value}",
        "kafka-python": "session_timeout_ms={value}",
        "aiokafka": "session_timeout_ms={value}",
        "sarama": "config.Consumer.Group.Session.Timeout = {value} * time.Millisecond",
        "kafkajs": "sessionTimeout: {value}",
        "slackwater": "session_timeout_ms={value}",
    },
    "heartbeat.interval.ms": {
        "java": "heartbeat.interval.ms={value}",
        "librdkafka": "heartbeat.interval.ms={value}",
        "kafka-python": "heartbeat_interval_ms={value}",
        "aiokafka": "heartbeat_interval_ms={value}",
        "sarama": "config.Consumer.Group.Heartbeat.Interval = {value} * time.Millisecond",
        "kafkajs": "heartbeatInterval: {value}",
        "slackwater": "heartbeat_interval_ms={value}",
    },
    "group.instance.id": {
        "java": "group.instance.id={value}",
        "librdkafka": "group.instance.id={value}",
        "kafka-python": 'group_instance_id="{value}"',
        "aiokafka": 'group_instance_id="{value}"',
        "sarama": 'config.Consumer.Group.InstanceId = "{value}"',
        "kafkajs": "// not supported: kafkajs has no static membership",
        "slackwater": 'group_instance_id="{value}"',
    },
    "group.id": {
        "java": "group.id={value}",
        "librdkafka": "group.id={value}",
        "kafka-python": 'group_id="{value}"',
        "aiokafka": 'group_id="{value}"',
        "sarama": 'sarama.NewConsumerGroup(addresses, "{value}", config)',
        "kafkajs": 'groupId: "{value}",',
        "slackwater": 'group_id="{value}"',
    },
    "partition.assignment.strategy": {
        "java": "# first deploy: the new one before the one that is in use\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor,"
        "org.apache.kafka.clients.consumer.RangeAssignor\n"
        "# second deploy, when all members have had the first\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "librdkafka": "# cannot be deployed step by step (both kinds together are refused): stop all, then start\n"
        "partition.assignment.strategy=cooperative-sticky",
        "kafka-python": "# 3.0 and newer; first deploy: the new one before the one that is in use\n"
        "partition_assignment_strategy=[CooperativeStickyAssignor, RangePartitionAssignor]\n"
        "# second deploy, when all members have had the first\n"
        "partition_assignment_strategy=[CooperativeStickyAssignor]",
        "aiokafka": "# aiokafka has no cooperative one; sticky moves less, and still stops all\n"
        "partition_assignment_strategy=[StickyPartitionAssignor]",
        "sarama": "// sarama has no cooperative one; sticky moves less, and still stops all\n"
        "config.Consumer.Group.Rebalance.GroupStrategies = "
        "[]sarama.BalanceStrategy{{sarama.NewBalanceStrategySticky()}}",
        "kafkajs": "// not supported: kafkajs has no sticky and no cooperative assigner",
        "slackwater": "# first deploy: the new one before the one that is in use\n"
        'partition_assignment_strategy=["cooperative-sticky", "range"]\n'
        "# second deploy, when all members have had the first\n"
        'partition_assignment_strategy=["cooperative-sticky"]',
    },
    "consumer.session.timeout.ms": {
        "broker": "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type groups --entity-name GROUP "
        "--add-config consumer.session.timeout.ms={value}",
    },
    "group.initial.rebalance.delay.ms": {"broker": "group.initial.rebalance.delay.ms={value}"},
    "group.max.session.timeout.ms": {"broker": "group.max.session.timeout.ms={value}"},
}


def properties(settings: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The lines to paste, per library (or for the broker), in the order of the settings."""
    lines: dict[str, list[str]] = {}
    for name, value in settings.items():
        for library, line in PROPERTIES.get(name, {}).items():
            lines.setdefault(library, []).extend(line.format(value=value).split("\n"))
    return {library: tuple(found) for library, found in lines.items()}


_WRITTEN_BY: Final = {
    "librdkafka": ("[thrd:",),
    "kafkajs": ('"logger":"kafkajs"',),
    "sarama": ("consumergroup/", "client/coordinator "),
    "aiokafka": ("aiokafka",),
    "kafka-python": (" kafka.coordinator", ":kafka.coordinator", "[kafka.coordinator"),
    "java": ("[Consumer clientId=", "[Consumer instanceId=", "ConsumerConfig values:", "org.apache.kafka.clients"),
}


def library_of(lines: Iterable[str], *, heartbeats_between_messages: bool = False) -> str | None:
    """The library whose clients wrote these lines; None if they do not tell, or are of several."""
    if heartbeats_between_messages:  # only one does
        return "kafkajs"
    found = {
        next((name for name, marks in _WRITTEN_BY.items() if any(mark in line for mark in marks)), None)
        for line in lines
    } - {None}
    return found.pop() if len(found) == 1 else None
