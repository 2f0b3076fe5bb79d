"""Ranges are split into input partitions."""

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition

from slackwater.group.offset_range import OffsetRange
from slackwater.spark.source.input_partitions import RangeInputPartition, plan_input_partitions

LENGTHS = st.lists(st.integers(0, 1_000), min_size=1, max_size=6)


def ranges(*lengths: int) -> list[OffsetRange]:
    return [OffsetRange("t", number, 100, 100 + length) for number, length in enumerate(lengths)]


def spans(tasks: list[InputPartition]) -> list[OffsetRange]:
    return [task.range for task in tasks if isinstance(task, RangeInputPartition)]


def test_one_partition_per_nonempty_range() -> None:
    assert spans(plan_input_partitions(ranges(10, 0, 5))) == [ranges(10)[0], OffsetRange("t", 2, 100, 105)]


def test_min_partitions_splits_long_ranges() -> None:
    parts = spans(plan_input_partitions(ranges(1_000, 10), min_partitions=5))
    assert [part.size for part in parts] == [250, 250, 250, 250, 10]


def test_max_records_per_partition() -> None:
    parts = spans(plan_input_partitions(ranges(25, 10), max_records_per_partition=10))
    assert [part.size for part in parts] == [8, 8, 9, 10]


@settings(deadline=None)
@given(LENGTHS, st.none() | st.integers(1, 40), st.none() | st.integers(10, 500))
def test_partitions_cover_ranges_exactly_once(
    lengths: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    requested = ranges(*lengths)
    planned = spans(plan_input_partitions(requested, min_partitions, max_records))
    for offset_range in requested:
        parts = sorted(part for part in planned if part.topic_partition == offset_range.topic_partition)
        assert sum(part.size for part in parts) == offset_range.size
        next_offset = offset_range.from_offset
        for part in parts:
            assert part.from_offset == next_offset
            assert part.size
            next_offset = part.until_offset
    if max_records is not None and min_partitions is None:
        assert all(part.size <= max_records for part in planned)


def test_input_partition_can_be_pickled() -> None:
    (task,) = plan_input_partitions(ranges(3))
    assert pickle.loads(pickle.dumps(task)).range == ranges(3)[0]
