"""Tests of partition directories and of their removal."""

from pathlib import Path

import pytest

from slackwater.broker.storage.partition_directory import (
    PARTITION_METADATA,
    PartitionDirectory,
    Unfinished,
    read_topic_id,
    remove_partition_directory,
    unfinished_name,
    write_topic_id,
)

TOPIC_ID = bytes.fromhex("a3a49434c0e140c9b4cd0365bf310a2c")


def _directory(parent: Path, name: str, topic_id: bytes | None = TOPIC_ID) -> Path:
    path = parent / name
    path.mkdir()
    if topic_id is not None:
        write_topic_id(path, topic_id)
    return path


def test_partition_metadata_has_kafka_format(tmp_path: Path) -> None:
    assert read_topic_id(tmp_path) is None
    write_topic_id(tmp_path, TOPIC_ID)
    assert (tmp_path / PARTITION_METADATA).read_text() == "version: 0\ntopic_id: o6SUNMDhQMm0zQNlvzEKLA"
    assert read_topic_id(tmp_path) == TOPIC_ID


@pytest.mark.parametrize(
    "text",
    ["", "version: 1\ntopic_id: o6SUNMDhQMm0zQNlvzEKLA", "version: 0\n", "topic_id", "version: 0\ntopic_id: o6SUNMDh"],
)
def test_invalid_partition_metadata_counts_as_missing(tmp_path: Path, text: str) -> None:
    (tmp_path / PARTITION_METADATA).write_text(text)
    assert read_topic_id(tmp_path) is None


def test_plain_name_has_topic_and_partition(tmp_path: Path) -> None:
    path = _directory(tmp_path, "a-b-12")
    assert PartitionDirectory.parse(path) == PartitionDirectory(path, "a-b", 12)
    foreign = _directory(tmp_path, "photos-2024", None)
    assert PartitionDirectory.parse(foreign) == PartitionDirectory(foreign, "photos", 2024)
    for name in ("photos", "photos-01", "backup-delete"):
        assert PartitionDirectory.parse(_directory(tmp_path, name)) is None


@pytest.mark.parametrize("unfinished", Unfinished)
def test_unfinished_name_keeps_partition_and_id(tmp_path: Path, unfinished: Unfinished) -> None:
    for topic in ("t", "t" * 249):
        name = unfinished_name(topic, 9999, TOPIC_ID, unfinished)
        assert len(name) <= 255
        path = _directory(tmp_path, name)
        parsed = PartitionDirectory.parse(path)
        assert parsed == PartitionDirectory(path, parsed.topic if parsed else "", 9999, TOPIC_ID, unfinished)


def test_name_alone_does_not_prove_the_owner(tmp_path: Path) -> None:
    name = unfinished_name("t", 0, TOPIC_ID, Unfinished.DELETION)
    path = _directory(tmp_path, name, bytes(16))
    assert PartitionDirectory.parse(path) is None
    (path / PARTITION_METADATA).unlink()
    assert PartitionDirectory.parse(path) is not None  # empty: the creation or removal was interrupted
    (path / "notes.txt").touch()
    assert PartitionDirectory.parse(path) is None


def test_only_log_files_are_removed(tmp_path: Path) -> None:
    path = _directory(tmp_path, "t-0")
    own = ["0" * 20 + suffix for suffix in (".log", ".index", ".timeindex", ".snapshot", ".log.deleted", ".log.swap")]
    for name in [*own, "offset-checkpoint", "offset-checkpoint.tmp", "notes.log", "1.log"]:
        (path / name).touch()
    (path / ("1" * 20 + ".log")).mkdir()
    assert remove_partition_directory(path) == ["1.log", "1" * 20 + ".log", "notes.log"]
    assert sorted(file.name for file in path.iterdir()) == ["1.log", "1" * 20 + ".log", "notes.log", PARTITION_METADATA]
    (path / "notes.log").unlink()
    (path / "1.log").unlink()
    (path / ("1" * 20 + ".log")).rmdir()
    assert remove_partition_directory(path) == []
    assert not path.exists()
