"""Which batches of a fetch response a consumer reads, and where it stands afterwards.

Rules kept here, all of them those of Kafka's consumer
- A batch that the response cut off is ignored: it comes again, whole, with the next one.
- Batches before the position and from `until_offset` on are left out. One may begin before the position or end after
  `until_offset`: records are trimmed by whoever reads them.
- Control batches are read for what they tell, and not given out.
- For `read_committed`, the batches of aborted transactions are left out. The broker names the producer and the first
  offset of each; from there on its transactional batches are aborted, until a marker says that it has ended.
- The position moves past what was left out, or a consumer would ask for it for ever.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Self

from slackwater.wire.records.batch import CONTROL_BIT, Batches, RecordBatch, check
from slackwater.wire.records.compression import Buffer
from slackwater.wire.records.record import ControlType, Record, control_type, decode_records

NO_LIMIT: Final = 2**63 - 1


class AbortedTransaction(NamedTuple):
    """A transaction that a fetch response says was aborted."""

    producer_id: int
    first_offset: int


class ReadableBatches:
    """The batches that a consumer reads; `next_offset` is its position after those that were walked over so far.

    `aborted` are the aborted transactions of a `read_committed` fetch, and None for `read_uncommitted`.
    """

    __slots__ = (
        "_aborted",
        "_aborted_producers",
        "_at_the_end",
        "_batches",
        "_check_crcs",
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
        self._batches = Batches(buffer)
        self.from_offset = from_offset
        self.until_offset = until_offset
        self.next_offset = from_offset
        self._check_crcs = check_crcs
        # By falling offset, so that the next one to begin is popped off the end.
        self._aborted = None if aborted is None else sorted(aborted, key=lambda one: one[1], reverse=True)
        self._aborted_producers: set[int] = set()
        self._at_the_end = False

    @property
    def torn(self) -> int:
        """The bytes of a batch that the response cut off; none while there may be whole batches left."""
        return self._batches.torn if self._at_the_end else 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RecordBatch:
        for batch in self._batches:
            base_offset = batch.base_offset
            if base_offset >= self.until_offset:
                raise StopIteration
            if self._check_crcs:
                check(batch)
            next_offset = base_offset + batch.last_offset_delta + 1
            readable = next_offset > self.from_offset and not batch.attributes & CONTROL_BIT
            # A marker before the position may still end a transaction.
            if self._aborted is not None and batch.has_producer_id and self._is_aborted(batch, self._aborted):
                readable = False
            if next_offset > self.next_offset:
                self.next_offset = min(next_offset, self.until_offset)
            if readable:
                return batch
        self._at_the_end = True
        raise StopIteration

    def _is_aborted(self, batch: RecordBatch, waiting: list[tuple[int, int]]) -> bool:
        while waiting and waiting[-1][1] <= batch.last_offset:
            self._aborted_producers.add(waiting.pop()[0])
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
    """The records that a consumer reads from a fetch response, one by one."""
    for batch in ReadableBatches(buffer, from_offset, until_offset, aborted=aborted, check_crcs=check_crcs):
        for record in decode_records(batch):
            if from_offset <= record.offset < until_offset:
                yield record
