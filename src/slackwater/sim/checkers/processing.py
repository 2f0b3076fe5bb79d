"""No record is lost, and none is processed twice but those uncommitted at a fence.

How it counts
A *stint* is one process reading one partition, from the moment it is given it until it gives it up or loses it. Within
a stint offsets follow one another. A stint starts where the group had committed, so what is processed twice across
stints is exactly what was uncommitted when the first one ended; and the committed offset never goes back, and never
passes a record that nobody has processed.
"""

from slackwater.group.coordinator import AppendRecords, CommittedOffset
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.checkers.checker import Checker, View


class NothingIsLostOrRepeated(Checker):
    """At least once, and exactly once as far as commits reach."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.next_offset: dict[tuple[str, TopicPartition], int] = {}
        self.done: dict[TopicPartition, int] = {}  # every offset below was processed
        self.committed: dict[TopicPartition, int] = {}

    def started(self, process: str, partition: TopicPartition, offset: int) -> None:
        if offset < self.committed.get(partition, 0) and self.view.member_ids[process] in self.view.members:
            # Its answer may be a moment old; but a member of the group cannot have been overtaken in that moment.
            self.fail(f"{process} starts {partition} at {offset}; {self.committed[partition]} is committed")
        self.next_offset[process, partition] = offset

    def processed(self, process: str, partition: TopicPartition, offset: int) -> None:
        expected = self.next_offset.get((process, partition))
        if expected is None:
            self.fail(f"{process} processed {partition} at {offset}, which it does not own")
        if offset != expected:
            self.fail(f"{process} processed {partition} at {offset}; {expected} was next")
        self.next_offset[process, partition] = offset + 1
        done = self.done.get(partition, 0)
        if offset > done:
            self.fail(f"{process} processed {partition} at {offset}, and nobody has processed {done}")
        self.done[partition] = max(done, offset + 1)

    def revoked(self, process: str, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            self.next_offset.pop((process, partition), None)

    def written(self, append: AppendRecords, error: Error) -> None:
        if error is not Error.NONE:
            return
        for record in append.records:
            if isinstance(record, CommittedOffset) and record.value is not None:
                partition = TopicPartition(record.topic, record.partition)
                offset = record.value.offset
                if offset < self.committed.get(partition, 0):
                    self.fail(f"{partition} was committed at {self.committed[partition]} and now at {offset}")
                if offset > self.done.get(partition, 0):
                    self.fail(
                        f"{partition} was committed at {offset}; only {self.done.get(partition, 0)} are processed"
                    )
                self.committed[partition] = offset

    def finish(self) -> None:
        for partition, end in self.view.ends.items():
            if self.done.get(partition, 0) < end:
                self.fail(f"{partition} has {end} records and only {self.done.get(partition, 0)} were processed")
