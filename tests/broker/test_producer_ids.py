"""Producer ids across restarts and kills."""

from pathlib import Path

import pytest

from slackwater.broker.storage.producer_ids import BLOCK, FILE, ProducerIds
from slackwater.group.errors import UsageError


def test_ids_count_up_from_0(tmp_path: Path) -> None:
    ids = ProducerIds(tmp_path)
    assert [ids.take() for _ in range(BLOCK + 5)] == list(range(BLOCK + 5))


def test_no_id_is_given_twice_whenever_the_broker_is_killed(tmp_path: Path) -> None:
    given: list[int] = []
    for taken in (1, 0, BLOCK - 1, BLOCK, BLOCK + 1, 3):
        ids = ProducerIds(tmp_path)  # the one before was not told that it is over
        given += [ids.take() for _ in range(taken)]
    assert len(set(given)) == len(given)
    assert given == sorted(given)


def test_the_block_is_on_disk_before_its_first_id_is_given(tmp_path: Path) -> None:
    ids = ProducerIds(tmp_path)
    assert not (tmp_path / FILE).exists()
    assert ids.take() == 0
    assert (tmp_path / FILE).read_text() == f"{BLOCK}\n"


def test_a_block_that_cannot_be_reserved_gives_no_id(tmp_path: Path) -> None:
    ids = ProducerIds(tmp_path / "gone")
    with pytest.raises(OSError, match="No such file"):
        ids.take()
    (tmp_path / "gone").mkdir()
    assert ids.take() == 0


@pytest.mark.parametrize("text", ["", "x", "-5", "1\n2"])
def test_a_file_that_holds_no_number_refuses_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(UsageError, match="does not hold the next producer id"):
        ProducerIds(tmp_path)
