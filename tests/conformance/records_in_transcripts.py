"""Record batches in transcripts: batches of Produce requests from their fields, and the fields of fetched batches.

Invariants:
- Records of scenarios have timestamps from `FIRST_MS` on, one millisecond apart in a partition by their sequence.
- `LARGE` is a value of 300,000 bytes.
- Timestamps of markers are not stored, because a broker chooses them.
"""

from typing import Any, Final

from slackwater.wire.records.batch import TRANSACTIONAL_BIT, RecordBatch, iter_batches
from slackwater.wire.records.markers import decode_marker
from slackwater.wire.records.record import decode_records

from ..broker.storage.log.batches import Sent, batch

__all__ = ["FIRST_MS", "LARGE", "describe_batches", "is_chosen_by_broker", "with_records"]

FIRST_MS: Final = 1_600_000_000_000  # before the clock of our broker in virtual time
LARGE: Final = "<300,000 bytes>"
_LARGE_VALUE: Final = b"x" * 300_000
_SPAN_MS: Final = 1_000_000


def is_chosen_by_broker(timestamp: int) -> bool:
    """Return whether a timestamp is neither of a scenario's records nor a special value."""
    return timestamp >= 0 and not FIRST_MS <= timestamp < FIRST_MS + _SPAN_MS


def with_records(value: Any, name: str = "") -> Any:
    """Return the fields of a request with the bytes of batches in place of their fields."""
    if name == "records" and isinstance(value, dict):
        return _encode(**value)
    if isinstance(value, dict):
        return {key: with_records(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [with_records(item, name) for item in value]
    return value


def describe_batches(value: Any, name: str = "") -> Any:
    """Return the fields of a response with the fields of batches in place of their bytes."""
    if name == "records" and isinstance(value, bytes):
        return [_describe(found) for found in iter_batches(value)]
    if isinstance(value, dict):
        return {key: describe_batches(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [describe_batches(item, name) for item in value]
    return value


def _encode(*, producer_id: int, epoch: int, sequence: int, transactional: bool, values: list[str]) -> bytes:
    first_ms = FIRST_MS + max(sequence, 0)
    sent = [
        Sent(None, _LARGE_VALUE if value == LARGE else value.encode(), first_ms + number)
        for number, value in enumerate(values)
    ]
    attributes = TRANSACTIONAL_BIT if transactional else 0
    return bytes(batch(*sent, producer_id=producer_id, epoch=epoch, sequence=sequence, attributes=attributes))


def _describe(found: RecordBatch) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "base_offset": found.base_offset,
        "last_offset": found.last_offset,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "base_sequence": found.base_sequence,
        "is_transactional": found.is_transactional,
    }
    if found.is_control:
        marker = decode_marker(found)
        assert marker is not None
        return fields | {"commits": marker.is_commit, "coordinator_epoch": marker.coordinator_epoch}
    values = [
        LARGE if record.value == _LARGE_VALUE else (record.value or b"").decode() for record in decode_records(found)
    ]
    return fields | {"max_timestamp": found.max_timestamp, "values": values}
