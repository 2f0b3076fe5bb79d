"""The sink checker finds lost and repeated records, and accepts permitted repetitions."""

import json
from pathlib import Path

import pytest

from slackwater.group.topic_partition import TopicPartition
from tests.interop_heavy.sink_checker import Batch, CountsChecker, Record, SinkChecker

AT = TopicPartition("orders", 0)


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    directory = tmp_path / "sink"
    directory.mkdir()
    return directory


def write(sink: Path, author: str, *offsets: int) -> None:
    (sink / f"{author}.json").write_text(json.dumps([[*AT, offset] for offset in offsets]))


def record(offset: int) -> Record:
    return (*AT, offset)


def test_each_record_once_is_accepted(sink: Path) -> None:
    write(sink, "ada-1-0", 0, 1)
    write(sink, "bea-1-0", 2)
    summary = SinkChecker(sink.parent).finish({AT: 3})
    assert (summary.records, summary.writes, summary.duplicates) == (3, 3, {})


def test_missing_record_below_offset_fails(sink: Path) -> None:
    write(sink, "ada-1-0", 0, 2)
    checker = SinkChecker(sink.parent)
    checker.check({AT: 1})
    with pytest.raises(AssertionError, match="1 records below"):
        checker.check({AT: 3})


def test_record_dropped_by_a_later_run_fails(sink: Path) -> None:
    write(sink, "ada-1-0", 0, 1)
    checker = SinkChecker(sink.parent)
    checker.check({AT: 2})
    write(sink, "ada-2-0", 0)
    with pytest.raises(AssertionError, match="1 records below"):
        checker.check({AT: 2})


def test_offset_going_back_fails(sink: Path) -> None:
    write(sink, "ada-1-0", 0, 1)
    checker = SinkChecker(sink.parent)
    checker.check({AT: 2})
    with pytest.raises(AssertionError, match="went back from 2 to 1"):
        checker.check({AT: 1})


def test_open_batch_may_be_written_twice(sink: Path) -> None:
    for number in range(4):
        write(sink, f"ada-1-{number}", number)
    write(sink, "bea-1-0", 3)
    summary = SinkChecker(sink.parent).finish({AT: 4})
    assert summary.duplicates == {record(3): {Batch("ada", 3), Batch("bea", 0)}}


def test_finished_batch_written_twice_fails(sink: Path) -> None:
    for number in range(4):
        write(sink, f"ada-1-{number}", number)
    write(sink, "bea-1-0", 1)
    for number in range(1, 4):
        write(sink, f"bea-1-{number}", number + 3)
    with pytest.raises(AssertionError, match="two finished batches"):
        SinkChecker(sink.parent).finish({AT: 7})


def test_repeated_batch_of_one_application_counts_once(sink: Path) -> None:
    write(sink, "ada-1-0", 0, 1)
    write(sink, "ada-2-0", 0, 1)
    summary = SinkChecker(sink.parent).finish({AT: 2})
    assert (summary.records, summary.writes, summary.duplicates) == (2, 4, {})


def test_records_of_other_clients_are_counted(sink: Path) -> None:
    write(sink, "ada-1-0", 0)
    checker = SinkChecker(sink.parent)
    assert checker.finish({AT: 2}, [record(1)]).records == 2
    with pytest.raises(AssertionError, match="by Spark and by another client"):
        checker.finish({AT: 2}, [record(0), record(1)])
    with pytest.raises(AssertionError, match="read a record twice"):
        checker.finish({AT: 2}, [record(1), record(1)])


def test_uncounted_record_was_late(sink: Path) -> None:
    (sink / "ada-1-0.json").write_text(json.dumps([[0, 10, 2], [0, 20, 1]]))
    (sink / "ada-1-1.json").write_text(json.dumps([[0, 20, 3]]))  # more of the same window
    (sink / "bea-1-0.json").write_text(json.dumps([[0, 20, 1], [1, 20, 4]]))
    checker = CountsChecker(sink.parent)
    assert checker.counted() == {0: 6, 1: 4}
    assert checker.dropped({AT: 6, TopicPartition("orders", 1): 7}) == {1: 3}
    with pytest.raises(AssertionError, match="counted twice"):
        checker.dropped({AT: 5})
