"""Transactions in a partition log compared with a model that is a list of records.

Invariants, for any interleaving of transactional producers, commits, aborts, rolls, compaction, restarts and kills,
also between a marker and its entry in the index:
- The last stable offset is the first offset of the oldest open transaction.
- A read_committed reader sees, from any offset and in any portions, exactly the records of committed transactions and
  of producers without one, up to the last stable offset. With compaction it sees at least the newest one of each key,
  and nothing else than these records.
"""

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slackwater.broker.storage.log.config import LogConfig
from slackwater.broker.storage.log.files import TRANSACTION_INDEX, with_suffix
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.pending_appends import AppendInfo
from tests.broker.storage.log.batches import NOW_MS, Sent, batch, compact
from tests.broker.storage.log.transactions import committed, end, send

CONFIG = LogConfig(
    segment_bytes=900,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=2_000,
)
PRODUCERS = st.integers(0, 2)
KEYS = st.sampled_from([b"a", b"b", b"c"])
ENTRY_BYTES = 34


@dataclass
class Producer:
    """A producer of the model."""

    epoch: int = 0
    sequence: int = 0
    open: list[int] = field(default_factory=list)  # offsets of the records of its transaction


class TransactionsMachine(RuleBasedStateMachine):
    """All operations on a log with transactions."""

    @initialize(compacts=st.booleans())
    def begin(self, compacts: bool) -> None:
        self.fsync = mock.patch("os.fsync")
        self.fsync.start()
        self.folder = tempfile.TemporaryDirectory()
        self.compacts = compacts
        self.config = replace(CONFIG, cleanup_policy=frozenset({"compact" if compacts else "delete"}))
        self.now_ms = NOW_MS
        self.end = 0
        self.values = 0
        self.producers = [Producer() for _ in range(3)]
        self.records: dict[int, tuple[bytes, bytes]] = {}  # by offset
        self.aborted: set[int] = set()
        self.log = self.open()

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close_unclean()
            self.folder.cleanup()
            self.fsync.stop()

    def open(self, *, clean: bool = False) -> PartitionLog:
        return PartitionLog.open(Path(self.folder.name) / "t-0", self.config, self.now_ms, clean_shutdown=clean)

    def new_records(self, keys: list[bytes]) -> list[Sent]:
        sent = []
        for key in keys:
            self.values += 1
            sent.append(Sent(key, b"%d" % self.values, self.now_ms))
        return sent

    def store(self, result: AppendInfo, sent: list[Sent]) -> list[int]:
        assert (result.base_offset, result.last_offset) == (self.end, self.end + len(sent) - 1)
        offsets = list(range(self.end, self.end + len(sent)))
        for offset, record in zip(offsets, sent, strict=True):
            assert record.key is not None
            assert record.value is not None
            self.records[offset] = record.key, record.value
        self.end += len(sent)
        return offsets

    @rule(keys=st.lists(KEYS, min_size=1, max_size=3))
    def append(self, keys: list[bytes]) -> None:
        sent = self.new_records(keys)
        result = self.log.append(batch(*sent), self.now_ms)
        assert isinstance(result, AppendInfo)
        self.store(result, sent)

    @rule(producer_id=PRODUCERS, keys=st.lists(KEYS, min_size=1, max_size=3))
    def append_in_transaction(self, producer_id: int, keys: list[bytes]) -> None:
        producer = self.producers[producer_id]
        sent = self.new_records(keys)
        result = send(self.log, producer_id, producer.sequence, *sent, epoch=producer.epoch, now_ms=self.now_ms)
        producer.open += self.store(result, sent)
        producer.sequence += len(sent)

    @rule(producer_id=PRODUCERS, commit=st.booleans(), bumps=st.booleans())
    def end_transaction(self, producer_id: int, commit: bool, bumps: bool) -> None:
        producer = self.producers[producer_id]
        if bumps:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        version = 2 if bumps else 0
        result = end(self.log, producer_id, commit=commit, epoch=producer.epoch, now_ms=self.now_ms, version=version)
        assert isinstance(result, AppendInfo)
        assert result.base_offset == self.end
        self.end += 1
        if not commit:
            self.aborted.update(producer.open)
        producer.open = []

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @precondition(lambda self: self.compacts)
    @rule()
    def compact(self) -> None:
        compact(self.log, self.now_ms)

    @rule(by_ms=st.integers(1, 3_000))
    def wait(self, by_ms: int) -> None:
        self.now_ms += by_ms

    @rule()
    def restart(self) -> None:
        self.log.close(sync=False)
        self.log = self.open(clean=True)

    @rule()
    def kill(self) -> None:
        self.log.close_unclean()
        self.log = self.open()

    @rule()
    def kill_before_index_entry(self) -> None:
        """The last entry of the newest index was not written."""
        self.log.close_unclean()
        indexes = with_suffix(Path(self.folder.name) / "t-0", TRANSACTION_INDEX)
        active = self.log.active.base_offset
        if active in indexes:
            data = indexes[active].read_bytes()
            indexes[active].write_bytes(data[:-ENTRY_BYTES])
        self.log = self.open()

    def stable(self) -> int:
        return min((producer.open[0] for producer in self.producers if producer.open), default=self.end)

    @invariant()
    def last_stable_offset_is_right(self) -> None:
        assert (self.log.last_stable_offset, self.log.log_end_offset) == (self.stable(), self.end)
        assert not self.log.warnings
        assert not self.log.truncated_tails

    def visible(self, start: int) -> dict[int, tuple[bytes, bytes]]:
        stable = self.stable()
        return {
            offset: record
            for offset, record in self.records.items()
            if start <= offset < stable and offset not in self.aborted
        }

    @invariant()
    def readers_see_what_is_committed(self) -> None:
        for start, max_bytes in ((0, 100_000), (self.end // 2, 200), (max(self.end - 6, 0), 1)):
            expected = self.visible(start)
            seen = {record.offset: (record.key, record.value) for record in committed(self.log, start, max_bytes)}
            if not self.compacts:
                assert seen == expected
                continue
            assert seen.items() <= expected.items()
            newest = {key: offset for offset, (key, _) in expected.items()}
            assert set(newest.values()) <= seen.keys()


TransactionsMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestTransactions = TransactionsMachine.TestCase
