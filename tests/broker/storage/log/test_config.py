"""Tests of the log settings."""

from dataclasses import fields, replace

import pytest

from slackwater.broker.storage.log.config import LONG_MAX, LogConfig, name
from slackwater.group.errors import UsageError
from slackwater.wire.records.batch import TimestampType


def test_defaults_are_kafkas() -> None:
    config = LogConfig()
    assert (config.segment_bytes, config.segment_ms) == (1_073_741_824, 604_800_000)
    assert (config.retention_ms, config.retention_bytes) == (604_800_000, -1)
    assert (config.max_message_bytes, config.index_interval_bytes) == (1_048_588, 4096)
    assert config.message_timestamp_after_max_ms == 3_600_000
    assert config.deletes
    assert not config.compacts


def test_settings_use_kafka_names() -> None:
    config = LogConfig.from_settings(
        {
            "segment.bytes": "1048576",
            "cleanup.policy": "compact, delete",
            "message.timestamp.type": "LogAppendTime",
            "min.cleanable.dirty.ratio": "0.1",
            "min.insync.replicas": "2",
        }
    )
    assert config.segment_bytes == 1 << 20
    assert config.compacts
    assert config.deletes
    assert config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    assert config.min_cleanable_dirty_ratio == 0.1


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("segment.bytes", "many", "segment.bytes = many is not valid. Use a number."),
        ("segment.bytes", "4294967296", "segment.bytes = 4294967296 is not valid"),
        ("segment.bytes", "1", "segment.bytes = 1 is not valid. Use 61 or more."),
        ("retention.ms", "-2", "retention.ms = -2 is not valid. Use -1 or more."),
        ("message.timestamp.type", "Mine", "Use CreateTime or LogAppendTime."),
        ("min.cleanable.dirty.ratio", "1.5", "a number from 0 to 1"),
        ("cleanup.policy", "shred", "cleanup.policy = shred is unknown"),
    ],
)
def test_invalid_setting_message(setting: str, value: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        LogConfig.from_settings({setting: value})


def test_min_compaction_lag_above_max_is_rejected() -> None:
    with pytest.raises(UsageError, match="is above max"):
        LogConfig(min_compaction_lag_ms=10, max_compaction_lag_ms=5)


def test_compacted_log_rolls_by_max_compaction_lag() -> None:
    config = LogConfig(segment_ms=1000, max_compaction_lag_ms=10)
    assert config.roll_ms == 1000
    assert replace(config, cleanup_policy=frozenset({"compact"})).roll_ms == 10


def test_every_field_has_a_kafka_name() -> None:
    assert name("message_timestamp_before_max_ms") == "message.timestamp.before.max.ms"
    assert all("_" not in name(field.name) for field in fields(LogConfig))
    assert LogConfig().message_timestamp_before_max_ms == LONG_MAX
