"""The settings of a topic, each with the broker setting it falls back to."""

from typing import Final

from slackwater.broker.config.setting import MAX_LONG, Kind, Setting

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

TOPIC_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            name="cleanup.policy",
            kind=Kind.LIST,
            default=("delete",),
            choices=("delete", "compact"),
            doc="What becomes of old records: delete them, keep the last of each key, or both.",
        ),
        Setting(
            name="compression.type",
            kind=Kind.STRING,
            default="producer",
            choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            doc="Batches are kept as the producer compressed them.",
        ),
        Setting(
            name="delete.retention.ms",
            kind=Kind.LONG,
            default=_DAY_MS,
            low=0,
            doc="How long tombstones of a compacted topic are kept.",
        ),
        Setting(
            name="file.delete.delay.ms",
            kind=Kind.LONG,
            default=60_000,
            low=0,
            doc="How long a deleted segment's file stays.",
        ),
        Setting(
            name="index.interval.bytes",
            kind=Kind.INT,
            default=4096,
            low=0,
            doc="How many bytes of records lie between two entries of the offset index.",
        ),
        Setting(
            name="max.compaction.lag.ms",
            kind=Kind.LONG,
            default=MAX_LONG,
            low=1,
            doc="How long a record may stay uncompacted.",
        ),
        Setting(
            name="max.message.bytes",
            kind=Kind.INT,
            default=1_048_588,
            low=0,
            doc="The largest record batch.",
        ),
        Setting(
            name="message.timestamp.after.max.ms",
            kind=Kind.LONG,
            default=3_600_000,
            low=0,
            doc="How far a record's own timestamp may lie ahead of the broker's clock.",
        ),
        Setting(
            name="message.timestamp.before.max.ms",
            kind=Kind.LONG,
            default=MAX_LONG,
            low=0,
            doc="How far a record's own timestamp may lie behind the broker's clock.",
        ),
        Setting(
            name="message.timestamp.type",
            kind=Kind.STRING,
            default="CreateTime",
            choices=("CreateTime", "LogAppendTime"),
            doc="Whose time a record carries.",
        ),
        Setting(
            name="min.cleanable.dirty.ratio",
            kind=Kind.DOUBLE,
            default=0.5,
            low=0,
            high=1,
            doc="How much of a log must be uncompacted before it is compacted.",
        ),
        Setting(
            name="min.compaction.lag.ms",
            kind=Kind.LONG,
            default=0,
            low=0,
            doc="How long a record stays uncompacted at least.",
        ),
        Setting(
            name="min.insync.replicas",
            kind=Kind.INT,
            default=1,
            low=1,
            doc="There is one replica.",
        ),
        Setting(
            name="retention.bytes",
            kind=Kind.LONG,
            default=-1,
            low=-1,
            doc="How much of a partition is kept; -1 means all.",
        ),
        Setting(
            name="retention.ms",
            kind=Kind.LONG,
            default=_WEEK_MS,
            low=-1,
            doc="How long records are kept; -1 means for ever.",
        ),
        Setting(
            name="segment.bytes",
            kind=Kind.INT,
            default=1_073_741_824,
            low=14,
            doc="The size at which a segment file is full.",
        ),
        Setting(
            name="segment.index.bytes",
            kind=Kind.INT,
            default=10 * 1024 * 1024,
            low=4,
            doc="The size at which an index is full.",
        ),
        Setting(
            name="segment.jitter.ms",
            kind=Kind.LONG,
            default=0,
            low=0,
            doc="Taken and ignored: a single broker has no herd of segments to spread.",
        ),
        Setting(
            name="segment.ms",
            kind=Kind.LONG,
            default=_WEEK_MS,
            low=1,
            doc="The age at which a segment file is closed.",
        ),
        Setting(
            name="unclean.leader.election.enable",
            kind=Kind.BOOLEAN,
            default=False,
            doc="There is one replica.",
        ),
    )
}

assert set(SYNONYMS) == set(TOPIC_SETTINGS), "every topic setting has a broker setting behind it"
