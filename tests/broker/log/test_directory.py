"""The data directory of one broker."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.broker.storage.directory import (
    META,
    DataDirectory,
    directory_name,
    partition_in,
    read_topic_id,
    write_topic_id,
)
from slackwater.group.errors import UsageError
from slackwater.group.topic_partition import TopicPartition


def test_a_new_directory_becomes_ours_and_stays_of_its_cluster(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data"
    DataDirectory.open(path, "first", 1).close(clean=True)
    assert (path / META).read_text() == "#\ncluster.id=first\nnode.id=1\nversion=1\n"
    again = DataDirectory.open(path, "second", 1)
    assert (again.cluster_id, again.node_id, again.clean_shutdown) == ("first", 1, True)
    again.close(clean=False)
    assert not DataDirectory.open(path, "second", 1).clean_shutdown


def test_one_broker_at_a_time(tmp_path: Path) -> None:
    first = DataDirectory.open(tmp_path, "c", 1)
    with pytest.raises(UsageError, match="is in use by another broker"):
        DataDirectory.open(tmp_path, "c", 1)
    program = (
        "import sys; from pathlib import Path; from slackwater.broker.storage.directory import DataDirectory\n"
        "try: DataDirectory.open(Path(sys.argv[1]), 'c', 1)\n"
        "except Exception as error: print(type(error).__name__)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "UsageError\n"
    first.close(clean=False)
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


def test_the_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path, "c", 1).close(clean=True)
    with pytest.raises(UsageError, match=r"belongs to node 1 of cluster c; this is node 2\."):
        DataDirectory.open(tmp_path, "c", 2)
    DataDirectory.open(tmp_path, "c", 1).close(clean=True)


@pytest.mark.parametrize("text", ["", "version=0\ncluster.id=c\nnode.id=1\n", "version=1\ncluster.id=c\nnode.id=one\n"])
def test_a_meta_file_that_cannot_be_read_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / META).write_text(text)
    with pytest.raises(UsageError, match="is not one of version 1"):
        DataDirectory.open(tmp_path, "c", 1)


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used: It is a file"):
        DataDirectory.open(tmp_path / "file", "c", 1)
    (tmp_path / META).mkdir()
    with pytest.raises(UsageError, match="cannot be used: Is a directory"):
        DataDirectory.open(tmp_path, "c", 1)


def test_partitions_are_found_by_their_names(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path, "c", 1)
    wanted = [TopicPartition("__consumer_offsets", 0), TopicPartition("a-b", 12), TopicPartition("a-b-3", 0)]
    for one in wanted:
        data.partition(one).mkdir()
    (tmp_path / "no partition").mkdir()
    (tmp_path / "file-3").touch()
    assert sorted(data.partitions()) == wanted
    assert [partition_in(directory_name(one)) for one in wanted] == wanted
    assert partition_in("-3") is None
    assert partition_in("topic-x") is None


def test_a_deleted_partition_is_gone_even_after_a_crash(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path, "c", 1)
    long = TopicPartition("t" * 249, 0)
    for one in (long, TopicPartition("a", 0)):
        data.partition(one).mkdir()
        (data.partition(one) / "file").touch()
    data.delete(long, "0123456789abcdef0123456789abcdef")
    assert list(data.partitions()) == [TopicPartition("a", 0)]
    os.rename(tmp_path / "a-0", tmp_path / "a-0.0123-delete")
    data.close(clean=False)
    DataDirectory.open(tmp_path, "c", 1)
    assert not (tmp_path / "a-0.0123-delete").exists()


def test_the_id_of_a_topic_is_noted_as_kafka_does(tmp_path: Path) -> None:
    assert read_topic_id(tmp_path) is None
    write_topic_id(tmp_path, "o6SUNMDhQMm0zQNlvzEKLA")
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: o6SUNMDhQMm0zQNlvzEKLA\n"
    assert read_topic_id(tmp_path) == "o6SUNMDhQMm0zQNlvzEKLA"
    (tmp_path / "partition.metadata").write_text("version: 1\n")
    assert read_topic_id(tmp_path) is None
