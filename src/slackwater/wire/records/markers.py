"""Transaction markers: control batches with one record that ends a producer's transaction in a partition.

The key is a version and a type (0 ABORT, 1 COMMIT), the value a version and the epoch of the transaction coordinator.
"""

import struct
from typing import Final, NamedTuple

from slackwater.wire.records.batch import RecordBatch
from slackwater.wire.records.record import ControlType, Record, decode_records, encode_batch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class EndTransactionMarker(NamedTuple):
    """The content of a marker."""

    is_commit: bool
    coordinator_epoch: int


def encode_marker(producer_id: int, producer_epoch: int, marker: EndTransactionMarker, timestamp: int) -> bytearray:
    """Build the control batch of a marker."""
    kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    record = Record(_KEY.pack(0, kind), _VALUE.pack(0, marker.coordinator_epoch), timestamp=timestamp)
    return encode_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )


def decode_marker(batch: RecordBatch) -> EndTransactionMarker | None:
    """Return the marker in a control batch; None if compaction has removed it, or for another type of control record.

    Raises `WireError` if the record is damaged.
    """
    for record in decode_records(batch):
        if record.key is None or len(record.key) < _KEY.size:
            raise batch.error(f"a control record needs a key of {_KEY.size} bytes, got {record.key!r}")
        _, kind = _KEY.unpack_from(record.key)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        if record.value is None or len(record.value) < _VALUE.size:
            raise batch.error(f"a transaction marker needs a value of {_VALUE.size} bytes, got {record.value!r}")
        return EndTransactionMarker(kind == ControlType.COMMIT, _VALUE.unpack_from(record.value)[1])
    return None
