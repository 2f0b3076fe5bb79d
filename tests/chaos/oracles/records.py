"""Acknowledged records: each is stored at its offset, unless its file was damaged on purpose.

Invariants:
- Without damage, every acknowledged record is at its offset with its value. Records without an acknowledgement may be
  there. A record that was seen once stays. Numbers ascend, so nothing is stored twice. A compacted partition may drop a
  record only if it has a later one with the same key, or had one that damage may have cost.
- Damage to a log file touches the batches that overlap the changed bytes. A touched batch may be lost, but not in
  silence: the fetch fails, the batch fails its checksum, or the broker's log names the file.
- Damage may cost other records only if the broker's log names the file, and only from the first touched batch on, or
  after bytes that were added to the file. If the log says "before offset N", only from offset N on. Damage to any other
  file may cost nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.oracles import first_examples


@dataclass(slots=True)
class Content:
    """What a client can read from a partition: the number in each record, and the offsets it could not read."""

    numbers: dict[int, int] = field(default_factory=dict)
    batches: dict[int, int] = field(default_factory=dict)  # base offset → last offset
    unreadable: list[tuple[range, str]] = field(default_factory=list)
    end_offset: int = 0

    def failure_at(self, offset: int) -> str | None:
        """Return why an offset cannot be read, or None if it was read or skipped."""
        return next((reason for offsets, reason in self.unreadable if offset in offsets), None)


@dataclass(slots=True)
class Loss:
    """What damage to the log of one partition may cost.

    `first_offset` is that of the first touched batch, or of the first batch after foreign bytes. `reported_from` is
    None without a line in the broker's log.
    """

    touched: list[range]
    first_offset: int
    reported_from: int | None = None

    def is_touched(self, offset: int) -> bool:
        """Whether the batch of this offset overlaps a damaged byte."""
        return any(offset in offsets for offsets in self.touched)

    def is_reported(self, offset: int) -> bool:
        """Whether the broker's log reports the loss of this offset."""
        return self.reported_from is not None and offset >= max(self.first_offset, self.reported_from)

    def allows(self, offset: int) -> bool:
        """Whether the damage may cost the record at this offset."""
        return self.is_touched(offset) or self.is_reported(offset)


class PartitionLedger:
    """The records of one partition that must be there; numbers from `sent` on were never sent."""

    def __init__(self, topic: str, partition: int, *, keys: int = 0) -> None:
        self.topic, self.partition = topic, partition
        self.keys = keys  # of a compacted partition: the key of a record is its number modulo this
        self.sent = 0
        self.numbers: dict[int, int] = {}
        self.batches: dict[int, int] = {}

    @property
    def name(self) -> str:
        """The name of the partition, and of its directory."""
        return f"{self.topic}-{self.partition}"

    def acknowledge(self, base_offset: int, numbers: Sequence[int]) -> list[str]:
        """Add an acknowledged batch; its offsets must be new."""
        offsets = range(base_offset, base_offset + len(numbers))
        repeated = [offset for offset in offsets if offset in self.numbers]
        self.numbers.update(zip(offsets, numbers, strict=True))
        self.batches[base_offset] = offsets[-1]
        return [f"{self.name}: offset {offset} was acknowledged a second time" for offset in repeated[:1]]

    def check(self, content: Content, loss: Loss | None = None) -> list[str]:
        """Compare with what is stored now, which becomes what must be there."""
        violations = [*self._missing(content, loss), *self._unexpected(content, loss)]
        self.numbers, self.batches = content.numbers, content.batches
        return [f"{self.name}: {violation}" for violation in violations]

    def _missing(self, content: Content, loss: Loss | None) -> list[str]:
        may_be_lost = {} if loss is None else {at: number for at, number in self.numbers.items() if loss.allows(at)}
        newest = self._newest(may_be_lost | content.numbers)
        violations = []
        for offset, number in self.numbers.items():
            stored = content.numbers.get(offset)
            if stored == number or newest.get(number % self.keys if self.keys else -1, -1) > offset:
                continue
            reason = content.failure_at(offset)
            seen = f"the fetch fails: {reason}" if reason else "nothing" if stored is None else f"number {stored}"
            if loss is None or not loss.allows(offset):
                violations.append(f"number {number} was acknowledged at offset {offset}, but there is {seen}")
            elif reason is None and stored is None and not loss.is_reported(offset):
                violations.append(f"offset {offset} is skipped without an error and without a line in the log")
        return first_examples(violations)

    def _newest(self, numbers: Mapping[int, int]) -> dict[int, int]:
        """Return the last offset of each key of a compacted partition."""
        if not self.keys:
            return {}
        newest: dict[int, int] = {}
        for offset, number in numbers.items():
            newest[number % self.keys] = max(offset, newest.get(number % self.keys, -1))
        return newest

    def _unexpected(self, content: Content, loss: Loss | None) -> list[str]:
        violations = []
        previous = -1
        for offset, number in sorted(content.numbers.items()):
            if loss is not None and loss.is_touched(offset):
                continue
            if not 0 <= number < self.sent:
                violations.append(f"offset {offset} has number {number}, which was never sent")
            elif number <= previous:
                violations.append(f"offset {offset} has number {number} after number {previous}")
            previous = number
        return first_examples(violations)
