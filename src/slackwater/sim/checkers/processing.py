"""No record is lost, and only uncommitted records are processed again.

While a process owns a partition, it processes consecutive offsets, starting at the committed offset. So only records
that were not committed when the previous owner ended are processed again. The committed offset never decreases and
never passes an unprocessed record.
"""

from slackwater.group.coordinator import AppendRecords, CommittedOffset
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.checkers.checker import Checker, SimulationView


class NoRecordLostOrRepeated(Checker):
    """Checks at-least-once processing, and exactly-once up to the committed offset."""

    def __init__(self, view: SimulationView) -> None:
        super().__init__(view)
        self.next_offset: dict[tuple[str, TopicPartition], int] = {}
        self.done: dict[TopicPartition, int] = {}  # every lower offset was processed
        self.committed: dict[TopicPartition, int] = {}

    def on_start_offset(self, process: str, partition: TopicPartition, offset: int) -> None:
        if offset < self.committed.get(partition, 0) and self.view.member_ids[process] in self.view.members:
            # The fetched offset may be outdated, but not for a current member of the group.
            self.fail(f"{process} starts {partition} at {offset}; {self.committed[partition]} is committed")
        self.next_offset[process, partition] = offset

    def on_processed(self, process: str, partition: TopicPartition, offset: int) -> None:
        expected = self.next_offset.get((process, partition))
        if expected is None:
            self.fail(f"{process} processed {partition} at {offset}, which it does not own")
        if offset != expected:
            self.fail(f"{process} processed {partition} at {offset}; {expected} was next")
        self.next_offset[process, partition] = offset + 1
        done = self.done.get(partition, 0)
        if offset > done:
            self.fail(f"{process} processed {partition} at {offset}, but {done} is not processed")
        self.done[partition] = max(done, offset + 1)

    def on_revoked(self, process: str, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            self.next_offset.pop((process, partition), None)

    def on_written(self, append: AppendRecords, error: Error) -> None:
        if error is not Error.NONE:
            return
        for record in append.records:
            if isinstance(record, CommittedOffset) and record.value is not None:
                partition = TopicPartition(record.topic, record.partition)
                offset = record.value.offset
                if offset < self.committed.get(partition, 0):
                    self.fail(f"{partition} was committed at {self.committed[partition]} and now at {offset}")
                if offset > self.done.get(partition, 0):
                    self.fail(f"{partition} was committed at {offset}; {self.done.get(partition, 0)} are processed")
                self.committed[partition] = offset

    def on_finish(self) -> None:
        for partition, end in self.view.ends.items():
            if self.done.get(partition, 0) < end:
                self.fail(f"{partition} has {end} records and only {self.done.get(partition, 0)} were processed")
