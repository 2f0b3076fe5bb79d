"""The settings of a consumer, under Kafka's names and with Kafka's defaults."""

from typing import Final

from slackwater.client.config.common import COMMON
from slackwater.settings import Setting, SettingType, choice_setting, flag_setting, int_setting

CONSUMER_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        *COMMON,
        Setting(name="group.id", kind=SettingType.STRING, default="", doc="The consumer group to join."),
        Setting(
            name="group.instance.id",
            kind=SettingType.STRING,
            default="",
            doc="Makes the member static: unique in the group, and the same after a restart.",
        ),
        choice_setting("group.protocol", "classic", ("classic",), "The rebalance protocol."),
        int_setting(
            "session.timeout.ms",
            45_000,
            "The coordinator removes a member from which no heartbeat arrives for this time. The broker limits it: "
            "group.min.session.timeout.ms and group.max.session.timeout.ms.",
            low=1,
        ),
        int_setting(
            "heartbeat.interval.ms",
            3_000,
            "The interval between heartbeats; at most a third of session.timeout.ms.",
            low=1,
        ),
        int_setting(
            "max.poll.interval.ms",
            300_000,
            "The maximum time between two polls; a member that exceeds it leaves the group until its next poll.",
            low=1,
        ),
        int_setting(
            "rebalance.timeout.ms",
            -1,
            "How long a rebalance waits for this member to rejoin; the longest timeout of all members applies. "
            "-1: max.poll.interval.ms. The Java consumer always sends max.poll.interval.ms.",
            low=-1,
        ),
        int_setting("max.poll.records", 500, "The maximum number of records that one poll returns.", low=1),
        Setting(
            name="partition.assignment.strategy",
            kind=SettingType.LIST,
            default=("range", "cooperative-sticky"),
            doc="The assignors of this member, in order of preference: range, roundrobin, sticky, cooperative-sticky, "
            "Java's class names, or your own. The member is cooperative only if all of them are.",
        ),
        flag_setting(
            "enable.auto.commit",
            True,
            "Whether consumed offsets are committed periodically, before partitions are revoked, and in close().",
        ),
        int_setting("auto.commit.interval.ms", 5_000, "The interval between automatic commits.", low=1),
        Setting(
            name="auto.offset.reset",
            kind=SettingType.STRING,
            default="latest",
            doc="Where to start without a committed offset: earliest, latest, none, or by_duration:PT1H.",
        ),
        choice_setting(
            "isolation.level",
            "read_uncommitted",
            ("read_uncommitted", "read_committed"),
            "Whether records of open and aborted transactions are read.",
        ),
        flag_setting("check.crcs", True, "Whether checksums of batches are verified."),
        flag_setting("exclude.internal.topics", True, "Whether a pattern ignores internal topics."),
        flag_setting("allow.auto.create.topics", True, "Whether subscribing to a missing topic may create it."),
        Setting(
            name="client.rack",
            kind=SettingType.STRING,
            default="",
            doc="The rack, to fetch from a close replica.",
        ),
        int_setting("fetch.min.bytes", 1, "The minimum bytes of a fetch response.", low=0),
        int_setting("fetch.max.bytes", 52_428_800, "The maximum bytes of a fetch, and of buffered records.", low=0),
        int_setting("fetch.max.wait.ms", 500, "How long a broker waits for fetch.min.bytes.", low=0),
        int_setting("max.partition.fetch.bytes", 1_048_576, "The maximum bytes of one partition in a fetch.", low=0),
        Setting(
            name="key.deserializer",
            kind=SettingType.STRING,
            default="",
            doc="A Python function that gets the bytes of a key; its result is the key of the record.",
        ),
        Setting(
            name="value.deserializer",
            kind=SettingType.STRING,
            default="",
            doc="A Python function that gets the bytes of a value; its result is the value of the record.",
        ),
        flag_setting("group.events.publish", False, "Whether this member writes its events to __group_events."),
    )
}
