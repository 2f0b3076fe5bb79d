"""The members of the group: threads with a consumer that polls, processes and commits.

Invariants:
- A record is reported to the oracle before it is committed.
- A killed member sends no LeaveGroup and no further commit: its connections are closed and its heartbeats stop.
- Errors because of a lost membership or an unavailable broker are ignored. Any other error ends the run.
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
        self.rng = random.Random(seed)
        self.commit_mode = self.rng.choice(COMMITS)
        self.failure: BaseException | None = None
        self._topic = topic
        self._settings = {**settings, "client.id": name, "enable.auto.commit": self.commit_mode == "auto"}
        self._ownerships: dict[TopicPartition, PartitionOwnership] = {}
        self._uncommitted: dict[TopicPartition, int] = {}
        self._stall_s = 0.0
        self._leaving = self._killed = False
        self._wake = threading.Event()
        self._consumer = Consumer(self._settings)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    # --- actions ------------------------------------------------------------------------------------------------------

    def stall(self, seconds: float) -> None:
        """Process nothing for some seconds, while heartbeats continue."""
        self._stall_s = seconds

    def leave(self) -> None:
        """Close the consumer."""
        self._leaving = True
        self._wake.set()

    def kill(self) -> None:
        """Stop like a process after `kill -9`."""
        self._killed = True
        self._wake.set()
        self._consumer.abort()

    def end(self) -> None:
        """Wait for the end of the thread, and raise its error."""
        self._thread.join(JOIN_S)
        assert not self._thread.is_alive(), f"{self.name} did not end within {JOIN_S:g} s"
        if self.failure is not None:
            raise self.failure

    # --- thread -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._poll_until_end()
        except BaseException as error:
            if not self._killed:
                self.failure = error

    def _poll_until_end(self) -> None:
        self._consumer.subscribe([self._topic], listener=self)
        while not self._leaving and not self._killed:
            if self._stall_s:
                self._wake.wait(self._stall_s)
                self._stall_s = 0.0
            self._ignore_lost(self._step)
        if not self._killed:
            self._ignore_lost(self._consumer.close)

    def _ignore_lost(self, work: Callable[[], object]) -> None:
        """Call something, and ignore errors because of a lost membership or broker."""
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
            return  # perhaps with unprocessed records; a killed member does not commit
        if records or self._uncommitted:
            self.commit(is_idle=not records)

    def process(self, records: list[ConsumerRecord]) -> None:
        """Process the records of a poll."""
        for record in records:
            if self._killed:
                return
            ownership = self._ownerships[record.topic_partition]
            self.oracle.processed(ownership, record.offset)
            self._uncommitted[record.topic_partition] = record.offset + 1

    def commit(self, *, is_idle: bool) -> None:
        """Commit in the mode of this member; synchronously if it is idle."""
        if self.commit_mode == "auto":
            self._uncommitted.clear()  # the consumer commits
        elif self.commit_mode == "sync" or is_idle:
            self._commit_now()
        else:
            self._consumer.commit_async(callback=self._acknowledged)
            self._uncommitted.clear()

    def _commit_now(self) -> None:
        offsets = dict(self._uncommitted)
        self._consumer.commit(offsets)
        self._uncommitted.clear()
        for partition, offset in offsets.items():
            self.oracle.on_commit_acknowledged(partition, offset)

    def _acknowledged(self, offsets: Offsets, error: SlackwaterError | None) -> None:
        for partition, committed in offsets.items():
            if error is None:
                self.oracle.on_commit_acknowledged(partition, committed.offset)
                continue
            # A later commit may be in flight or complete, so retry with the newest offset.
            ownership = self._ownerships.get(partition)
            if ownership is not None and ownership.next_offset is not None:
                self._uncommitted[partition] = ownership.next_offset

    # --- partitions ---------------------------------------------------------------------------------------------------

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Start a new ownership of each partition."""
        for partition in partitions:
            self._ownerships[partition] = self.oracle.assigned(self.name, partition)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Commit processed records before the partitions are revoked."""
        if self.commit_mode != "auto" and self._uncommitted and not self._killed:
            self._ignore_lost(self._commit_now)
        self._remove(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Remove the lost partitions."""
        self._remove(partitions)

    def _remove(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._ownerships.pop(partition, None)
            self._uncommitted.pop(partition, None)


class CommitsBeforeProcessing(Member):
    """Broken on purpose: commits unprocessed records."""

    def process(self, records: list[ConsumerRecord]) -> None:
        """Commit, wait until the oracle has checked the commits, then process."""
        if records:
            self._consumer.commit()
            target, tries = self.oracle.committed_checks + 2, 100
            while self.oracle.committed_checks < target and tries and not self._wake.wait(0.01):
                tries -= 1
        super().process(records)


class SkipsRecords(Member):
    """Broken on purpose: loses the last record of some polls."""

    def process(self, records: list[ConsumerRecord]) -> None:
        """Process all records but the last."""
        super().process(records[:-1])


class IgnoresCommits(Member):
    """Broken on purpose: starts every partition at its first record."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Ignore the committed offsets."""
        super().on_partitions_assigned(partitions)
        self._consumer.seek_to_beginning(partitions)


class RevertsCommits(Member):
    """Broken on purpose: commits an old offset after a new one."""

    def commit(self, *, is_idle: bool) -> None:
        """Commit, and then commit an older offset."""
        offsets = dict(self._uncommitted)
        self._commit_now()
        self._consumer.commit({partition: max(offset - 5, 0) for partition, offset in offsets.items()})
