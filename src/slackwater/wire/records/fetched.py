"""The batches of a fetch response that a consumer reads, and its position after them.

Invariants, as in Kafka's consumer:
- A batch that the response truncates is ignored; the next fetch returns it again.
- Batches before `from_offset` and from `until_offset` on are skipped. The first and the last batch may reach beyond
  these offsets: the decoders drop the records outside.
- Control batches are never returned.
- With `read_committed`, batches of aborted transactions are skipped. The broker sends the producer id and first offset
  of each aborted transaction. From that offset on the producer's transactional batches are aborted until its ABORT
  marker.
- The position moves past skipped batches.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Self

from slackwater.wire.records.batch import CONTROL_BIT, BatchIterator, RecordBatch, check_batch
from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.record import ControlType, Record, control_type, decode_records

NO_LIMIT: Final = 2**63 - 1


class FetchedBatches:
    """Iterates over the batches that a consumer reads; `next_offset` is its position after those returned so far.

    `aborted` lists (producer id, first offset) of the aborted transactions, or is None for `read_uncommitted`.
    """

    __slots__ = (
        "_aborted",
        "_aborted_producers",
        "_batches",
        "_check_crcs",
        "_is_exhausted",
        "from_offset",
        "next_offset",
        "until_offset",
    )

    def __init__(
        self,
        buffer: Buffer,
        from_offset: int = 0,
        until_offset: int = NO_LIMIT,
        *,
        aborted: Iterable[tuple[int, int]] | None = None,
        check_crcs: bool = True,
    ) -> None:
        self._batches = BatchIterator(buffer)
        self.from_offset = from_offset
        self.until_offset = until_offset
        self.next_offset = from_offset
        self._check_crcs = check_crcs
        # In descending order: the transaction that starts next is popped from the end.
        self._aborted = None if aborted is None else sorted(aborted, key=lambda entry: entry[1], reverse=True)
        self._aborted_producers: set[int] = set()
        self._is_exhausted = False

    @property
    def trailing_bytes(self) -> int:
        """Size of the truncated batch at the end of the response, known after the iteration."""
        return self._batches.trailing_bytes if self._is_exhausted else 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RecordBatch:
        for batch in self._batches:
            base_offset = batch.base_offset
            if base_offset >= self.until_offset:
                raise StopIteration
            if self._check_crcs:
                check_batch(batch)
            next_offset = base_offset + batch.last_offset_delta + 1
            is_visible = next_offset > self.from_offset and not batch.attributes & CONTROL_BIT
            # A marker before `from_offset` may still end a transaction.
            if self._aborted is not None and batch.has_producer_id and self._is_aborted(batch, self._aborted):
                is_visible = False
            if next_offset > self.next_offset:
                self.next_offset = min(next_offset, self.until_offset)
            if is_visible:
                return batch
        self._is_exhausted = True
        raise StopIteration

    def _is_aborted(self, batch: RecordBatch, aborted: list[tuple[int, int]]) -> bool:
        while aborted and aborted[-1][1] <= batch.last_offset:
            self._aborted_producers.add(aborted.pop()[0])
        if batch.is_control and control_type(batch) == ControlType.ABORT:
            self._aborted_producers.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._aborted_producers


def iter_records(
    buffer: Buffer,
    from_offset: int = 0,
    until_offset: int = NO_LIMIT,
    *,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crcs: bool = True,
) -> Iterator[Record]:
    """Decode the records that a consumer reads from a fetch response, one by one."""
    for batch in FetchedBatches(buffer, from_offset, until_offset, aborted=aborted, check_crcs=check_crcs):
        for record in decode_records(batch):
            if from_offset <= record.offset < until_offset:
                yield record


class FetchedRecords(NamedTuple):
    """The records of a fetch response, and the position after it."""

    records: list[Record]
    next_offset: int


def read_records(buffer: Buffer, from_offset: int = 0, until_offset: int = NO_LIMIT) -> FetchedRecords:
    """Decode a response of a few records. `decoding.decode_response` is for many."""
    fetched = FetchedBatches(buffer, from_offset, until_offset)
    records = [
        record for batch in fetched for record in decode_records(batch) if from_offset <= record.offset < until_offset
    ]
    return FetchedRecords(records, fetched.next_offset)
