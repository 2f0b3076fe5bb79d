"""What a setting is called in each client library, ready to be pasted.

Rules kept here
- The key is Kafka's own name. A library that has no such setting says what does the same, or that nothing does.
- `{value}` is filled in; a line without it is advice in the library's own terms.
"""

from typing import Final

LIBRARIES: Final = ("java", "librdkafka", "kafka-python", "aiokafka", "sarama", "kafkajs", "slackwater")

PROPERTIES: Final[dict[str, dict[str, str]]] = {
    "max.poll.interval.ms": {
        "java": "max.poll.interval.ms={value}",
        "librdkafka": "max.poll.interval.ms={value}",
        "kafka-python": "max_poll_interval_ms={value}",
        "aiokafka": "max_poll_interval_ms={value}, rebalance_timeout_ms={value}",
        "sarama": "config.Consumer.Group.Rebalance.Timeout = {value} * time.Millisecond",
        "kafkajs": "sessionTimeout: {value}, rebalanceTimeout: {value} (or call heartbeat() in the handler)",
        "slackwater": "max_poll_interval_ms={value}",
    },
    "max.poll.records": {
        "java": "max.poll.records={value}",
        "librdkafka": "consume(num_messages={value})",
        "kafka-python": "max_poll_records={value}",
        "aiokafka": "max_poll_records={value}",
        "sarama": "config.ChannelBufferSize = {value}",
        "kafkajs": "maxBytesPerPartition down, or eachMessage with heartbeat()",
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
        "kafkajs": "not supported: kafkajs has no static membership",
        "slackwater": 'group_instance_id="{value}"',
    },
    "partition.assignment.strategy": {
        "java": "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "librdkafka": "partition.assignment.strategy=cooperative-sticky",
        "kafka-python": "partition_assignment_strategy=[CooperativeStickyAssignor] (3.0 and newer)",
        "aiokafka": "partition_assignment_strategy=[StickyPartitionAssignor] (eager: aiokafka has no cooperative one)",
        "sarama": "config.Consumer.Group.Rebalance.GroupStrategies = "
        "[]sarama.BalanceStrategy{{sarama.NewBalanceStrategySticky()}} (eager: sarama has no cooperative one)",
        "kafkajs": "not supported: kafkajs has no sticky and no cooperative assigner",
        "slackwater": 'partition_assignment_strategy=["cooperative-sticky"]',
    },
    "group.initial.rebalance.delay.ms": {"broker": "group.initial.rebalance.delay.ms={value}"},
    "group.max.session.timeout.ms": {"broker": "group.max.session.timeout.ms={value}"},
}


def properties(settings: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The lines to paste, per library (or for the broker), in the order of the settings."""
    lines: dict[str, list[str]] = {}
    for name, value in settings.items():
        for library, line in PROPERTIES.get(name, {}).items():
            lines.setdefault(library, []).append(line.format(value=value))
    return {library: tuple(found) for library, found in lines.items()}
