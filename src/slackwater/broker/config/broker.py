"""The settings of a broker: its own, and the defaults of its topics."""

from dataclasses import replace
from typing import Final

from slackwater.broker.config.security import SECURITY_SETTINGS
from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.settings import (
    MAX_INT,
    Setting,
    choice_setting,
    flag_setting,
    int_setting,
    long_setting,
    text_setting,
)

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_BROKER_ONLY: Final = (
    int_setting("node.id", 1, "The id of this broker.", low=0),
    text_setting("broker.rack", "", "The rack this broker is in."),
    # authorization
    choice_setting(
        "authorizer.class.name",
        "",
        ("", STANDARD_AUTHORIZER),
        "Kafka's StandardAuthorizer checks every request against the ACLs; empty: every client has full access.",
    ),
    text_setting(
        "super.users",
        "",
        "Principals that may do everything, separated by semicolons: `User:admin;User:other`.",
    ),
    flag_setting(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether every client may access a resource that no ACL matches.",
    ),
    # topics
    flag_setting("auto.create.topics.enable", True, "Whether a request for an unknown topic creates it.", dynamic=True),
    flag_setting("delete.topic.enable", True, "Whether topics may be deleted."),
    int_setting("num.partitions", 1, "The default number of partitions of a new topic.", low=1, dynamic=True),
    int_setting("default.replication.factor", 1, "There is one replica.", low=1),
    int_setting("offsets.topic.replication.factor", 1, "There is one replica.", low=1),
    # groups
    int_setting("group.min.session.timeout.ms", 6_000, "The minimum session timeout of a member.", low=0, dynamic=True),
    int_setting(
        "group.max.session.timeout.ms", 1_800_000, "The maximum session timeout of a member.", low=0, dynamic=True
    ),
    int_setting(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long a new group waits for more members.",
        dynamic=True,
    ),
    int_setting("group.max.size", MAX_INT, "The maximum number of members of a group.", low=1, dynamic=True),
    int_setting("offsets.topic.num.partitions", 50, "The number of partitions of __consumer_offsets.", low=1),
    int_setting("offsets.topic.segment.bytes", 104_857_600, "The segment size of __consumer_offsets.", low=1),
    int_setting(
        "offsets.retention.minutes", 10_080, "How long the offsets of an empty group are kept.", low=1, dynamic=True
    ),
    int_setting("offsets.commit.timeout.ms", 5_000, "How long an offset commit waits for its write.", low=1),
    long_setting("offsets.retention.check.interval.ms", 600_000, "How often expired offsets are removed.", low=1),
    int_setting("offset.metadata.max.bytes", 4_096, "The maximum size of the metadata of a committed offset.", low=0),
    flag_setting("group.events.enable", True, "Whether group events are written to __group_events."),
    int_setting(
        "group.metrics.max.groups",
        200,
        'How many groups have metrics of their own; the others are summed as group="other".',
        low=0,
        dynamic=True,
    ),
    # transactions
    int_setting("transaction.max.timeout.ms", 900_000, "The maximum transaction.timeout.ms of a producer.", low=1),
    int_setting(
        "transactional.id.expiration.ms",
        604_800_000,
        "How long a transactional id without a transaction is kept.",
        low=1,
    ),
    int_setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often transactions that are open for too long are aborted.",
        low=1,
    ),
    int_setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often expired transactional ids are removed.",
        low=1,
    ),
    int_setting("transaction.state.log.num.partitions", 50, "The number of partitions of __transaction_state.", low=1),
    int_setting("transaction.state.log.segment.bytes", 104_857_600, "The segment size of __transaction_state.", low=1),
    int_setting("transaction.state.log.replication.factor", 1, "There is one replica.", low=1),
    int_setting("transaction.state.log.min.isr", 1, "There is one replica.", low=1),
    # the log
    choice_setting(
        "flush",
        "os",
        ("os", "always"),
        "When a write is acknowledged: after the write (os) or after an fsync (always).",
    ),
    int_setting(
        "message.max.uncompressed.bytes",
        33_554_432,
        "The maximum size of the records of a batch after decompression.",
        low=1,
        dynamic=True,
    ),
    long_setting("log.retention.check.interval.ms", 300_000, "How often expired segments are deleted.", low=1),
    long_setting("log.cleaner.backoff.ms", 15_000, "How often logs are checked for compaction.", low=0, dynamic=True),
    flag_setting("log.cleaner.enable", True, "Whether compacted topics are compacted."),
    int_setting(
        "producer.id.expiration.ms",
        86_400_000,
        "How long the state of an inactive producer is kept.",
        low=1,
        dynamic=True,
    ),
    # the network
    int_setting("max.connections", MAX_INT, "The maximum number of connections.", low=0, dynamic=True),
    long_setting("connections.max.idle.ms", 600_000, "The time after which an idle connection is closed.", low=1),
    int_setting("socket.request.max.bytes", 104_857_600, "The maximum size of a request.", low=1),
    int_setting("queued.max.requests", 500, "How many requests of one connection may wait for a response.", low=1),
    long_setting(
        "queued.max.request.bytes",
        67_108_864,
        "The memory of the requests of all connections; above it, only one large request is read. -1: no limit.",
        low=-1,
    ),
    int_setting("fetch.max.bytes", 57_671_680, "The maximum size of a fetch response.", low=1024),
    int_setting(
        "max.request.partition.size.limit",
        2_000,
        "The partitions per DescribeTopicPartitions response.",
        low=1,
    ),
    int_setting("max.incremental.fetch.session.cache.slots", 1_000, "The maximum number of fetch sessions.", low=0),
    # listeners
    *SECURITY_SETTINGS,
)

BROKER_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _BROKER_ONLY} | {
    synonym: replace(TOPIC_SETTINGS[topic], name=synonym, dynamic=True) for topic, synonym in SYNONYMS.items()
}
