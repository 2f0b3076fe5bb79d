"""The oracle finds what it is there to find, and lets pass what may be."""

import json
from pathlib import Path

import pytest

from slackwater.group.topic_partition import TopicPartition
from tests.interop_heavy.spark_oracle import Batch, CountsOracle, Oracle, Record

AT = TopicPartition("orders", 0)


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    found = tmp_path / "sink"
    found.mkdir()
    return found


def write(sink: Path, author: str, *offsets: int) -> None:
    (sink / f"{author}.json").write_text(json.dumps([[*AT, offset] for offset in offsets]))


def record(offset: int) -> Record:
    return (*AT, offset)


def test_everything_once_is_well(sink: Path) -> None:
    write(sink, "ada-1-0", 0, 1)
    write(sink, "bea-1-0", 2)
    account = Oracle(sink.parent).close({AT: 3})
    assert (account.records, account.writes, account.twice) == (3, 3, {})


def test_what_lies_below_the_groups_offset_may_not_be_missing(sink: Path) -> None:
    write(sink, "ada-1-0", 0, 2)
    oracle = Oracle(sink.parent)
    oracle.look({AT: 1})
    with pytest.raises(AssertionError, match="1 records below"):
        oracle.look({AT: 3})


def test_what_a_later_run_leaves_out_of_a_batch_is_gone(sink: Path) -> None:
    write(sink, "ada-1-0", 0, 1)
    oracle = Oracle(sink.parent)
    oracle.look({AT: 2})
    write(sink, "ada-2-0", 0)
    with pytest.raises(AssertionError, match="1 records below"):
        oracle.look({AT: 2})


def test_the_groups_offset_may_not_go_back(sink: Path) -> None:
    write(sink, "ada-1-0", 0, 1)
    oracle = Oracle(sink.parent)
    oracle.look({AT: 2})
    with pytest.raises(AssertionError, match="went back from 2 to 1"):
        oracle.look({AT: 1})


def test_the_open_batch_of_a_run_may_be_there_twice(sink: Path) -> None:
    for number in range(4):
        write(sink, f"ada-1-{number}", number)
    write(sink, "bea-1-0", 3)
    account = Oracle(sink.parent).close({AT: 4})
    assert account.twice == {record(3): {Batch("ada", 3), Batch("bea", 0)}}


def test_a_batch_that_was_done_may_not_be_there_twice(sink: Path) -> None:
    for number in range(4):
        write(sink, f"ada-1-{number}", number)
    write(sink, "bea-1-0", 1)
    for number in range(1, 4):
        write(sink, f"bea-1-{number}", number + 3)
    with pytest.raises(AssertionError, match="both finished"):
        Oracle(sink.parent).close({AT: 7})


def test_a_batch_done_again_by_its_own_application_counts_once(sink: Path) -> None:
    write(sink, "ada-1-0", 0, 1)
    write(sink, "ada-2-0", 0, 1)
    account = Oracle(sink.parent).close({AT: 2})
    assert (account.records, account.writes, account.twice) == (2, 4, {})


def test_what_others_have_read_is_there_once_too(sink: Path) -> None:
    write(sink, "ada-1-0", 0)
    oracle = Oracle(sink.parent)
    assert oracle.close({AT: 2}, [record(1)]).records == 2
    with pytest.raises(AssertionError, match="by Spark and by others"):
        oracle.close({AT: 2}, [record(0), record(1)])
    with pytest.raises(AssertionError, match="twice by others"):
        oracle.close({AT: 2}, [record(1), record(1)])


def test_a_record_that_is_in_no_count_was_too_late(sink: Path) -> None:
    (sink / "ada-1-0.json").write_text(json.dumps([[0, 10, 2], [0, 20, 1]]))
    (sink / "ada-1-1.json").write_text(json.dumps([[0, 20, 3]]))  # more of the same window
    (sink / "bea-1-0.json").write_text(json.dumps([[0, 20, 1], [1, 20, 4]]))
    oracle = CountsOracle(sink.parent)
    assert oracle.counted() == {0: 6, 1: 4}
    assert oracle.dropped({AT: 6, TopicPartition("orders", 1): 7}) == {1: 3}
    with pytest.raises(AssertionError, match="counted twice"):
        oracle.dropped({AT: 5})
