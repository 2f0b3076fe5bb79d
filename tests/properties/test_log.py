"""A partition log compared with a model that is a list of batches.

Invariants, for any sequence of appends, rolls, deletions, retention, compaction, restarts, kills and torn tails:
- Offsets have no gap, and a read returns exactly the batches of the list.
- Compaction removes only records that a later record with the same key replaces, and changes no offset.
- A repeated batch of an idempotent producer is detected as a duplicate, and no other batch is.
- A lookup by time finds the same record as a scan.
- Recovery truncates only the torn part of a tail.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import LOG
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from slackwater.broker.storage.log.timestamp_search import MAX_TIMESTAMP, TimestampOffset
from slackwater.broker.storage.log.validation import Rejection
from slackwater.group.errors import Error
from slackwater.wire.records.compression import Codec
from tests.broker.storage.log.batches import NOW_MS, Read, Sent, batch, compact, contents, offset_at, read_records

RETENTION_MS = 10_000
CONFIG = LogConfig(
    segment_bytes=900,
    segment_ms=5_000,
    index_interval_bytes=150,
    retention_ms=RETENTION_MS,
    retention_bytes=2_500,
    file_delete_delay_ms=0,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=2_000,
)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
SENT = st.builds(
    lambda key, value, at: (key, value, at),
    KEYS,
    st.one_of(st.none(), st.binary(max_size=30)),
    st.integers(-500, 500),
)
CODECS = st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4])


@dataclass
class Stored:
    """One batch of the model."""

    base_offset: int
    last_offset: int
    size: int
    records: list[Read]
    producer: tuple[int, int] | None


class LogMachine(RuleBasedStateMachine):
    """All operations on a log."""

    @initialize(policy=st.sampled_from(["delete", "compact", "compact,delete"]))
    def begin(self, policy: str) -> None:
        # `tear_tail` simulates a power failure; real fsync calls would make this test ten times slower.
        self.fsync = mock.patch("os.fsync")
        self.fsync.start()
        self.folder = tempfile.TemporaryDirectory()
        self.config = replace(CONFIG, cleanup_policy=frozenset(policy.split(",")))
        self.now_ms = NOW_MS
        self.batches: list[Stored] = []
        self.log_start = 0
        self.end = 0
        self.log = self.open()

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close_unclean()
            self.folder.cleanup()
            self.fsync.stop()

    def open(self) -> PartitionLog:
        return PartitionLog.open(Path(self.folder.name) / "t-0", self.config, self.now_ms)

    @rule(requests=st.lists(st.tuples(st.lists(SENT, min_size=1, max_size=4), CODECS), min_size=1, max_size=6))
    def append(self, requests: list[tuple[list[tuple[bytes, bytes | None, int]], Codec]]) -> None:
        buffers, sent = [], []
        for records, codec in requests:
            sent.append([Sent(key, value, self.now_ms + at) for key, value, at in records])
            buffers.append(batch(*sent[-1], codec=codec))
        for result, records_sent, buffer in zip(self.log.append_many(buffers, self.now_ms), sent, buffers, strict=True):
            self.store(result, records_sent, len(buffer), None)

    @rule(producer_id=st.integers(0, 1), number=st.integers(1, 3), sent=SENT)
    def append_in_sequence(self, producer_id: int, number: int, sent: tuple[bytes, bytes | None, int]) -> None:
        key, value, at = sent
        records = [Sent(key, value, self.now_ms + at)] * number
        sequence = self.next_sequence(producer_id)
        buffer = batch(*records, producer_id=producer_id, epoch=0, sequence=sequence)
        self.store(self.log.append(buffer, self.now_ms), records, len(buffer), (producer_id, sequence))

    def store(
        self, result: AppendInfo | Rejection, sent: list[Sent], size: int, producer: tuple[int, int] | None
    ) -> None:
        last = self.end + len(sent) - 1
        assert result == AppendInfo(self.end, last, -1, self.log_start)
        records = [
            Read(self.end + index, record.key, record.value, record.timestamp) for index, record in enumerate(sent)
        ]
        self.batches.append(Stored(self.end, last, size, records, producer))
        self.end = last + 1

    def of_producer(self, producer_id: int) -> list[Stored]:
        return [stored for stored in self.batches if stored.producer is not None and stored.producer[0] == producer_id]

    def next_sequence(self, producer_id: int) -> int:
        before = self.of_producer(producer_id)
        if not before:
            return 0
        assert before[-1].producer is not None
        return before[-1].producer[1] + before[-1].last_offset - before[-1].base_offset + 1

    @rule(producer_id=st.integers(0, 1), back=st.integers(1, 8))
    def append_again(self, producer_id: int, back: int) -> None:
        before = self.of_producer(producer_id)
        if len(before) < back:
            return
        stored = before[-back]
        assert stored.producer is not None
        sent = [Sent()] * (stored.last_offset - stored.base_offset + 1)
        buffer = batch(*sent, producer_id=producer_id, epoch=0, sequence=stored.producer[1])
        result = self.log.append(buffer, self.now_ms)
        if back <= 5:
            assert isinstance(result, AppendInfo)
            assert (result.base_offset, result.last_offset, result.duplicate) == (
                stored.base_offset,
                stored.last_offset,
                True,
            )
        else:
            assert isinstance(result, Rejection)
            assert result.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule(producer_id=st.integers(0, 1))
    def append_after_gap(self, producer_id: int) -> None:
        if self.of_producer(producer_id):
            sequence = self.next_sequence(producer_id) + 1
            result = self.log.append(batch(producer_id=producer_id, epoch=0, sequence=sequence), self.now_ms)
            assert isinstance(result, Rejection)
            assert result.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule(ms=st.integers(1, 4_000))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @precondition(lambda self: self.config.deletes)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        up_to = data.draw(st.integers(0, self.end), label="up to")
        self.log_start = max(self.log_start, up_to)
        assert self.log.delete_records(up_to) == self.log_start

    @rule()
    def retain(self) -> None:
        bases = [segment.base_offset for segment in self.log.segments]
        sizes = {segment.base_offset: segment.size for segment in self.log.segments}
        newest = {segment.base_offset: segment.max_timestamp for segment in self.log.segments}
        deleted = self.log.delete_expired_segments(self.now_ms)
        assert deleted == bases[: len(deleted)]
        remaining_bytes = sum(sizes.values())
        for base_offset in deleted:
            remaining_bytes -= sizes[base_offset]
            after = bases[bases.index(base_offset) + 1] if base_offset != bases[-1] else self.end
            is_too_old = self.config.deletes and self.now_ms - newest[base_offset] > RETENTION_MS
            is_too_large = self.config.deletes and remaining_bytes >= CONFIG.retention_bytes
            assert is_too_old or is_too_large or after <= self.log_start
            self.log_start = max(self.log_start, after)
        first = self.log.segments[0]
        assert not (self.config.deletes and first.size and self.now_ms - first.max_timestamp > RETENTION_MS)

    @precondition(lambda self: self.config.compacts)
    @rule()
    def compact(self) -> None:
        before = contents(self.log)
        active = self.log.active.base_offset
        if not compact(self.log, self.now_ms):
            return
        after = contents(self.log)
        assert set(after) <= set(before)
        assert [record for record in after if record.offset >= active] == [
            record for record in before if record.offset >= active
        ]
        assert _values(after) == _values(before)
        cleaned_keys = [record.key for record in after if record.offset < active]
        assert len(cleaned_keys) == len(set(cleaned_keys))
        offsets = {record.offset for record in after}
        for stored in self.batches:
            stored.records = [
                record for record in stored.records if record.offset in offsets or record.offset < self.log_start
            ]

    @rule(how=st.sampled_from(["close", "close without flush", "kill"]))
    def restart(self, how: str) -> None:
        if how == "kill":
            self.log.close_unclean()
        else:
            self.log.close(sync=how == "close")
        self.log = self.open()
        assert self.log.truncated_tails == []

    @precondition(lambda self: self.log.active.size > 0)
    @rule(data=st.data())
    def tear_tail(self, data: st.DataObject) -> None:
        size = self.log.active.size
        torn = data.draw(st.integers(1, min(size, 400)), label="torn bytes")
        path = self.log.active.path(LOG)
        self.log.close_unclean()
        path.write_bytes(path.read_bytes()[:-torn])
        complete_bytes = size
        while complete_bytes > size - torn:
            lost = self.batches.pop()
            complete_bytes -= lost.size
            self.end = lost.base_offset
        self.log = self.open()
        expected = [] if complete_bytes == size - torn else [(self.end, complete_bytes, size - torn - complete_bytes)]
        # Deleted offsets are not assigned again.
        self.end = max(self.end, self.log_start)
        assert [(tail.from_offset, tail.position, tail.size) for tail in self.log.truncated_tails] == expected

    @invariant()
    def check_offsets(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.log_start, self.end)

    @rule(max_bytes=st.integers(1, 2_000))
    def read_everything(self, max_bytes: int) -> None:
        assert contents(self.log, max_bytes) == self.records()

    @rule(data=st.data(), max_bytes=st.integers(0, 1_000))
    def read_from(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.log_start, self.end), label="offset")
        read = self.log.read(offset, max_bytes)
        assert not isinstance(read, Rejection)
        records = [record for record in read_records(read) if record.offset >= offset]
        expected = [record for record in self.records() if record.offset >= offset]
        assert records == expected[: len(records)]
        assert len(self.log.read(offset, max_bytes, min_one=False)) <= max_bytes

    @rule(offset_ms=st.integers(-30_000, 1_000))
    def find_by_time(self, offset_ms: int) -> None:
        timestamp = self.now_ms + offset_ms
        expected = next((record for record in self.records() if record.timestamp >= timestamp), None)
        result = offset_at(self.log, timestamp)
        assert result == (None if expected is None else TimestampOffset(expected.timestamp, expected.offset))

    @precondition(lambda self: not self.config.compacts)
    @rule()
    def find_newest(self) -> None:
        newest = max((record.timestamp for record in self.records()), default=-1)
        result = offset_at(self.log, MAX_TIMESTAMP)
        assert (-1 if result is None else result.timestamp) == newest

    def records(self) -> list[Read]:
        return [record for stored in self.batches for record in stored.records if record.offset >= self.log_start]


def _values(records: list[Read]) -> dict[bytes | None, bytes]:
    """Return the last value of every key, without tombstones."""
    last = {record.key: record.value for record in records}
    return {key: value for key, value in last.items() if value is not None}


LogMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestPartitionLog = LogMachine.TestCase
