"""The batches of a fetch response that a consumer reads, and its position after them."""

from collections.abc import Sequence

import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records.arrow import read_arrow
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.fetched import NO_LIMIT, FetchedBatches, iter_records
from slackwater.wire.records.record import ControlType, Record, encode_batch
from tests.wire.records.transaction_markers import end_transaction_marker

ALICE, BOB = 1, 2


def plain(base_offset: int, count: int = 3, codec: Codec = Codec.NONE) -> bytes:
    values = [Record(None, b"plain %d" % (base_offset + number)) for number in range(count)]
    return bytes(encode_batch(values, base_offset=base_offset, codec=codec))


def transactional(base_offset: int, producer_id: int, count: int = 2) -> bytes:
    values = [Record(None, b"of %d, %d" % (producer_id, base_offset + number)) for number in range(count)]
    return bytes(encode_batch(values, base_offset=base_offset, transactional=True, producer_id=producer_id))


def end_marker(base_offset: int, producer_id: int, how: ControlType) -> bytes:
    marker = end_transaction_marker(how, 0, 1_700_000_000_000)
    return bytes(
        encode_batch([marker], base_offset=base_offset, control=True, transactional=True, producer_id=producer_id)
    )


def offsets(
    data: bytes,
    from_offset: int = 0,
    until_offset: int = NO_LIMIT,
    aborted: Sequence[tuple[int, int]] | None = None,
) -> list[int]:
    """The offsets of the records that are read, checked against Arrow."""
    offsets_read = [record.offset for record in iter_records(data, from_offset, until_offset, aborted=aborted)]
    table = read_arrow(data, from_offset, until_offset, aborted=aborted).table
    assert table["offset"].to_pylist() == offsets_read
    return offsets_read


def next_offset(
    data: bytes, from_offset: int = 0, until_offset: int = NO_LIMIT, aborted: Sequence[tuple[int, int]] | None = None
) -> int:
    fetched = FetchedBatches(data, from_offset, until_offset, aborted=aborted)
    for _ in fetched:
        pass
    assert read_arrow(data, from_offset, until_offset, aborted=aborted).next_offset == fetched.next_offset
    return fetched.next_offset


@pytest.mark.parametrize("codec", list(Codec))
def test_records_outside_the_offsets_are_skipped(codec: Codec) -> None:
    data = plain(10, codec=codec) + plain(13, codec=codec) + plain(16, codec=codec)
    assert offsets(data) == [*range(10, 19)]
    assert offsets(data, 11) == [*range(11, 19)]
    assert offsets(data, 14, 17) == [14, 15, 16]
    assert offsets(data, 14, 15) == [14]
    assert offsets(data, 13, 13) == []
    assert offsets(data, 19) == []
    assert offsets(data, until_offset=10) == []


def test_next_offset() -> None:
    data = plain(10) + plain(13)
    assert next_offset(data) == 16
    assert next_offset(data, 12) == 16
    assert next_offset(data, 12, 14) == 14
    assert next_offset(data, 12, 13) == 13
    assert next_offset(data, 20) == 20
    assert next_offset(b"", 7) == 7


def test_truncated_batch_is_ignored() -> None:
    data = plain(10) + plain(13)[:70]
    assert offsets(data) == [10, 11, 12]
    result = read_arrow(data)
    assert (result.next_offset, result.trailing_bytes) == (13, 70)
    assert read_arrow(plain(10) + plain(13), until_offset=13).trailing_bytes == 0


def test_position_moves_past_empty_batch() -> None:
    data = plain(10) + bytes(encode_batch([], base_offset=13)) + plain(14)
    assert offsets(data) == [10, 11, 12, 14, 15, 16]
    assert next_offset(bytes(encode_batch([], base_offset=13)), 13) == 14


def test_control_batches_are_skipped() -> None:
    data = transactional(0, ALICE) + end_marker(2, ALICE, ControlType.COMMIT)
    assert offsets(data) == offsets(data, aborted=[]) == [0, 1]
    assert next_offset(data) == next_offset(data, aborted=[]) == 3


def test_aborted_transaction_is_skipped_until_its_marker() -> None:
    data = (
        transactional(0, ALICE)
        + plain(2, 1)
        + transactional(3, BOB)
        + transactional(5, ALICE, 1)
        + end_marker(6, ALICE, ControlType.ABORT)
        + end_marker(7, BOB, ControlType.COMMIT)
        + transactional(8, ALICE, 1)
        + end_marker(9, ALICE, ControlType.COMMIT)
    )
    assert offsets(data) == [0, 1, 2, 3, 4, 5, 8]
    assert offsets(data, aborted=[(ALICE, 0)]) == [2, 3, 4, 8]
    assert next_offset(data, aborted=[(ALICE, 0)]) == 10


def test_first_offset_identifies_aborted_transaction() -> None:
    data = (
        transactional(0, ALICE)
        + end_marker(2, ALICE, ControlType.COMMIT)
        + transactional(3, ALICE)
        + end_marker(5, ALICE, ControlType.ABORT)
        + transactional(6, ALICE)
        + end_marker(8, ALICE, ControlType.ABORT)
        + transactional(9, BOB)
    )
    assert offsets(data, aborted=[(ALICE, 6), (ALICE, 3)]) == [0, 1, 9, 10]


def test_aborted_transaction_started_before_response() -> None:
    data = transactional(100, ALICE) + end_marker(102, ALICE, ControlType.ABORT) + plain(103)
    assert offsets(data, 101, aborted=[(ALICE, 3)]) == [103, 104, 105]


def test_idempotent_batches_are_never_aborted() -> None:
    data = bytes(encode_batch([Record(None, b"x")], producer_id=ALICE, base_sequence=0))
    assert offsets(data, aborted=[(ALICE, 0)]) == [0]


def test_checksums_are_optional() -> None:
    data = bytearray(plain(10))
    data[-2] ^= 1
    with pytest.raises(WireError, match="offset 10: CRC mismatch"):
        list(iter_records(data))
    assert [record.offset for record in iter_records(data, check_crcs=False)] == [10, 11, 12]
    assert read_arrow(data, check_crcs=False).table.num_rows == 3


def test_corrupt_batch_after_the_end_is_ignored() -> None:
    assert offsets(plain(10) + bytes(plain(13))[:-1] + b"\xff", until_offset=13) == [10, 11, 12]
