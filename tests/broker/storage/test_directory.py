"""Tests of the data directory of a broker."""

import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.broker.storage.directory import (
    META,
    PARTITION_METADATA,
    DataDirectory,
    read_topic_id,
    rename_for_deletion,
    write_topic_id,
)
from slackwater.group.errors import UsageError


def test_directory_keeps_its_cluster_id(tmp_path: Path) -> None:
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


def test_directory_of_another_node_is_rejected(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path, "c", 1).close(clean=True)
    with pytest.raises(UsageError, match=r"belongs to node 1 of cluster c; this is node 2\."):
        DataDirectory.open(tmp_path, "c", 2)
    DataDirectory.open(tmp_path, "c", 1).close(clean=True)


@pytest.mark.parametrize("text", ["", "version=0\ncluster.id=c\nnode.id=1\n", "version=1\ncluster.id=c\nnode.id=one\n"])
def test_invalid_meta_properties(tmp_path: Path, text: str) -> None:
    (tmp_path / META).write_text(text)
    with pytest.raises(UsageError, match=r"is not a valid meta\.properties file"):
        DataDirectory.open(tmp_path, "c", 1)


def test_unusable_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"Cannot use the data directory .*: it is a file"):
        DataDirectory.open(tmp_path / "file", "c", 1)
    (tmp_path / META).mkdir()
    with pytest.raises(UsageError, match=r"Cannot use the data directory .*: Is a directory"):
        DataDirectory.open(tmp_path, "c", 1)


def test_deleted_directory_is_removed_at_next_start(tmp_path: Path) -> None:
    long_name = tmp_path / ("t" * 249 + "-0")
    long_name.mkdir()
    renamed = rename_for_deletion(long_name, "0123456789abcdef0123456789abcdef")
    assert len(renamed.name) == 255
    (renamed / "file").touch()
    DataDirectory.open(tmp_path, "c", 1)
    assert not list(tmp_path.glob("t*"))


def test_partition_metadata_has_kafka_format(tmp_path: Path) -> None:
    topic_id = bytes.fromhex("a3a49434c0e140c9b4cd0365bf310a2c")
    assert read_topic_id(tmp_path) is None
    write_topic_id(tmp_path, topic_id)
    assert (tmp_path / PARTITION_METADATA).read_text() == "version: 0\ntopic_id: o6SUNMDhQMm0zQNlvzEKLA"
    assert read_topic_id(tmp_path) == topic_id


@pytest.mark.parametrize("text", ["", "version: 1\ntopic_id: o6SUNMDhQMm0zQNlvzEKLA", "version: 0\n", "topic_id"])
def test_invalid_partition_metadata_counts_as_missing(tmp_path: Path, text: str) -> None:
    (tmp_path / PARTITION_METADATA).write_text(text)
    assert read_topic_id(tmp_path) is None
