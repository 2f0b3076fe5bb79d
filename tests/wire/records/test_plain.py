"""The quick way into a response of plain batches: the same records as the thorough way, or none at all."""

from random import Random

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records.arrow import chunk_batch, read_arrow
from slackwater.wire.records.compression import Codec
from slackwater.wire.records.fetched import NO_LIMIT
from slackwater.wire.records.plain import plain_chunk
from slackwater.wire.records.record import ControlType, Record, encode_batch, end_transaction_marker
from slackwater.wire.records.scan import scan

from .random_records import random_records

SEEDS = range(60)


def plain(seed: int, batches: int = 6) -> tuple[bytearray, int]:
    """Plain batches by rising offset, with both kinds of timestamps; and the offset behind them."""
    random = Random(seed)
    data, at = bytearray(), 0
    for _ in range(batches):
        given = random_records(random)
        first = given[0].offset
        moved = [one._replace(offset=one.offset - first + at, timestamp=min(one.timestamp, 2**40)) for one in given]
        stamp = random.choice((None, 1_700_000_000_000))
        data += encode_batch(moved, base_offset=at, log_append_time_ms=stamp)
        at = moved[-1].offset + 1
    return data, at


def quick(data: bytes | bytearray, from_offset: int = 0, until_offset: int = NO_LIMIT) -> "pa.Table | None":
    """The records of the quick way; None if it is not to be had."""
    chunk = plain_chunk(data, from_offset, until_offset, check_crcs=True, committed_only=False)
    if chunk is None:
        return None
    batch = chunk_batch(chunk, from_offset, until_offset, headers=True)
    thorough = read_arrow(data, from_offset, until_offset, headers=True).table
    return thorough.slice(0, 0) if batch is None else pa.Table.from_batches([batch])


@pytest.mark.parametrize("seed", SEEDS)
def test_both_ways_give_the_same_records(seed: int) -> None:
    data, end = plain(seed)
    random = Random(seed)
    for _ in range(5):
        from_offset, until_offset = sorted(random.sample(range(end + 1), 2)) if end else (0, 1)
        thorough = read_arrow(data, from_offset, until_offset, headers=True).table
        found = quick(data, from_offset, until_offset)
        assert found is None or found.equals(thorough)
        assert found is not None or not thorough.num_rows


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_that_the_response_has_cut_off_is_left_out(seed: int) -> None:
    data, _ = plain(seed)
    cut = bytes(data[: Random(seed).randrange(len(data))])
    thorough = read_arrow(cut, headers=True).table
    found = quick(cut)
    assert found is None or found.equals(thorough)
    assert found is not None or not thorough.num_rows


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_response_is_left_to_the_thorough_way(seed: int) -> None:
    data, _ = plain(seed)
    at = Random(seed).randrange(len(data))
    data[at] ^= 1 << Random(seed).randrange(8)
    try:
        thorough = read_arrow(data, headers=True).table
    except WireError:
        assert quick(data) is None
    else:  # a leader epoch or a base offset, which no checksum covers, or a length that ends the response early
        found = quick(data)
        assert found is None or found.equals(thorough)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_packed_batches_are_left_to_the_thorough_way(codec: Codec) -> None:
    data, end = plain(1)
    given = random_records(Random(2))
    moved = [one._replace(offset=one.offset - given[0].offset + end) for one in given]
    assert quick(data + encode_batch(moved, base_offset=end, codec=codec)) is None


def test_markers_and_transactions_are_left_to_the_thorough_way() -> None:
    data, end = plain(1)
    marker = end_transaction_marker(ControlType.ABORT, 0, 5)._replace(offset=end)
    control = encode_batch([marker], base_offset=end, transactional=True, control=True, producer_id=7)
    assert quick(data + control) is None
    given = random_records(Random(2))
    moved = [one._replace(offset=one.offset - given[0].offset + end) for one in given]
    both = data + encode_batch(moved, base_offset=end, transactional=True, producer_id=7)
    assert quick(both) is not None
    assert plain_chunk(both, 0, NO_LIMIT, check_crcs=True, committed_only=True) is None


def test_a_fault_names_the_batch_it_is_in() -> None:
    data, _ = plain(3)
    size = len(data)
    data += encode_batch([Record(None, b"value", (), 5)], base_offset=2**62)
    data[size + 61] ^= 0x7F  # the first record's length
    chunk = plain_chunk(data, 0, NO_LIMIT, check_crcs=False, committed_only=False)
    assert chunk is not None
    with pytest.raises(WireError, match=f"Record batch at offset {2**62}"):
        scan(chunk)


def test_nothing_is_left_to_the_thorough_way() -> None:
    assert quick(b"") is None
    assert quick(bytes(61)) is None
