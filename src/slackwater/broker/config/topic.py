"""The settings of a topic, and the broker settings that are their defaults."""

from typing import Final

from slackwater.settings import (
    MAX_LONG,
    Setting,
    SettingType,
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
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
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

_NOT_COMPRESSED: Final = "Ignored: batches are stored as the producer compressed them."
_NOT_FLUSHED: Final = "Ignored: the broker setting flush decides when a write is acknowledged."
_NO_FOLLOWER: Final = "Ignored: there is one replica."
_NOT_TIERED: Final = "Ignored: there is no remote storage."

_ALL: Final = (
    Setting(
        name="cleanup.policy",
        kind=SettingType.LIST,
        default=("delete",),
        choices=("delete", "compact"),
        doc="What happens to old records: delete them, keep the last one per key, or both.",
    ),
    int_setting("compression.gzip.level", -1, _NOT_COMPRESSED),
    int_setting("compression.lz4.level", 9, _NOT_COMPRESSED),
    int_setting("compression.zstd.level", 3, _NOT_COMPRESSED),
    choice_setting("compression.type", "producer", _COMPRESSION, "Batches are stored as the producer compressed them."),
    long_setting("delete.retention.ms", _DAY_MS, "How long tombstones of a compacted topic are kept.", low=0),
    long_setting("file.delete.delay.ms", 60_000, "How long the file of a deleted segment is kept.", low=0),
    long_setting("flush.messages", MAX_LONG, _NOT_FLUSHED, low=1),
    long_setting("flush.ms", MAX_LONG, _NOT_FLUSHED, low=0),
    Setting(name="follower.replication.throttled.replicas", kind=SettingType.LIST, default=(), doc=_NO_FOLLOWER),
    int_setting("index.interval.bytes", 4096, "The number of bytes between two entries of the offset index.", low=0),
    Setting(name="leader.replication.throttled.replicas", kind=SettingType.LIST, default=(), doc=_NO_FOLLOWER),
    long_setting("local.retention.bytes", -2, _NOT_TIERED, low=-2),
    long_setting("local.retention.ms", -2, _NOT_TIERED, low=-2),
    long_setting("max.compaction.lag.ms", MAX_LONG, "The maximum time a record stays uncompacted.", low=1),
    int_setting("max.message.bytes", 1_048_588, "The maximum size of a record batch.", low=0),
    long_setting("message.timestamp.after.max.ms", 3_600_000, "How far timestamps may be ahead.", low=0),
    long_setting("message.timestamp.before.max.ms", MAX_LONG, "How far timestamps may be behind.", low=0),
    choice_setting(
        "message.timestamp.type",
        "CreateTime",
        _TIMES,
        "Which timestamp is stored: the producer's (CreateTime) or the broker's (LogAppendTime).",
    ),
    Setting(
        name="min.cleanable.dirty.ratio",
        kind=SettingType.DOUBLE,
        default=0.5,
        low=0,
        high=1,
        doc="The uncompacted share of a log at which it is compacted.",
    ),
    long_setting("min.compaction.lag.ms", 0, "The minimum time a record stays uncompacted.", low=0),
    int_setting("min.insync.replicas", 1, "There is one replica.", low=1),
    flag_setting("preallocate", False, "Ignored: a segment file grows as it is written."),
    flag_setting("remote.log.copy.disable", False, _NOT_TIERED),
    flag_setting("remote.log.delete.on.disable", False, _NOT_TIERED),
    flag_setting("remote.storage.enable", False, _NOT_TIERED),
    long_setting("retention.bytes", -1, "The maximum size of a partition; -1 means no limit.", low=-1),
    long_setting("retention.ms", _WEEK_MS, "How long records are kept; -1 means forever.", low=-1),
    int_setting("segment.bytes", 1_073_741_824, "The maximum size of a segment file.", low=14),
    int_setting("segment.index.bytes", 10 * 1024 * 1024, "The maximum size of an index.", low=4),
    long_setting("segment.jitter.ms", 0, "Ignored: one broker does not need to spread segment rolls.", low=0),
    long_setting("segment.ms", _WEEK_MS, "The age at which a segment is rolled.", low=1),
    flag_setting("unclean.leader.election.enable", False, "There is one replica."),
)
TOPIC_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _ALL}

assert set(SYNONYMS) <= set(TOPIC_SETTINGS), "a synonym belongs to a topic setting"
