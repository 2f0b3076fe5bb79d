"""Tests of the data directory of a broker."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.broker.storage.directory import LOCK, META, DataDirectory
from slackwater.broker.storage.log.files import with_checksum
from slackwater.group.errors import UsageError


def test_directory_keeps_its_cluster_id(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data"
    DataDirectory.open(path, "first", 1).close(clean=True)
    text = "#\ncluster.id=first\nnode.id=1\nversion=1\nslackwater.format=1\n"
    assert (path / META).read_text() == with_checksum(text)
    again = DataDirectory.open(path, "second", 1)
    assert (again.cluster_id, again.node_id, again.clean_shutdown) == ("first", 1, True)
    again.close(clean=False)
    assert not DataDirectory.open(path, "second", 1).clean_shutdown


def test_file_without_checksum_gets_one(tmp_path: Path) -> None:
    text = "#\ncluster.id=first\nnode.id=1\nversion=1\nslackwater.format=1\n"
    (tmp_path / META).write_text(text)
    directory = DataDirectory.open(tmp_path, "second", 1)
    assert directory.cluster_id == "first"
    assert (tmp_path / META).read_text() == with_checksum(text)
    directory.close(clean=False)


def test_every_bit_flip_in_the_values_is_refused(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path, "first", 1).close(clean=True)
    data = (tmp_path / META).read_bytes()
    for bit in range(8 * data.index(b"crc32c")):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / META).write_bytes(damaged)
        with pytest.raises(UsageError, match=r"meta\.properties is damaged: its checksum is wrong\. Restore it"):
            DataDirectory.open(tmp_path, "second", 1)


def test_full_disk_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mkdir(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(UsageError, match=r"No space left on device\. Free some space, or use a directory on another"):
        DataDirectory.open(tmp_path / "data", "c", 1)


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


OLD_META = "#\ncluster.id=c\nnode.id=1\nversion=1\n"
KAFKA_META = (
    "#\n#Wed Nov 18 11:23:56 UTC 2026\nnode.id=1\ndirectory.id=tF0fEcpictujFnly0zhjIg\nversion=1\ncluster.id=c\n"
)


def _tree(path: Path) -> dict[str, bytes | None]:
    files = sorted(path.rglob("*"))
    return {str(file.relative_to(path)): file.read_bytes() if file.is_file() else None for file in files}


def test_foreign_directory_is_refused_and_unchanged(tmp_path: Path) -> None:
    for name in ("photos-2024", "thesis-1", "backup-delete", "empty-0"):
        (tmp_path / name).mkdir()
    (tmp_path / "thesis-1" / "chapter.tex").write_text("text")
    before = _tree(tmp_path)
    with pytest.raises(
        UsageError,
        match=r"was not created by Slackwater: it contains 'backup-delete', 'empty-0', 'photos-2024' and 1 more, "
        r"but no meta\.properties\. Use a new or empty directory",
    ):
        DataDirectory.open(tmp_path, "c", 1)
    assert _tree(tmp_path) == before


@pytest.mark.parametrize("text", [KAFKA_META, OLD_META + "directory.id=x\n"])
def test_kafka_directory_is_refused_and_unchanged(tmp_path: Path, text: str) -> None:
    (tmp_path / META).write_text(text)
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00000000000000000000.log").write_bytes(b"records")
    before = _tree(tmp_path)
    with pytest.raises(UsageError, match=r"has no slackwater\.format, as in a directory of Apache Kafka\. Use a new"):
        DataDirectory.open(tmp_path, "c", 1)
    assert _tree(tmp_path) == before


def test_directory_of_earlier_version_is_upgraded(tmp_path: Path) -> None:
    (tmp_path / META).write_text(OLD_META)
    (tmp_path / "topics.json").write_text("[]")
    directory = DataDirectory.open(tmp_path, "other", 1)
    assert directory.cluster_id == "c"
    directory.close(clean=True)
    assert (tmp_path / META).read_text() == with_checksum(OLD_META + "slackwater.format=1\n")


def test_directory_of_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / META).write_text(OLD_META + "slackwater.format=2\n")
    with pytest.raises(UsageError, match=r"has slackwater\.format=2; this version of Slackwater supports .*=1"):
        DataDirectory.open(tmp_path, "c", 1)


def test_interrupted_first_start_is_repeated(tmp_path: Path) -> None:
    for name in (LOCK, META + ".tmp"):
        (tmp_path / name).touch()
    (tmp_path / "lost+found").mkdir()
    DataDirectory.open(tmp_path, "c", 1).close(clean=True)


def test_removed_lock_file_lets_no_other_broker_in(tmp_path: Path) -> None:
    first = DataDirectory.open(tmp_path, "c", 1)
    assert first.restore_lock() is None
    (tmp_path / LOCK).unlink()
    with pytest.raises(UsageError, match="is in use by another broker"):
        DataDirectory.open(tmp_path, "c", 1)
    assert "was removed while the broker was running" in (first.restore_lock() or "")
    assert first.restore_lock() is None
    (tmp_path / LOCK).rename(tmp_path / "moved")
    (tmp_path / LOCK).touch()
    assert "was replaced while the broker was running" in (first.restore_lock() or "")
    first.close(clean=True)
    DataDirectory.open(tmp_path, "c", 1).close(clean=True)


def test_lock_file_of_another_broker_is_reported(tmp_path: Path) -> None:
    first = DataDirectory.open(tmp_path, "c", 1)
    (tmp_path / LOCK).unlink()
    with (tmp_path / LOCK).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # earlier versions do not lock the directory
        with pytest.raises(UsageError, match="is in use by another broker"):
            first.restore_lock()
    first.close(clean=False)


def test_unusable_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"Cannot use the data directory .*: it is a file"):
        DataDirectory.open(tmp_path / "file", "c", 1)
    (tmp_path / META).mkdir()
    with pytest.raises(UsageError, match=r"Cannot use the data directory .*: Is a directory"):
        DataDirectory.open(tmp_path, "c", 1)
