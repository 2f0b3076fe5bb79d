"""Tests of reading a damaged log: every valid batch is returned, everything else is reported."""

import random
from pathlib import Path

from slackwater.broker.storage.log.files import LOG, with_suffix
from slackwater.broker.storage.log.partition_log import PartitionLog
from slackwater.broker.storage.log.salvage import LostRange, read_valid_batches
from slackwater.wire.records.batch import RecordBatch

from .batches import fill, opened, reopen


def _damage(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def _read(log: PartitionLog) -> tuple[list[int], list[LostRange]]:
    offsets: list[int] = []
    lost: list[LostRange] = []
    for item in read_valid_batches(log):
        if isinstance(item, RecordBatch):
            offsets += range(item.base_offset, item.next_offset)
        else:
            lost.append(item)
    return offsets, lost


def test_undamaged_log_is_read_completely(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 50)
    assert _read(log) == (list(range(50)), [])
    log.close()


def test_damaged_batches_are_reported_with_their_offsets(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 50)  # 20 batches of 100 bytes per segment
    first, second, _ = with_suffix(tmp_path, LOG).values()
    _damage(first, 300 + 8, b"\xff\xff\xff\xf4")  # length -12
    _damage(first, 800 + 8, bytes(4))  # length 0
    _damage(first, 1300 + 8, b"\x7f\xff\xff\xff")  # a huge length
    _damage(first, 1999, b"\x55")  # the content of the last batch
    _damage(second, 0, bytes(2000))
    log = reopen(log, clean=True)
    offsets, lost = _read(log)
    assert offsets == [at for at in range(50) if at not in (3, 8, 13, 19) and not 20 <= at < 40]
    assert [(each.path, each.position, each.end, each.first_offset, each.last_offset) for each in lost] == [
        (first, 300, 400, 3, 3),
        (first, 800, 900, 8, 8),
        (first, 1300, 1400, 13, 13),
        (first, 1900, 2000, 19, 19),
        (second, 0, 2000, 20, 39),
    ]
    assert str(lost[0]) == (
        f"bytes 300 to 399 of {first}, offsets 3 to 3: no record batch starts there (magic 2, length -12)"
    )
    log.close()


def test_random_damage_is_survived(tmp_path: Path) -> None:
    rng = random.Random(5)
    log = opened(tmp_path)
    fill(log, 50)
    path = with_suffix(tmp_path, LOG)[0]
    original = path.read_bytes()
    for _ in range(200):
        path.write_bytes(original)
        at = rng.randrange(len(original))
        _damage(path, at, rng.choice((rng.randbytes(rng.randint(1, 300)), b"\2" * 200, bytes(50)))[: 2000 - at])
        offsets, lost = _read(log)
        intact = {
            number for number in range(20) if path.read_bytes()[number * 100 :][:100] == original[number * 100 :][:100]
        }
        assert set(offsets) >= intact | set(range(20, 50))
        assert offsets == sorted(set(offsets))
        covered = sum(each.end - each.position for each in lost)
        assert covered == 100 * (50 - len(offsets))
    log.close()
