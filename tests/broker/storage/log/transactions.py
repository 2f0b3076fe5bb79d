"""Helpers: transactional batches and markers, and the records that a read_committed reader sees."""

from slackwater.broker.storage.log.partition_log import LogPosition, PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.validation import Rejection
from slackwater.broker.storage.log.verification import VerificationGuard
from slackwater.wire.records.batch import TRANSACTIONAL_BIT, complete_batches
from slackwater.wire.records.fetched import iter_records
from slackwater.wire.records.markers import EndTransactionMarker
from slackwater.wire.records.record import Record

from .batches import NOW_MS, Sent, batch


def verified(
    log: PartitionLog, producer_id: int, epoch: int = 0, sequence: int = 0, *, supports_epoch_bump: bool = False
) -> VerificationGuard | None:
    """Return the guard of a verification that the coordinator confirmed."""
    return log.start_verification(producer_id, epoch, sequence, NOW_MS, supports_epoch_bump=supports_epoch_bump)


def send(
    log: PartitionLog, producer_id: int, sequence: int, *sent: Sent, epoch: int = 0, now_ms: int = NOW_MS
) -> AppendInfo:
    """Append a verified transactional batch, which must succeed."""
    made = batch(*sent, producer_id=producer_id, epoch=epoch, sequence=sequence, attributes=TRANSACTIONAL_BIT)
    result = log.append(made, now_ms, guard=verified(log, producer_id, epoch, sequence))
    assert isinstance(result, AppendInfo), result
    return result


def end(
    log: PartitionLog,
    producer_id: int,
    *,
    commit: bool,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    now_ms: int = NOW_MS,
    version: int = 0,
) -> AppendInfo | Rejection:
    """Append a marker."""
    marker = EndTransactionMarker(commit, coordinator_epoch)
    return log.append_marker(producer_id, epoch, marker, now_ms, transaction_version=version)


def committed(log: PartitionLog, offset: int | None = None, max_bytes: int = 1000) -> list[Record]:
    """Return what a read_committed reader sees from an offset on."""
    at = log.log_start_offset if offset is None else offset
    records: list[Record] = []
    while True:
        start, stable_end = log.find(at), log.find_stable_end()
        assert isinstance(start, LogPosition)
        assert isinstance(stable_end, LogPosition)
        data = log.read_at(start, max_bytes, end=stable_end)
        assert not isinstance(data, Rejection)
        read = data if isinstance(data, memoryview) else memoryview(data.read(len(data)))
        if not read:
            return records
        aborted = log.aborted_transactions(at, start, len(read))
        pairs = [(entry.producer_id, entry.first_offset) for entry in aborted]
        records += iter_records(read, at, aborted=pairs)
        *_, last = complete_batches(read)
        at = last.next_offset
