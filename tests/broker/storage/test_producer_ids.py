"""Tests of producer ids across restarts and kills."""

from pathlib import Path

import pytest

from slackwater.broker.storage.log.files import with_checksum
from slackwater.broker.storage.producer_ids import BLOCK, FILE, ProducerIds
from slackwater.group.errors import UsageError


def test_ids_start_at_zero(tmp_path: Path) -> None:
    ids = ProducerIds(tmp_path)
    assert [ids.allocate() for _ in range(BLOCK + 5)] == list(range(BLOCK + 5))


def test_ids_are_unique_across_kills(tmp_path: Path) -> None:
    allocated: list[int] = []
    for count in (1, 0, BLOCK - 1, BLOCK, BLOCK + 1, 3):
        ids = ProducerIds(tmp_path)  # the previous one was killed
        allocated += [ids.allocate() for _ in range(count)]
    assert len(set(allocated)) == len(allocated)
    assert allocated == sorted(allocated)


def test_block_is_on_disk_before_its_first_id(tmp_path: Path) -> None:
    ids = ProducerIds(tmp_path)
    assert not (tmp_path / FILE).exists()
    assert ids.allocate() == 0
    assert (tmp_path / FILE).read_text() == with_checksum(f"{BLOCK}\n")


def test_file_of_an_earlier_version_has_no_checksum(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("7000\n")
    assert ProducerIds(tmp_path).allocate() == 7000


def test_every_bit_flip_prevents_the_start(tmp_path: Path) -> None:
    ProducerIds(tmp_path).allocate()
    data = (tmp_path / FILE).read_bytes()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / FILE).write_bytes(damaged)
        with pytest.raises(UsageError, match="does not contain the next producer id"):
            ProducerIds(tmp_path)


def test_failed_reservation_assigns_no_id(tmp_path: Path) -> None:
    ids = ProducerIds(tmp_path / "gone")
    with pytest.raises(OSError, match="No such file"):
        ids.allocate()
    (tmp_path / "gone").mkdir()
    assert ids.allocate() == 0


@pytest.mark.parametrize("text", ["", "x", "-5", "1\n2"])
def test_invalid_file_prevents_start(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(UsageError, match="does not contain the next producer id"):
        ProducerIds(tmp_path)
