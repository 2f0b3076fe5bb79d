"""A simulated partition: records, markers, and Kafka's rules for appends of transactional producers.

Invariants:
- A batch with an older epoch than the producer's last one is rejected, and so is one whose transaction has ended since
  it was verified.
- A batch that was appended before is not appended again.
- `committed` is what a `read_committed` consumer reads: up to the first record of an open transaction.
"""

from typing import NamedTuple

from slackwater.group.errors import Error


class SimRecord(NamedTuple):
    """A transactional record."""

    producer_id: int
    epoch: int
    value: str


class Marker(NamedTuple):
    """The end of a transaction."""

    producer_id: int
    epoch: int
    is_commit: bool


class SimPartition:
    """One partition."""

    def __init__(self) -> None:
        self.log: list[SimRecord | Marker] = []
        self._epochs: dict[int, int] = {}
        self._ends: dict[int, int] = {}  # the number of markers of each producer

    def guard(self, producer_id: int) -> int:
        """Return what `append` needs: it changes when a transaction of the producer ends."""
        return self._ends.get(producer_id, 0)

    def append(self, record: SimRecord, guard: int) -> Error:
        """Append a verified record."""
        if record in self.log:
            return Error.NONE
        if record.epoch < self._epochs.get(record.producer_id, -1):
            return Error.INVALID_PRODUCER_EPOCH
        if guard != self.guard(record.producer_id):
            return Error.INVALID_TXN_STATE
        self._epochs[record.producer_id] = record.epoch
        self.log.append(record)
        return Error.NONE

    def end(self, marker: Marker) -> Error:
        """Append a marker; a marker may come twice."""
        if marker.epoch < self._epochs.get(marker.producer_id, -1):
            return Error.INVALID_PRODUCER_EPOCH
        self._epochs[marker.producer_id] = marker.epoch
        self._ends[marker.producer_id] = self.guard(marker.producer_id) + 1
        self.log.append(marker)
        return Error.NONE

    def committed(self) -> list[str]:
        """Return the values that a `read_committed` consumer reads, in order."""
        values: dict[int, str] = {}
        open_since: dict[int, list[int]] = {}  # positions of the records of each producer's open transaction
        for position, entry in enumerate(self.log):
            if isinstance(entry, SimRecord):
                open_since.setdefault(entry.producer_id, []).append(position)
                values[position] = entry.value
            else:
                for ended in open_since.pop(entry.producer_id, ()):
                    if not entry.is_commit:
                        del values[ended]
        stable_end = min((positions[0] for positions in open_since.values()), default=len(self.log))
        return [value for position, value in values.items() if position < stable_end]

    @property
    def has_open_transaction(self) -> bool:
        """Whether a transaction has no marker yet."""
        open_ids: set[int] = set()
        for entry in self.log:
            if isinstance(entry, SimRecord):
                open_ids.add(entry.producer_id)
            else:
                open_ids.discard(entry.producer_id)
        return bool(open_ids)
