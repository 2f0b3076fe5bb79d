"""Tests of the checkpoint file."""

from pathlib import Path

import pytest

from slackwater.broker.storage.log.checkpoint import FILE, Checkpoint


def test_checkpoint_is_read_back(tmp_path: Path) -> None:
    checkpoint = Checkpoint(5, 70, 30, 90)
    checkpoint.write(tmp_path, sync=True)
    assert Checkpoint.read(tmp_path) == checkpoint
    assert (tmp_path / FILE).read_text() == (
        "1\n4\nlog-start-offset 5\nrecovery-point 70\ncleaner-offset 30\ngaps-up-to 90\ncrc32c 9f3eb2cb\n"
    )


@pytest.mark.parametrize(
    "text",
    ["", "1\n1\nlog-start-offset 5\n", "0\n2\nlog-start-offset 5\n", "0\n1\nfoo 5\n", "0\n1\nlog-start-offset -5\n"],
)
def test_unreadable_checkpoint_counts_as_missing(tmp_path: Path, text: str) -> None:
    assert Checkpoint.read(tmp_path) is None
    (tmp_path / FILE).write_text(text)
    assert Checkpoint.read(tmp_path) is None


def test_every_flipped_bit_is_detected(tmp_path: Path) -> None:
    Checkpoint(5, 70, 30, 90).write(tmp_path)
    data = (tmp_path / FILE).read_bytes()
    for at in range(len(data)):
        for bit in range(8):
            (tmp_path / FILE).write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
            assert Checkpoint.read(tmp_path) is None, (at, bit)


def test_checkpoint_of_earlier_version_is_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("0\n4\nlog-start-offset 5\nrecovery-point 70\ncleaner-offset 30\ngaps-up-to 90\n")
    assert Checkpoint.read(tmp_path) == Checkpoint(5, 70, 30, 90)


def test_checkpoint_is_limited_to_log() -> None:
    assert Checkpoint(5, 70, 30, 90).within(10, 20) == Checkpoint(10, 20, 20, 20)
    assert Checkpoint(50, 0, 0, 0).within(10, 20) == Checkpoint(20, 0, 0, 0)
