"""The generators of faults produce what they promise."""

import random
import struct
from collections.abc import Callable

import pytest

from slackwater.wire.records.batch import check_batch, iter_batches
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.record import Record, decode_records, encode_batch
from slackwater.wire.request_response import decode_request
from slackwater.wire.schema import Request
from tests.chaos.faults import FAULTS
from tests.chaos.faults.damage import (
    LOG_FILE,
    SMALL_FILE,
    Damage,
    append_garbage,
    possible_loss,
    stored_batches,
)
from tests.chaos.faults.requests import CODECS, all_arrays, array_frame, batch_of, records_payload, zeros_payload
from tests.chaos.run import select_faults


def log_file(batches: int = 20) -> bytes:
    """A log file with two records per batch."""
    records = [Record(None, b"x" * 40), Record(None, b"y" * 40)]
    return b"".join(encode_batch(records, base_offset=2 * number) for number in range(batches))


# --- arrays and bombs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "target-a"])
def test_array_frames_can_be_decoded_and_are_full(text: str) -> None:
    assert len(all_arrays()) > 200
    for message, version, path in all_arrays():
        frame = array_frame(message, version, path, 2_000, text)
        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        assert 1_500 < len(frame) < 2_100
        _, request = decode_request(frame[4:])
        assert isinstance(request, message)
        assert len(elements(request, path)) > 10


def elements(request: Request, path: tuple[str, ...]) -> list[object]:
    value: object = request
    for name in path:
        value = getattr(value[0] if isinstance(value, list) else value, name)
    assert isinstance(value, list)
    return value


@pytest.mark.parametrize("codec", CODECS)
def test_bombs_are_valid_batches(codec: Codec) -> None:
    for payload, count in ((zeros_payload(codec, 1_000_000), 1), (records_payload(codec, 300), 300)):
        (batch,) = iter_batches(batch_of(codec, payload, count, 5))
        check_batch(batch)
        records = list(decode_records(batch))
        assert [record.offset for record in records] == list(range(count))
        assert {record.timestamp for record in records} == {5}
    assert len(zeros_payload(codec, 1_000_000)) < 60_000


# --- damage -----------------------------------------------------------------------------------------------------------


def test_batches_of_a_log_file_are_found() -> None:
    batches = list(stored_batches(log_file() + b"torn"))
    assert [batch.base_offset for batch in batches] == list(range(0, 40, 2))
    assert sum(batch.size for batch in batches) == len(log_file())


def test_damage_touches_the_batches_it_overlaps() -> None:
    content = log_file()
    second, third = list(stored_batches(content))[1:3]
    loss = possible_loss(content, [range(third.position - 1, third.position + 1)])
    assert loss is not None
    assert loss.touched == [range(second.base_offset, 4), range(third.base_offset, 6)]
    assert loss.first_offset == 2


def test_added_bytes_may_cost_only_later_records() -> None:
    content = log_file()
    damage = append_garbage(content, random.Random(1))
    assert damage.content is not None
    assert damage.content.startswith(content)
    loss = possible_loss(content, damage.changed)
    assert loss is not None
    assert (loss.touched, loss.first_offset) == ([], 40)
    assert possible_loss(b"", []) is None


@pytest.mark.parametrize("change", dict.fromkeys(LOG_FILE + SMALL_FILE))
def test_damage_changes_only_the_bytes_it_names(change: Callable[[bytes, random.Random], Damage]) -> None:
    content = log_file()
    for seed in range(20):
        damage = change(content, random.Random(seed))
        damaged = damage.content or b""
        differing = {at for at, byte in enumerate(content) if damaged[at : at + 1] != bytes([byte])}
        assert all(any(at in part for part in damage.changed) for at in differing)


# --- table ------------------------------------------------------------------------------------------------------------


def test_faults_are_selected_by_name_and_family() -> None:
    assert [fault.name for fault in select_faults(["process.kill"], has_shim=True)] == ["process.kill"]
    clock = select_faults(["clock", "process.kill"], has_shim=True)
    assert [fault.name for fault in clock] == ["clock.restart", "clock.step", "process.kill"]
    assert len(select_faults([], has_shim=True)) == len(FAULTS)
    assert not [fault for fault in select_faults([], has_shim=False) if fault.needs_shim]
    with pytest.raises(ValueError, match=r"There is no fault disc\. The faults are: clock\.restart"):
        select_faults(["disc"], has_shim=True)
