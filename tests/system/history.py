"""What a verifiable consumer has done, from the lines that it printed, and what Kafka's system tests require of it.

Invariants:
- Within one consumer: records come only from assigned partitions, each at the position after the one before it, and a
  successful commit covers nothing beyond the position. `ConsumerHistory.add` fails otherwise.
- In a group: every record up to the position was read, a member starts at an offset that no commit had passed when it
  got the partition, and, where the test requires it, no record was read twice and no partition had two owners.
- Times are wall-clock milliseconds of one machine.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Line = Mapping[str, Any]


@dataclass
class Ownership:
    """The time in which a consumer owned a partition, and the offsets that it read."""

    consumer: str
    partition: int
    since_ms: int
    until_ms: int | None = None  # None while it owns the partition
    reads: list[range] = field(default_factory=list)

    @property
    def position(self) -> int | None:
        """The offset after the last record; None if it read none."""
        return self.reads[-1].stop if self.reads else None


@dataclass(frozen=True)
class Commit:
    """An acknowledged commit of one partition."""

    partition: int
    offset: int
    at_ms: int


class ConsumerHistory:
    """One consumer, from its start to its end."""

    def __init__(self, consumer: str) -> None:
        self.consumer = consumer
        self.ownerships: list[Ownership] = []
        self.commits: list[Commit] = []
        self.assigned_count = 0
        self.revoked_count = 0
        self.failed_commits: list[str] = []
        self._owned: dict[int, Ownership] = {}

    @property
    def assignment(self) -> frozenset[int]:
        """The partitions that it owns now."""
        return frozenset(self._owned)

    @property
    def rebalances(self) -> tuple[int, int]:
        """How often the callbacks for assigned and for revoked partitions ran."""
        return self.assigned_count, self.revoked_count

    def add(self, line: Line) -> None:
        """Apply a line; fails if the consumer broke a rule."""
        at_ms = line.get("timestamp", 0)
        match line.get("name"):
            case "partitions_assigned":
                self.assigned_count += 1
                for partition in _partitions(line):
                    assert partition not in self._owned, f"{self.consumer} was assigned partition {partition} twice"
                    self._owned[partition] = Ownership(self.consumer, partition, at_ms)
                    self.ownerships.append(self._owned[partition])
            case "partitions_revoked":
                self.revoked_count += 1
                for partition in _partitions(line):
                    self._owned.pop(partition).until_ms = at_ms
            case "records_consumed":
                for summary in line["partitions"]:
                    self._read(summary)
            case "offsets_committed" if line["success"]:
                for committed in line["offsets"]:
                    self._commit(Commit(committed["partition"], committed["offset"], at_ms))
            case "offsets_committed":
                self.failed_commits.append(line["error"])

    def _read(self, summary: Line) -> None:
        partition, offsets = summary["partition"], range(summary["minOffset"], summary["maxOffset"] + 1)
        ownership = self._owned.get(partition)
        assert ownership is not None, f"{self.consumer} read partition {partition}, which it does not own"
        assert summary["count"] == len(offsets), f"{self.consumer} skipped records between {offsets} of {partition}"
        assert ownership.position in (None, offsets.start), (
            f"{self.consumer} read partition {partition} from {offsets.start} on; its position was {ownership.position}"
        )
        ownership.reads.append(offsets)

    def _commit(self, commit: Commit) -> None:
        ownership = self._owned.get(commit.partition)
        assert ownership is not None, f"{self.consumer} committed partition {commit.partition}, which it does not own"
        assert ownership.position is not None, f"{self.consumer} committed {commit} without a record"
        assert commit.offset <= ownership.position, f"{self.consumer} committed {commit} beyond {ownership.position}"
        self.commits.append(commit)

    def end(self, at_ms: int) -> None:
        """The process has ended, and with it what it owned."""
        for ownership in self._owned.values():
            ownership.until_ms = at_ms
        self._owned.clear()


class GroupHistory:
    """All consumers of a group, also those that have ended."""

    def __init__(self, histories: Iterable[ConsumerHistory]) -> None:
        consumers = list(histories)
        self._commits = [commit for history in consumers for commit in history.commits]
        self._ownerships = [ownership for history in consumers for ownership in history.ownerships]
        self._reads: defaultdict[int, list[range]] = defaultdict(list)
        for ownership in self._ownerships:
            self._reads[ownership.partition] += ownership.reads

    def positions(self) -> dict[int, int]:
        """The offset after the last record that any member read, by partition."""
        return {partition: max(read.stop for read in reads) for partition, reads in self._reads.items() if reads}

    def read_count(self) -> int:
        """How many records were read, counting a record again if it was read again."""
        return sum(len(read) for reads in self._reads.values() for read in reads)

    def duplicate_count(self) -> int:
        """How many records were read again."""
        return self.read_count() - sum(self.positions().values())

    def check_nothing_lost(self) -> None:
        """Every record up to the positions was read."""
        for partition, reads in self._reads.items():
            end = 0
            for read in sorted(reads, key=lambda read: (read.start, read.stop)):
                assert read.start <= end, f"no one read the records {end} to {read.start - 1} of partition {partition}"
                end = max(end, read.stop)

    def check_starts(self) -> None:
        """No member started before an offset that was committed when it got the partition."""
        for ownership in self._ownerships:
            if ownership.reads:
                committed = _last_commit(self._commits, ownership.partition, ownership.since_ms)
                start = ownership.reads[0].start
                assert start >= committed, f"{ownership.consumer} started at {start}, {committed} was committed"

    def check_one_owner(self) -> None:
        """No partition had two owners at a time."""
        ordered = sorted(self._ownerships, key=lambda ownership: (ownership.partition, ownership.since_ms))
        for first, second in pairwise(ordered):
            if first.partition == second.partition:
                is_over = first.until_ms is not None and first.until_ms <= second.since_ms
                assert is_over, f"two owners of partition {first.partition}: {first} and {second}"


def _last_commit(commits: Sequence[Commit], partition: int, before_ms: int) -> int:
    offsets = [commit.offset for commit in commits if commit.partition == partition and commit.at_ms < before_ms]
    return max(offsets, default=0)


def _partitions(line: Line) -> list[int]:
    return [partition["partition"] for partition in line["partitions"]]
