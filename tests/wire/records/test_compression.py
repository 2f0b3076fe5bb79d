"""The codecs: round trips, the framings other clients write, nonsense, and bombs."""

import struct
from contextlib import suppress
from random import Random

import cramjam
import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records.compression import Codec, compress, decompress, decompress_into

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
DATA = {
    "empty": b"",
    "one byte": b"x",
    "one block": b"hello world " * 1000,
    "many blocks": b"hello world " * 50_000,
    "incompressible": Random(1).randbytes(200_000),
}


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("name", DATA)
def test_what_is_packed_is_unpacked(codec: Codec, name: str) -> None:
    packed = compress(codec, DATA[name])
    assert bytes(decompress(codec, packed)) == DATA[name]
    assert bytes(decompress(codec, memoryview(bytearray(packed)))) == DATA[name]
    output = memoryview(bytearray(len(DATA[name]) + 10))
    assert decompress_into(codec, packed, output) == len(DATA[name])
    assert output[:-10] == DATA[name]
    if DATA[name]:
        assert decompress_into(codec, packed, output[: len(DATA[name]) - 1]) is None


def test_what_is_not_packed_is_handed_back_as_it_is() -> None:
    data = bytearray(b"abc")
    assert decompress(Codec.NONE, data) is data


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_higher_level_packs_no_worse(codec: Codec) -> None:
    data = Random(1).randbytes(300) * 40 + bytes(range(256)) * 30
    assert len(compress(codec, data, 9)) <= len(compress(codec, data, 1))


def test_an_lz4_frame_has_independent_blocks_of_64_kib_as_kafka_demands() -> None:
    packed = compress(Codec.LZ4, DATA["incompressible"])
    assert packed[:7].hex() == "04224d18604082"
    assert struct.unpack_from("<I", packed, 7)[0] == 65536 | 1 << 31
    assert packed[-4:] == bytes(4)


def test_lz4_frames_of_other_writers_are_read() -> None:
    linked = bytes(cramjam.lz4.compress(DATA["many blocks"]))
    assert not linked[4] & 0b100000
    assert bytes(decompress(Codec.LZ4, linked)) == DATA["many blocks"]


@pytest.mark.parametrize(
    ("sizes", "most"), [("40 82", 1 << 16), ("50 fb", 1 << 18), ("60 51", 1 << 20), ("70 73", 1 << 22)]
)
def test_lz4_blocks_of_every_size_are_read(sizes: str, most: int) -> None:
    data = bytes(most) + b"the rest"
    frame = bytes.fromhex("04224d18 60" + sizes)
    for block in (data[:most], data[most:]):
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        frame += struct.pack("<I", len(packed)) + packed
    frame += bytes(4)
    assert bytes(decompress(Codec.LZ4, frame)) == bytes(cramjam.lz4.decompress(frame)) == data
    assert bytes(decompress(Codec.LZ4, frame + frame)) == data + data


def test_an_lz4_block_that_is_larger_than_its_frame_allows_is_refused() -> None:
    packed = bytes(cramjam.lz4.compress_block(bytes(70_000), store_size=False))
    for size, block in ((len(packed), packed), (70_000 | 1 << 31, bytes(70_000))):
        frame = bytes.fromhex("04224d18604082") + struct.pack("<I", size) + block + bytes(4)
        with pytest.raises(WireError, match="of lz4 cannot be unpacked"):
            decompress(Codec.LZ4, frame)


@pytest.mark.parametrize("kept", [0, 3, 6, 7, 9, 11, 30, -8, -4, -1])
def test_an_lz4_frame_that_is_cut_off_is_refused(kept: int) -> None:
    with pytest.raises(WireError, match="of lz4 cannot be unpacked"):
        decompress(Codec.LZ4, compress(Codec.LZ4, DATA["incompressible"])[:kept])


def test_snappy_travels_in_xerials_framing_and_is_also_read_without() -> None:
    packed = compress(Codec.SNAPPY, DATA["many blocks"])
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    bare = bytes(cramjam.snappy.compress_raw(DATA["many blocks"]))
    assert bytes(decompress(Codec.SNAPPY, bare)) == DATA["many blocks"]


@pytest.mark.parametrize("cut", [1, 3, 5, 100])
def test_a_snappy_block_that_is_cut_off_is_refused(cut: int) -> None:
    packed = compress(Codec.SNAPPY, DATA["one block"])
    with pytest.raises(WireError, match="the block at byte 16 is not whole"):
        decompress(Codec.SNAPPY, packed[:-cut])
    with pytest.raises(WireError, match=f"the block at byte {len(packed)} is not whole"):
        decompress(Codec.SNAPPY, packed + bytes(3))


def test_a_snappy_block_of_negative_length_is_refused() -> None:
    with pytest.raises(WireError, match="the block at byte 16 is not whole"):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"") + b"\xff\xff\xff\xff")


@pytest.mark.parametrize("codec", PACKED)
def test_nonsense_raises_a_sentence(codec: Codec) -> None:
    random = Random(2)
    packed = compress(codec, DATA["one block"])
    for _ in range(300):
        damaged = bytearray(packed)
        damaged[random.randrange(len(damaged))] = random.randrange(256)
        del damaged[random.choice((len(damaged), random.randrange(len(damaged)))) :]
        with suppress(WireError):
            decompress(codec, damaged, 1 << 20)
    with pytest.raises(WireError, match=r"5 bytes of .* cannot be unpacked"):
        decompress(codec, b"\xff\xff\xff\xff\xff")


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_not_unpacked_beyond_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(10_000_000))
    with pytest.raises(WireError, match=r"unpack to more than 5000000, the limit"):
        decompress(codec, bomb, 5_000_000)
    assert len(decompress(codec, bomb, 10_000_000)) == 10_000_000
