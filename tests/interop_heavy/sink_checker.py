"""The account of a group of Spark applications: what it committed, what its sinks have, and what may be there twice.

Rules kept here
- A sink has each batch once: what a later run of an application wrote for a batch takes the place of what an earlier
  run wrote. Whatever lies below the group's offset must be in some sink then, at every moment; the group's offset is
  looked at first.
- A record may be in two batches only if one of them was open when a run of its application ended: its last, and the one
  before if the group had not heard of that (docs/spark.md, "Handing over").
- The group's offset of a partition never goes back.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from slackwater.group.topic_partition import TopicPartition

Record = tuple[str, int, int]


class Batch(NamedTuple):
    """A batch of an application, whichever run wrote it."""

    application: str
    number: int


@dataclass(frozen=True)
class Account:
    """What came of it all."""

    records: int
    writes: int  # with what was written again by a later run of the same application
    twice: dict[Record, frozenset[Batch]]

    def __str__(self) -> str:
        return (
            f"{self.records} records, {self.writes} written, {len(self.twice)} in two applications' sinks or batches, "
            f"{self.writes - self.records - len(self.twice)} written again by the same batch"
        )


class SinkChecker:
    """Reads the sinks of a directory again and again."""

    def __init__(self, directory: Path) -> None:
        self._sink = directory / "sink"
        self._files: dict[Path, tuple[int, list[Record]]] = {}
        self._committed: dict[TopicPartition, int] = {}
        self.looks = 0

    def look(self, committed: Mapping[TopicPartition, int], elsewhere: Collection[Record] = ()) -> None:
        """Check a moment; `elsewhere` are records that others of the group have read."""
        for partition, offset in committed.items():
            before = self._committed.get(partition, 0)
            assert offset >= before, f"the group's offset of {partition} went back from {before} to {offset}"
            self._committed[partition] = offset
        there = set(elsewhere).union(self._contents())
        missing = [
            (*partition, at)
            for partition, end in committed.items()
            for at in range(end)
            if (*partition, at) not in there
        ]
        assert not missing, f"{len(missing)} records below the group's offset are in no sink: {missing[:10]}"
        self.looks += 1

    def close(self, ends: Mapping[TopicPartition, int], elsewhere: Iterable[Record] = ()) -> Account:
        """Check the end: all_partitions is there, and twice is only what may be."""
        elsewhere = list(elsewhere)
        self.look(ends, elsewhere)
        contents = self._contents()
        twice = {record: frozenset(batches) for record, batches in contents.items() if len(batches) > 1}
        open_ones = self._open()
        wrong = {record: batches for record, batches in twice.items() if not batches & open_ones}
        assert not wrong, f"{len(wrong)} records are in two batches that were both finished: {list(wrong.items())[:10]}"
        assert len(elsewhere) == len(set(elsewhere)), "a record was read twice by others"
        both = contents.keys() & set(elsewhere)
        assert not both, f"{len(both)} records were read by Spark and by others: {sorted(both)[:10]}"
        writes = sum(len(records) for _, records in self._files.values()) + len(elsewhere)
        return Account(len(contents) + len(elsewhere), writes, twice)

    # --- the sinks ----------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        for path in self._sink.glob("*.json"):
            changed = path.stat().st_mtime_ns
            if path not in self._files or self._files[path][0] != changed:
                self._files[path] = changed, [(topic, one, at) for topic, one, at in json.loads(path.read_text())]

    def _contents(self) -> dict[Record, set[Batch]]:
        """Which batches each record is in."""
        self._read()
        newest: dict[Batch, tuple[int, list[Record]]] = {}
        for path, (_, records) in self._files.items():
            name, run, number = _author(path)
            batch = Batch(name, number)
            if batch not in newest or newest[batch][0] < run:
                newest[batch] = run, records
        found: dict[Record, set[Batch]] = {}
        for batch, (_, records) in newest.items():
            for record in records:
                found.setdefault(record, set()).add(batch)
        return found

    def _open(self) -> frozenset[Batch]:
        """The batches that were open when a run ended, as far as anybody can tell."""
        last: dict[tuple[str, int], int] = {}
        for path in self._files:
            name, run, number = _author(path)
            last[name, run] = max(last.get((name, run), 0), number)
        return frozenset(Batch(name, number - back) for (name, _), number in last.items() for back in (0, 1))


class CountsChecker:
    """Reads the counts of stateful queries: a later count of a window takes the place of an earlier one.

    A record that was too late for the query that read it is in no count.
    """

    def __init__(self, directory: Path) -> None:
        self._sink = directory / "sink"

    def counted(self) -> dict[int, int]:
        """How many records of each partition are in some application's counts."""
        newest: dict[tuple[str, int, int], tuple[int, int]] = {}
        for path in self._sink.glob("*.json"):
            name, _, number = _author(path)
            for partition, window, count in json.loads(path.read_text()):
                key = name, partition, window
                newest[key] = max(newest.get(key, (-1, 0)), (number, count))
        found: dict[int, int] = {}
        for (_, partition, _), (_, count) in newest.items():
            found[partition] = found.get(partition, 0) + count
        return found

    def dropped(self, ends: Mapping[TopicPartition, int]) -> dict[int, int]:
        """How many records of each partition are in no count, though the group's offset says that they were read."""
        counted = self.counted()
        found = {at.partition: end - counted.get(at.partition, 0) for at, end in ends.items()}
        assert all(missing >= 0 for missing in found.values()), f"records were counted twice: {found}"
        return {partition: missing for partition, missing in found.items() if missing}


def _author(path: Path) -> tuple[str, int, int]:
    name, run, number = path.stem.split("-")
    return name, int(run), int(number)
