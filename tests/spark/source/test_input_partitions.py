"""Ranges made into tasks."""

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


def test_a_range_is_a_task_and_an_empty_one_is_none() -> None:
    assert spans(plan_input_partitions(ranges(10, 0, 5))) == [ranges(10)[0], OffsetRange("t", 2, 100, 105)]


def test_long_ranges_are_cut_until_there_are_enough_tasks() -> None:
    found = spans(plan_input_partitions(ranges(1_000, 10), min_partitions=5))
    assert [one.size for one in found] == [250, 250, 250, 250, 10]


def test_no_task_is_longer_than_allowed() -> None:
    found = spans(plan_input_partitions(ranges(25, 10), max_records_per_partition=10))
    assert [one.size for one in found] == [8, 8, 9, 10]


@settings(deadline=None)
@given(LENGTHS, st.none() | st.integers(1, 40), st.none() | st.integers(10, 500))
def test_tasks_cover_the_ranges_and_nothing_twice(lengths: list[int], least: int | None, most: int | None) -> None:
    wanted = ranges(*lengths)
    found = spans(plan_input_partitions(wanted, least, most))
    for one in wanted:
        parts = sorted(part for part in found if part.topic_partition == one.topic_partition)
        assert sum(part.size for part in parts) == one.size
        at = one.from_offset
        for part in parts:
            assert part.from_offset == at
            assert part.size
            at = part.until_offset
    if most is not None and least is None:
        assert all(part.size <= most for part in found)


def test_a_task_travels() -> None:
    (task,) = plan_input_partitions(ranges(3))
    assert pickle.loads(pickle.dumps(task)).range == ranges(3)[0]
