"""Checks the sinks of a group of Spark applications against the group's committed offsets.

Invariants that it checks:
- A sink has each batch once: the output of a later run replaces the output of an earlier run of the same batch.
- Every record below the group's committed offset is in a sink, at every moment. The checker reads the offset first.
- A record may be in two batches only if one of them was open when a run of its application ended. Open are the last
  batch, and the batch before it if its commit had not reached the group (docs/spark.md, "Handing over").
- The committed offset of a partition never decreases.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from slackwater.group.topic_partition import TopicPartition

Record = tuple[str, int, int]


class Batch(NamedTuple):
    """A batch of an application, in any run."""

    application: str
    number: int


@dataclass(frozen=True)
class SinkSummary:
    """The final counts of all sinks."""

    records: int
    writes: int  # includes records that a later run of the same application wrote again
    duplicates: dict[Record, frozenset[Batch]]

    def __str__(self) -> str:
        return (
            f"{self.records} records, {self.writes} writes, {len(self.duplicates)} records in several applications or "
            f"batches, {self.writes - self.records - len(self.duplicates)} rewritten by the same batch"
        )


class SinkChecker:
    """Reads the sinks in a directory and checks them."""

    def __init__(self, directory: Path) -> None:
        self._sink = directory / "sink"
        self._files: dict[Path, tuple[int, list[Record]]] = {}
        self._committed: dict[TopicPartition, int] = {}
        self.checks = 0

    def check(self, committed: Mapping[TopicPartition, int], others: Collection[Record] = ()) -> None:
        """Check the sinks now; `others` are the records that other members of the group have read."""
        for partition, offset in committed.items():
            before = self._committed.get(partition, 0)
            assert offset >= before, f"the committed offset of {partition} went back from {before} to {offset}"
            self._committed[partition] = offset
        present = set(others).union(self._contents())
        missing = [
            (*partition, offset)
            for partition, end in committed.items()
            for offset in range(end)
            if (*partition, offset) not in present
        ]
        assert not missing, f"{len(missing)} records below the committed offset are in no sink: {missing[:10]}"
        self.checks += 1

    def finish(self, ends: Mapping[TopicPartition, int], others: Iterable[Record] = ()) -> SinkSummary:
        """Check that all records are present and that only open batches have duplicates."""
        others = list(others)
        self.check(ends, others)
        contents = self._contents()
        duplicates = {record: frozenset(batches) for record, batches in contents.items() if len(batches) > 1}
        open_batches = self._open_batches()
        wrong = {record: batches for record, batches in duplicates.items() if not batches & open_batches}
        assert not wrong, f"{len(wrong)} records are in two finished batches: {list(wrong.items())[:10]}"
        assert len(others) == len(set(others)), "another client read a record twice"
        both = contents.keys() & set(others)
        assert not both, f"{len(both)} records were read by Spark and by another client: {sorted(both)[:10]}"
        writes = sum(len(records) for _, records in self._files.values()) + len(others)
        return SinkSummary(len(contents) + len(others), writes, duplicates)

    # --- the sinks ----------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        for path in self._sink.glob("*.json"):
            changed = path.stat().st_mtime_ns
            if path not in self._files or self._files[path][0] != changed:
                records = [(topic, partition, offset) for topic, partition, offset in json.loads(path.read_text())]
                self._files[path] = changed, records

    def _contents(self) -> dict[Record, set[Batch]]:
        """The batches of each record."""
        self._read()
        newest: dict[Batch, tuple[int, list[Record]]] = {}
        for path, (_, records) in self._files.items():
            name, run, number = _parse_name(path)
            batch = Batch(name, number)
            if batch not in newest or newest[batch][0] < run:
                newest[batch] = run, records
        batches_by_record: dict[Record, set[Batch]] = {}
        for batch, (_, records) in newest.items():
            for record in records:
                batches_by_record.setdefault(record, set()).add(batch)
        return batches_by_record

    def _open_batches(self) -> frozenset[Batch]:
        """The batches that may have been open when a run ended."""
        last: dict[tuple[str, int], int] = {}
        for path in self._files:
            name, run, number = _parse_name(path)
            last[name, run] = max(last.get((name, run), 0), number)
        return frozenset(Batch(name, number - back) for (name, _), number in last.items() for back in (0, 1))


class CountsChecker:
    """Reads the counts of stateful queries: a later count of a window replaces an earlier one.

    A record that is too late for the query that read it is in no count.
    """

    def __init__(self, directory: Path) -> None:
        self._sink = directory / "sink"

    def counted(self) -> dict[int, int]:
        """The number of records of each partition in all applications' counts."""
        newest: dict[tuple[str, int, int], tuple[int, int]] = {}
        for path in self._sink.glob("*.json"):
            name, _, number = _parse_name(path)
            for partition, window, count in json.loads(path.read_text()):
                key = name, partition, window
                newest[key] = max(newest.get(key, (-1, 0)), (number, count))
        counts: dict[int, int] = {}
        for (_, partition, _), (_, count) in newest.items():
            counts[partition] = counts.get(partition, 0) + count
        return counts

    def dropped(self, ends: Mapping[TopicPartition, int]) -> dict[int, int]:
        """The number of records of each partition that were read, by the committed offset, but are in no count."""
        counted = self.counted()
        missing = {partition.partition: end - counted.get(partition.partition, 0) for partition, end in ends.items()}
        assert all(count >= 0 for count in missing.values()), f"records were counted twice: {missing}"
        return {partition: count for partition, count in missing.items() if count}


def _parse_name(path: Path) -> tuple[str, int, int]:
    name, run, number = path.stem.split("-")
    return name, int(run), int(number)
