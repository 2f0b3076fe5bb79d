"""The settings of a consumer, under Kafka's names and with Kafka's defaults."""

from typing import Final

from slackwater.client.config.common import COMMON
from slackwater.settings import Setting, SettingType, choice_setting, flag_setting, int_setting

CONSUMER_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        *COMMON,
        Setting(name="group.id", kind=SettingType.STRING, default="", doc="The group to be a member of."),
        Setting(name="group.instance.id", kind=SettingType.STRING, default="", doc="A name that outlives the process."),
        choice_setting("group.protocol", "classic", ("classic",), "The rebalance protocol's generation."),
        int_setting("session.timeout.ms", 45_000, "Without a heartbeat for so long, a member is out.", low=1),
        int_setting("heartbeat.interval.ms", 3_000, "How often a heartbeat is sent.", low=1),
        int_setting("max.poll.interval.ms", 300_000, "How long the application may go without a poll.", low=1),
        int_setting("rebalance.timeout.ms", -1, "How long the group waits for this member to rejoin.", low=-1),
        int_setting("max.poll.records", 500, "The most records that one poll gives.", low=1),
        Setting(
            name="partition.assignment.strategy",
            kind=SettingType.LIST,
            default=("range", "cooperative-sticky"),
            doc="The assignors this member offers, the favourite first.",
        ),
        flag_setting("enable.auto.commit", True, "Whether what was polled is committed by itself."),
        int_setting("auto.commit.interval.ms", 5_000, "How often that happens.", low=1),
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
            "Which records are read.",
        ),
        flag_setting("check.crcs", True, "Whether checksums are checked."),
        flag_setting("exclude.internal.topics", True, "Whether a pattern passes over Kafka's own topics."),
        flag_setting("allow.auto.create.topics", True, "Whether subscribing to an unknown topic may create it."),
        Setting(
            name="client.rack", kind=SettingType.STRING, default="", doc="Where this client is, to read from nearby."
        ),
        int_setting("fetch.min.bytes", 1, "A fetch waits for so many bytes.", low=0),
        int_setting("fetch.max.bytes", 52_428_800, "The most bytes of one fetch, and of what is kept unread.", low=0),
        int_setting("fetch.max.wait.ms", 500, "A fetch waits no longer than this.", low=0),
        int_setting("max.partition.fetch.bytes", 1_048_576, "The most bytes of one partition in a fetch.", low=0),
        flag_setting("group.events.publish", False, "Whether this member's own events go to __group_events."),
    )
}
