"""The settings of a broker: its own, and the defaults of its topics."""

from dataclasses import replace
from typing import Final

from slackwater.broker.config.topic import SYNONYMS, TOPIC_SETTINGS
from slackwater.settings import (
    MAX_INT,
    Setting,
    SettingType,
    choice_setting,
    flag_setting,
    int_setting,
    long_setting,
)

_OWN: Final = (
    int_setting("node.id", 1, "This broker's number.", low=0),
    Setting(
        name="advertised.listeners",
        kind=SettingType.STRING,
        default="",
        doc="The address that clients are told; without one, the address they came to.",
    ),
    Setting(name="broker.rack", kind=SettingType.STRING, default="", doc="The rack this broker is in."),
    # topics
    flag_setting("auto.create.topics.enable", True, "Whether asking for an unknown topic creates it.", dynamic=True),
    flag_setting("delete.topic.enable", True, "Whether topics may be deleted."),
    int_setting("num.partitions", 1, "How many partitions a new topic has.", low=1, dynamic=True),
    int_setting("default.replication.factor", 1, "There is one replica.", low=1),
    int_setting("offsets.topic.replication.factor", 1, "There is one replica.", low=1),
    # groups
    int_setting(
        "group.min.session.timeout.ms", 6_000, "The shortest session a member may ask for.", low=0, dynamic=True
    ),
    int_setting(
        "group.max.session.timeout.ms", 1_800_000, "The longest session a member may ask for.", low=0, dynamic=True
    ),
    int_setting(
        "group.initial.rebalance.delay.ms", 3_000, "How long an empty group waits for more members.", dynamic=True
    ),
    int_setting("group.max.size", MAX_INT, "How many members a group may have.", low=1, dynamic=True),
    int_setting("offsets.topic.num.partitions", 50, "How many partitions __consumer_offsets has.", low=1),
    int_setting("offsets.topic.segment.bytes", 104_857_600, "The segment size of __consumer_offsets.", low=1),
    int_setting(
        "offsets.retention.minutes", 10_080, "How long offsets of an empty group are kept.", low=1, dynamic=True
    ),
    int_setting("offsets.commit.timeout.ms", 5_000, "How long a commit waits for its write.", low=1),
    long_setting("offsets.retention.check.interval.ms", 600_000, "How often expired offsets are looked for.", low=1),
    int_setting("offset.metadata.max.bytes", 4_096, "The longest note that may be committed with an offset.", low=0),
    flag_setting("group.events.enable", True, "Whether group events are written to __group_events."),
    # the log
    choice_setting(
        "flush",
        "os",
        ("os", "always"),
        "When a write counts: when the operating system has it, or when the disk has it.",
    ),
    long_setting("log.retention.check.interval.ms", 300_000, "How often old segments are looked for.", low=1),
    long_setting("log.cleaner.backoff.ms", 15_000, "How often compaction looks for work.", low=0),
    flag_setting("log.cleaner.enable", True, "Whether compacted topics are compacted."),
    int_setting("producer.id.expiration.ms", 86_400_000, "How long a silent producer's sequences are kept.", low=1),
    # the network
    int_setting("max.connections", MAX_INT, "How many connections there may be.", low=0, dynamic=True),
    long_setting("connections.max.idle.ms", 600_000, "When an idle connection is closed.", low=1),
    int_setting("socket.request.max.bytes", 104_857_600, "The largest request.", low=1),
    int_setting("queued.max.requests", 500, "How many requests of one connection may wait for an answer.", low=1),
    int_setting("fetch.max.bytes", 57_671_680, "The largest answer to a fetch.", low=1024),
    int_setting(
        "max.request.partition.size.limit", 2_000, "How many partitions a page of DescribeTopicPartitions holds.", low=1
    ),
    int_setting("max.incremental.fetch.session.cache.slots", 1_000, "How many fetch sessions are kept.", low=0),
)

BROKER_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _OWN} | {
    synonym: replace(TOPIC_SETTINGS[topic], name=synonym, dynamic=True) for topic, synonym in SYNONYMS.items()
}
