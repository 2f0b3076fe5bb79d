"""Returns fetched records to poll() and poll_arrow().

Invariants:
- Decoding, and with it the first compilation of a decoder, runs without the consumer's lock: heartbeats and fetches
  continue. The network thread may change the partition meanwhile; a changed `version` discards the decoded batches.
- Batches that cannot be decoded are fetched again, and the error names the position. No record is skipped.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from slackwater.client.consumer.decoding import DecodedRecords, DecodedTable, decode_records, decode_table
from slackwater.client.consumer.positions import PartitionState, Positions
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.network.fetch import FetchedData
from slackwater.group.errors import PeerError
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.errors import WireError

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

Decode = Callable[[FetchedData, int], DecodedRecords | DecodedTable]


class RecordCollector:
    """Takes records from the positions of one consumer."""

    def __init__(
        self,
        positions: Positions,
        lock: threading.Condition,
        *,
        check_crcs: bool,
        readable: Callable[[], frozenset[TopicPartition] | None],
        on_records: Callable[[PartitionState, int], None],
        on_error: Callable[[PeerError, PartitionState], None],
    ) -> None:
        """`readable` returns the partitions whose records may be returned, or None for all.

        `on_records` is called, with the lock held, after records of a partition were taken. `on_error` receives an
        error that the next poll has to raise.
        """
        self._positions = positions
        self._lock = lock
        self._check_crcs = check_crcs
        self._readable = readable
        self._on_records = on_records
        self._on_error = on_error
        self._last: PartitionState | None = None  # the partition of the last record

    def has_records(self) -> bool:
        """Whether a call would return records or raise an error. Called with the lock held."""
        return bool(self._candidates())

    def collect_records(self, max_records: int) -> list[ConsumerRecord] | None:
        """Return up to `max_records` records, partition by partition, or None. Called without the lock."""
        records: list[ConsumerRecord] = []
        with self._lock:
            states = self._candidates()
        for state in states:
            if len(records) >= max_records:
                break
            decode = partial(decode_records, state.partition, check_crcs=self._check_crcs)
            taken = self._take_or_defer(state, decode, _is_records, max_records - len(records), has_more=bool(records))
            if taken:
                records += taken
                self._last = state
        return records or None

    def take_decoded(self) -> ConsumerRecord | None:
        """Return the next record of the last partition if it is decoded, or None. Called with the lock held."""
        state = self._last
        if state is None or state.paused or self._positions.get(state.partition) is not state:
            return None
        readable, decoded = self._readable(), state.decoded
        if not isinstance(decoded, DecodedRecords) or (readable is not None and state.partition not in readable):
            return None
        record: ConsumerRecord
        for record in self._advance(state, decoded, 1):
            return record
        return None

    def collect_table(self, max_rows: int, headers: bool) -> "pa.Table | None":
        """Return up to `max_rows` rows, partition by partition, or None. Called without the lock."""
        import pyarrow as pa

        tables: list[pa.Table] = []
        decode = partial(decode_table, headers=headers, check_crcs=self._check_crcs)
        is_usable = partial(_is_table, headers=headers)
        with self._lock:
            states = self._candidates()
        for state in states:
            while max_rows > 0:
                rows = self._take_or_defer(state, decode, is_usable, max_rows, has_more=bool(tables))
                if rows is None:
                    break
                max_rows -= len(rows)
                tables.append(_add_partition_columns(rows, state.partition))
        return pa.concat_tables(tables) if tables else None

    def _candidates(self) -> list[PartitionState]:
        """Return the partitions whose records may be returned, the longest waiting first."""
        readable = self._readable()
        return [
            state
            for state in self._positions
            if not state.paused
            and (state.fetched or state.decoded is not None)
            and (readable is None or state.partition in readable)
        ]

    def _take_or_defer(
        self, state: PartitionState, decode: Decode, is_usable: Callable[[Any], bool], limit: int, *, has_more: bool
    ) -> Any:
        """Take records; defer an error to the next poll if this one already has records."""
        try:
            return self._take(state, decode, is_usable, limit)
        except PeerError as error:
            if not has_more:
                raise
            with self._lock:
                self._on_error(error, state)
            return None

    def _take(self, state: PartitionState, decode: Decode, is_usable: Callable[[Any], bool], limit: int) -> Any:
        """Return up to `limit` records or rows of one partition, or None."""
        while True:
            with self._lock:
                if not is_usable(state.decoded):
                    state.undo_decoding()
                if (decoded := state.decoded) is not None:
                    taken = self._advance(state, decoded, limit)
                    if len(taken):
                        return taken
                    continue
                if not state.fetched or state.position is None:
                    return None
                batches = state.decoding = state.fetched.popleft()
                from_offset, version = max(batches.start_offset, state.position), state.version
            if not self._decode(state, batches, from_offset, version, decode):
                return None

    def _advance(self, state: PartitionState, decoded: DecodedRecords | DecodedTable, limit: int) -> Any:
        taken = decoded.take(limit)
        state.leader_epoch = decoded.leader_epoch
        state.position = decoded.position
        if decoded.is_exhausted:
            state.decoded = None
        if len(taken):
            self._on_records(state, len(taken))
        return taken

    def _decode(
        self, state: PartitionState, batches: FetchedData, from_offset: int, version: int, decode: Decode
    ) -> bool:
        """Decode without the lock; False if the partition must not return records any more."""
        decoded: DecodedRecords | DecodedTable | None = None
        failure: WireError | None = None
        try:
            decoded = decode(batches, from_offset)
        except WireError as error:
            failure = error
        finally:
            with self._lock:
                if state.version == version:
                    state.decoding = None
                    state.decoded = decoded
                    if decoded is None and failure is None:  # interrupted, for example by Ctrl-C
                        state.fetched.appendleft(batches)
        with self._lock:
            if state.version != version:
                return False
            if failure is not None:
                raise self._decode_error(state, failure) from failure
            return state in self._candidates()

    def _decode_error(self, state: PartitionState, error: WireError) -> PeerError:
        position = state.position or 0
        self._positions.seek(state, position, state.leader_epoch)
        return PeerError(
            f"The records of {state.partition} from offset {position} on cannot be read: {error} The next poll "
            "fetches them again; to skip them, seek past them."
        )


def _is_records(decoded: object) -> bool:
    return isinstance(decoded, DecodedRecords)


def _is_table(decoded: object, *, headers: bool) -> bool:
    return isinstance(decoded, DecodedTable) and decoded.has_headers is headers


def _add_partition_columns(table: "pa.Table", partition: TopicPartition) -> "pa.Table":
    import pyarrow as pa

    count = len(table)
    topics = pa.repeat(pa.scalar(partition.topic, pa.string()), count)
    numbers = pa.repeat(pa.scalar(partition.partition, pa.int32()), count)
    return table.add_column(0, "partition", numbers).add_column(0, "topic", topics)
