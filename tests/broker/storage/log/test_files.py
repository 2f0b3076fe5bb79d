"""Tests of file names and writes."""

import os
from pathlib import Path

import pytest

from slackwater.broker.storage.log import files


def test_file_names_have_twenty_digits() -> None:
    assert files.file_name(42, files.LOG) == "00000000000000000042.log"


def test_files_are_sorted_by_offset(tmp_path: Path) -> None:
    for offset in (30, 4, 200):
        (tmp_path / files.file_name(offset, files.LOG)).touch()
    (tmp_path / files.file_name(4, files.LOG + files.SWAP)).touch()
    assert list(files.with_suffix(tmp_path, files.LOG)) == [4, 30, 200]


def test_partial_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: real(fd, [bytes(buffers[0][:3])], at))
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    files.write_at(fd, [b"hello ", b"", b"world"], 2)
    assert os.pread(fd, 100, 2) == b"hello world"
    os.close(fd)


def test_many_buffers_need_several_writes(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    files.write_at(fd, [b"%04d" % number for number in range(2500)], 0)
    assert os.pread(fd, 20_000, 0) == b"".join(b"%04d" % number for number in range(2500))
    os.close(fd)


@pytest.mark.parametrize("sync", [False, True])
def test_file_is_replaced_atomically(tmp_path: Path, sync: bool) -> None:
    files.replace_file(tmp_path / "file", b"old", sync=sync)
    files.replace_file(tmp_path / "file", b"new", sync=sync)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"new"
