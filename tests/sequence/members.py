"""The members of the group: each a thread with a consumer, that polls, processes and commits until something happens.

Rules kept here
- A record is processed when the oracle has heard of it; a commit comes after.
- A member that is killed does not say goodbye and commits nothing more: its connections are cut, its heartbeats stop,
  and what it had polled and not processed is gone.
- What a consumer raises because its place or its broker is gone is lived with. Anything else ends the run.
"""

import random
import threading
from collections.abc import Callable, Mapping
from typing import Final

from slackwater import Consumer
from slackwater.client.consumer.consumer import RebalanceListener
from slackwater.client.consumer.records import ConsumerRecord
from slackwater.client.errors import ClientClosedError
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.group.member import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition
from tests.sequence.oracle import Oracle, PartitionOwnership

POLL_S: Final = 0.05
JOIN_S: Final = 60.0
COMMITS: Final = ("sync", "async", "auto")
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Member(RebalanceListener):
    """A consumer in a thread."""

    def __init__(self, name: str, topic: str, settings: Mapping[str, object], oracle: Oracle, seed: int) -> None:
        self.name = name
        self.oracle = oracle
        self.dice = random.Random(seed)
        self.way = self.dice.choice(COMMITS)
        self.failure: BaseException | None = None
        self._topic = topic
        self._settings = {**settings, "client.id": name, "enable.auto.commit": self.way == "auto"}
        self._stints: dict[TopicPartition, PartitionOwnership] = {}
        self._uncommitted: dict[TopicPartition, int] = {}
        self._stall_s = 0.0
        self._leaving = self._killed = False
        self._wake = threading.Event()
        self._consumer = Consumer(self._settings)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    # --- what happens to it -------------------------------------------------------------------------------------------

    def stall(self, seconds: float) -> None:
        """Work on one record for so long, while heartbeats go on."""
        self._stall_s = seconds

    def leave(self) -> None:
        """Close, as a program does that is asked to end."""
        self._leaving = True
        self._wake.set()

    def kill(self) -> None:
        """End as `kill -9` does."""
        self._killed = True
        self._wake.set()
        self._consumer.abort()

    def end(self) -> None:
        """Wait until its thread is over, and raise what ended it."""
        self._thread.join(JOIN_S)
        assert not self._thread.is_alive(), f"{self.name} did not end within {JOIN_S:g} s"
        if self.failure is not None:
            raise self.failure

    # --- its thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._live()
        except BaseException as error:
            if not self._killed:
                self.failure = error

    def _live(self) -> None:
        self._consumer.subscribe([self._topic], listener=self)
        while not self._leaving and not self._killed:
            if self._stall_s:
                self._wake.wait(self._stall_s)
                self._stall_s = 0.0
            self._bear(self._step)
        if not self._killed:
            self._bear(self._consumer.close)

    def _bear(self, work: Callable[[], object]) -> None:
        """Do something, and live with what a lost place or a lost broker makes of it."""
        try:
            work()
        except (UsageError, ClientClosedError):
            raise
        except SlackwaterError:
            if self._killed:
                raise

    def _step(self) -> None:
        records = self._consumer.poll(POLL_S)
        self.process(records)
        if self._killed:
            return  # perhaps in the middle of these records: what it commits from here on, the dead do not
        if records or self._uncommitted:
            self.commit(is_idle=not records)

    def process(self, records: list[ConsumerRecord]) -> None:
        """Work on what a poll gave."""
        for record in records:
            if self._killed:
                return
            ownership = self._stints[record.topic_partition]
            self.oracle.processed(ownership, record.offset)
            self._uncommitted[record.topic_partition] = record.offset + 1

    def commit(self, *, is_idle: bool) -> None:
        """Commit in this member's way; when there is nothing else to do, until it is answered."""
        if self.way == "auto":
            self._uncommitted.clear()  # the consumer's own business
        elif self.way == "sync" or is_idle:
            self._commit_now()
        else:
            self._consumer.commit_async(callback=self._acknowledged)
            self._uncommitted.clear()

    def _commit_now(self) -> None:
        wanted = dict(self._uncommitted)
        self._consumer.commit(wanted)
        self._uncommitted.clear()
        for partition, offset in wanted.items():
            self.oracle.on_commit_acknowledged(partition, offset)

    def _acknowledged(self, offsets: Offsets, error: SlackwaterError | None) -> None:
        for partition, at in offsets.items():
            if error is None:
                self.oracle.on_commit_acknowledged(partition, at.offset)
                continue
            # What failed may be behind a later commit that is under way or has landed: the newest offset is the one to
            # try again with.
            ownership = self._stints.get(partition)
            if ownership is not None and ownership.next_offset is not None:
                self._uncommitted[partition] = ownership.next_offset

    # --- its partitions -----------------------------------------------------------------------------------------------

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """They are new: what is committed by now is behind them."""
        for partition in partitions:
            self._stints[partition] = self.oracle.assigned(self.name, partition)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """They go: commit what was processed, as long as it counts."""
        if self.way != "auto" and self._uncommitted and not self._killed:
            self._bear(self._commit_now)
        self._forget(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """They are gone."""
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._stints.pop(partition, None)
            self._uncommitted.pop(partition, None)


class CommitsAhead(Member):
    """Broken on purpose: commits what it has not processed yet."""

    def process(self, records: list[ConsumerRecord]) -> None:
        """Commit, and then work: not before somebody has looked."""
        if records:
            self._consumer.commit()
            seen, patience = self.oracle.committed_checks + 2, 100
            while self.oracle.committed_checks < seen and patience and not self._wake.wait(0.01):
                patience -= 1
        super().process(records)


class PassesOver(Member):
    """Broken on purpose: loses the last record of some polls."""

    def process(self, records: list[ConsumerRecord]) -> None:
        """Work on all but the last."""
        super().process(records[:-1])


class ReadsAgain(Member):
    """Broken on purpose: begins every partition at its first record."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Pay no heed to what is committed."""
        super().on_partitions_assigned(partitions)
        self._consumer.seek_to_beginning(partitions)


class TakesBack(Member):
    """Broken on purpose: commits an old offset after a new one."""

    def commit(self, *, is_idle: bool) -> None:
        """Commit, and then something from long ago."""
        wanted = dict(self._uncommitted)
        self._commit_now()
        self._consumer.commit({partition: max(offset - 5, 0) for partition, offset in wanted.items()})
