"""A test shell for the work scheduler: it records effects and reports results on demand."""

from collections.abc import Iterable
from typing import NamedTuple

from slackwater.group.messages import OffsetToCommit
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.work.config import RevokeMode, WorkConfig
from slackwater.group.work.effects import (
    AbandonTasks,
    CommitFinished,
    PartitionsDrained,
    PausePartitions,
    ResumePartitions,
    StartTask,
    StopProcessing,
    WorkEffect,
    WriteDeadLetter,
)
from slackwater.group.work.scheduler import WorkScheduler


class Record(NamedTuple):
    """A test record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    size: int = 10


P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
P2 = TopicPartition("t", 2)
BROKEN = ValueError("broken record")


def records(partition: TopicPartition, *offsets: int, key: bytes | None = None) -> list[Record]:
    """Records of one partition at these offsets."""
    return [Record(partition.topic, partition.partition, offset, key) for offset in offsets]


def at(partition: TopicPartition, offset: int) -> OffsetToCommit:
    """The offset that a commit of this partition carries."""
    return OffsetToCommit(partition.topic, partition.partition, offset)


class SchedulerHarness:
    """A scheduler with its clock and all effects so far."""

    def __init__(self, config: WorkConfig) -> None:
        self.scheduler: WorkScheduler[Record] = WorkScheduler(config)
        self.now_ms = 1_000
        self.running: dict[tuple[TopicPartition, int], StartTask[Record]] = {}
        self.letters: dict[tuple[TopicPartition, int], WriteDeadLetter[Record]] = {}
        self.started: list[int] = []
        self.paused: set[TopicPartition] = set()
        self.abandoned: list[int] = []
        self.commits: list[tuple[OffsetToCommit, ...]] = []
        self.drained: list[PartitionsDrained] = []
        self.failures: list[StopProcessing[Record]] = []

    def carry_out(self, effects: list[WorkEffect[Record]]) -> list[WorkEffect[Record]]:
        """Record the effects."""
        for effect in effects:
            match effect:
                case StartTask():
                    self.running[self._where(effect.record)] = effect
                    self.started.append(effect.record.offset)
                case WriteDeadLetter():
                    self.letters[self._where(effect.record)] = effect
                case StopProcessing():
                    self.failures.append(effect)
                case AbandonTasks(task_ids):
                    self.abandoned += task_ids
                case PausePartitions(partitions):
                    assert not self.paused & set(partitions)
                    self.paused |= set(partitions)
                case ResumePartitions(partitions):
                    assert self.paused >= set(partitions)
                    self.paused -= set(partitions)
                case CommitFinished(offsets):
                    self.commits.append(offsets)
                case PartitionsDrained():
                    self.drained.append(effect)
                    self.paused -= set(effect.partitions)
        return effects

    def assigned(self, *partitions: TopicPartition) -> list[WorkEffect[Record]]:
        """Assign partitions."""
        return self.carry_out(self.scheduler.on_assigned(partitions, self.now_ms))

    def received(
        self, batch: Iterable[Record], next_offsets: dict[TopicPartition, int] | None = None
    ) -> list[WorkEffect[Record]]:
        """Pass the records of a poll."""
        return self.carry_out(self.scheduler.on_records(batch, self.now_ms, next_offsets))

    def finish(self, partition: TopicPartition, *offsets: int) -> list[WorkEffect[Record]]:
        """Report the success of workers."""
        effects: list[WorkEffect[Record]] = []
        for offset in offsets:
            task_id = self.running.pop((partition, offset)).task_id
            effects += self.carry_out(self.scheduler.on_finished(task_id, self.now_ms))
        return effects

    def fail(self, partition: TopicPartition, offset: int, *, retriable: bool = True) -> list[WorkEffect[Record]]:
        """Report the failure of a worker."""
        task_id = self.running.pop((partition, offset)).task_id
        return self.carry_out(self.scheduler.on_failed(task_id, BROKEN, self.now_ms, retriable=retriable))

    def write(self, partition: TopicPartition, offset: int) -> list[WorkEffect[Record]]:
        """Report a written dead letter."""
        task_id = self.letters.pop((partition, offset)).task_id
        return self.carry_out(self.scheduler.on_dead_letter_written(task_id, self.now_ms))

    def fail_to_write(self, partition: TopicPartition, offset: int) -> list[WorkEffect[Record]]:
        """Report a failed dead-letter write."""
        task_id = self.letters.pop((partition, offset)).task_id
        return self.carry_out(self.scheduler.on_dead_letter_failed(task_id, self.now_ms))

    def revoke(
        self, *partitions: TopicPartition, within_ms: int = 1_000, mode: RevokeMode = RevokeMode.DRAIN
    ) -> list[WorkEffect[Record]]:
        """Revoke partitions."""
        return self.carry_out(self.scheduler.revoke(partitions, self.now_ms, self.now_ms + within_ms, mode))

    def lost(self, *partitions: TopicPartition) -> list[WorkEffect[Record]]:
        """Report lost partitions."""
        effects = self.carry_out(self.scheduler.on_lost(partitions, self.now_ms))
        self.paused -= set(partitions)
        return effects

    def pass_ms(self, duration_ms: int) -> list[WorkEffect[Record]]:
        """Advance the clock; `tick` runs exactly when it is due."""
        until_ms = self.now_ms + duration_ms
        effects: list[WorkEffect[Record]] = []
        while (due_ms := self.scheduler.next_due_ms()) is not None and due_ms <= until_ms:
            self.now_ms = due_ms
            effects += self.carry_out(self.scheduler.tick(due_ms))
        self.now_ms = until_ms
        return effects

    def under_way(self, partition: TopicPartition) -> list[int]:
        """The offsets that workers process."""
        return sorted(offset for owner, offset in self.running if owner == partition)

    @staticmethod
    def _where(record: Record) -> tuple[TopicPartition, int]:
        return TopicPartition(record.topic, record.partition), record.offset
