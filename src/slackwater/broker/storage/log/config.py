"""The settings of one log, under Kafka's names and with Kafka's defaults.

Invariants:
- A field is Kafka's name with underscores: `segment.bytes` is `segment_bytes`. `producer.id.expiration.ms` and
  `message.max.uncompressed.bytes`, which are settings of the broker, are included because a log needs them.
- An unusable value raises a `UsageError` that names the setting, the value and the allowed values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Final, Self

from slackwater.group.errors import UsageError
from slackwater.settings import MAX_INT
from slackwater.wire.records.batch import HEADER_BYTES, TimestampType

LONG_MAX: Final = (1 << 63) - 1
MAX_UNCOMPRESSED_BYTES: Final = 32 << 20
_DAY_MS: Final = 86_400_000
_POLICIES: Final = ("delete", "compact")


class _TimestampTypes(Enum):
    """The values of `message.timestamp.type`."""

    CreateTime = TimestampType.CREATE_TIME
    LogAppendTime = TimestampType.LOG_APPEND_TIME


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one topic that its logs use."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = _DAY_MS
    file_delete_delay_ms: int = 60_000
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    producer_id_expiration_ms: int = _DAY_MS
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_ms: int = 7 * _DAY_MS

    def __post_init__(self) -> None:
        if not self.cleanup_policy <= set(_POLICIES):
            raise UsageError(
                f"cleanup.policy = {','.join(sorted(self.cleanup_policy))} is unknown. "
                "Use delete, compact, or compact,delete."
            )
        if not 0 <= self.min_cleanable_dirty_ratio <= 1:
            raise _invalid("min_cleanable_dirty_ratio", self.min_cleanable_dirty_ratio, "a number from 0 to 1")
        minimum = _MINIMUM | {"retention_ms": -1, "retention_bytes": -1}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < minimum.get(field.name, 0):
                raise _invalid(field.name, value, f"{minimum.get(field.name, 0)} or more")
        if self.segment_bytes > MAX_INT:
            raise _invalid("segment_bytes", self.segment_bytes, f"{MAX_INT} or less; positions have four bytes")
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise UsageError(
                f"min.compaction.lag.ms = {self.min_compaction_lag_ms} is above max.compaction.lag.ms = "
                f"{self.max_compaction_lag_ms}. Use a smaller minimum or a larger maximum."
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Parse settings from text; names that a log does not use are ignored."""
        fields_by_name = {name(field.name): field for field in fields(cls)}
        values: dict[str, Any] = {}
        for key, text in settings.items():
            if field := fields_by_name.get(key):
                values[field.name] = _parse(key, text.strip(), field.default)
        return cls(**values)

    @property
    def compacts(self) -> bool:
        """Whether the log is compacted."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The age at which a segment is rolled, early enough for the cleaner, which never cleans the active segment."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms


_MINIMUM: Final = {"segment_bytes": HEADER_BYTES, "segment_index_bytes": 24, "segment_ms": 1}


def name(field: str) -> str:
    """Return Kafka's name of a field."""
    return field.replace("_", ".")


def _parse(key: str, text: str, default: object) -> object:
    """Parse a value of the same type as the default."""
    try:
        match default:
            case TimestampType():
                return _TimestampTypes[text].value
            case float():
                return float(text)
            case int():
                return int(text)
            case _:
                return frozenset(word.strip() for word in text.split(",") if word.strip())
    except (KeyError, ValueError):
        match default:
            case TimestampType():
                expected = "CreateTime or LogAppendTime"
            case _:
                expected = "a number"
        raise UsageError(f"{key} = {text} is not valid. Use {expected}.") from None


def _invalid(field: str, value: float, expected: str) -> UsageError:
    return UsageError(f"{name(field)} = {value} is not valid. Use {expected}.")
