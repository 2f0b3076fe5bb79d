"""The settings of a topic, each with the broker setting it falls back to."""

from typing import Final

from slackwater.broker.config.setting import (
    MAX_LONG,
    Kind,
    Setting,
    choice_setting,
    flag_setting,
    int_setting,
    long_setting,
)

_WEEK_MS: Final = 7 * 24 * 60 * 60 * 1000
_DAY_MS: Final = 24 * 60 * 60 * 1000

# topic setting -> the broker setting that is its default
SYNONYMS: Final[dict[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}

_COMPRESSION: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMES: Final = ("CreateTime", "LogAppendTime")

_ALL: Final = (
    Setting(
        name="cleanup.policy",
        kind=Kind.LIST,
        default=("delete",),
        choices=("delete", "compact"),
        doc="What becomes of old records: delete them, keep the last of each key, or both.",
    ),
    choice_setting("compression.type", "producer", _COMPRESSION, "Batches are kept as the producer compressed them."),
    long_setting("delete.retention.ms", _DAY_MS, "How long tombstones of a compacted topic are kept.", low=0),
    long_setting("file.delete.delay.ms", 60_000, "How long a deleted segment's file stays.", low=0),
    int_setting("index.interval.bytes", 4096, "How many bytes lie between two entries of the offset index.", low=0),
    long_setting("max.compaction.lag.ms", MAX_LONG, "How long a record may stay uncompacted.", low=1),
    int_setting("max.message.bytes", 1_048_588, "The largest record batch.", low=0),
    long_setting("message.timestamp.after.max.ms", 3_600_000, "How far a timestamp may lie ahead.", low=0),
    long_setting("message.timestamp.before.max.ms", MAX_LONG, "How far a timestamp may lie behind.", low=0),
    choice_setting("message.timestamp.type", "CreateTime", _TIMES, "Whose time a record carries."),
    Setting(
        name="min.cleanable.dirty.ratio",
        kind=Kind.DOUBLE,
        default=0.5,
        low=0,
        high=1,
        doc="How much of a log must be uncompacted before it is compacted.",
    ),
    long_setting("min.compaction.lag.ms", 0, "How long a record stays uncompacted at least.", low=0),
    int_setting("min.insync.replicas", 1, "There is one replica.", low=1),
    long_setting("retention.bytes", -1, "How much of a partition is kept; -1 means all.", low=-1),
    long_setting("retention.ms", _WEEK_MS, "How long records are kept; -1 means for ever.", low=-1),
    int_setting("segment.bytes", 1_073_741_824, "The size at which a segment file is full.", low=14),
    int_setting("segment.index.bytes", 10 * 1024 * 1024, "The size at which an index is full.", low=4),
    long_setting("segment.jitter.ms", 0, "Ignored: one broker has no herd of segments to spread.", low=0),
    long_setting("segment.ms", _WEEK_MS, "The age at which a segment file is closed.", low=1),
    flag_setting("unclean.leader.election.enable", False, "There is one replica."),
)
TOPIC_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _ALL}

assert set(SYNONYMS) == set(TOPIC_SETTINGS), "every topic setting has a broker setting behind it"
