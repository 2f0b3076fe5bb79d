"""The codecs: round trips, framings of other clients, invalid data, and the size limit."""

import struct
from contextlib import suppress
from random import Random

import cramjam
import pytest

from slackwater.wire.errors import WireError
from slackwater.wire.records.compression import Codec, compress, decompress, decompress_into

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
DATA = {
    "empty": b"",
    "one byte": b"x",
    "one block": b"hello world " * 1000,
    "many blocks": b"hello world " * 50_000,
    "incompressible": Random(1).randbytes(200_000),
}


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("name", DATA)
def test_round_trip(codec: Codec, name: str) -> None:
    compressed = compress(codec, DATA[name])
    assert bytes(decompress(codec, compressed)) == DATA[name]
    assert bytes(decompress(codec, memoryview(bytearray(compressed)))) == DATA[name]
    output = memoryview(bytearray(len(DATA[name]) + 10))
    assert decompress_into(codec, compressed, output) == len(DATA[name])
    assert output[:-10] == DATA[name]
    if DATA[name]:
        assert decompress_into(codec, compressed, output[: len(DATA[name]) - 1]) is None


def test_no_codec_returns_same_object() -> None:
    data = bytearray(b"abc")
    assert decompress(Codec.NONE, data) is data


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_higher_level_is_not_larger(codec: Codec) -> None:
    data = Random(1).randbytes(300) * 40 + bytes(range(256)) * 30
    assert len(compress(codec, data, 9)) <= len(compress(codec, data, 1))


def test_lz4_frame_has_independent_64_kib_blocks() -> None:
    compressed = compress(Codec.LZ4, DATA["incompressible"])
    assert compressed[:7].hex() == "04224d18604082"
    assert struct.unpack_from("<I", compressed, 7)[0] == 65536 | 1 << 31
    assert compressed[-4:] == bytes(4)


def test_lz4_frame_with_linked_blocks() -> None:
    linked = bytes(cramjam.lz4.compress(DATA["many blocks"]))
    assert not linked[4] & 0b100000
    assert bytes(decompress(Codec.LZ4, linked)) == DATA["many blocks"]


@pytest.mark.parametrize(
    ("sizes", "block_bytes"), [("40 82", 1 << 16), ("50 fb", 1 << 18), ("60 51", 1 << 20), ("70 73", 1 << 22)]
)
def test_lz4_block_sizes(sizes: str, block_bytes: int) -> None:
    data = bytes(block_bytes) + b"the rest"
    frame = bytes.fromhex("04224d18 60" + sizes)
    for block in (data[:block_bytes], data[block_bytes:]):
        compressed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        frame += struct.pack("<I", len(compressed)) + compressed
    frame += bytes(4)
    assert bytes(decompress(Codec.LZ4, frame)) == bytes(cramjam.lz4.decompress(frame)) == data
    assert bytes(decompress(Codec.LZ4, frame + frame)) == data + data


def test_too_large_lz4_block_is_rejected() -> None:
    compressed = bytes(cramjam.lz4.compress_block(bytes(70_000), store_size=False))
    for size, block in ((len(compressed), compressed), (70_000 | 1 << 31, bytes(70_000))):
        frame = bytes.fromhex("04224d18604082") + struct.pack("<I", size) + block + bytes(4)
        with pytest.raises(WireError, match=r"Cannot decompress .* of lz4"):
            decompress(Codec.LZ4, frame)


@pytest.mark.parametrize("size", [0, 3, 6, 7, 9, 11, 30, -8, -4, -1])
def test_truncated_lz4_frame_is_rejected(size: int) -> None:
    with pytest.raises(WireError, match=r"Cannot decompress .* of lz4"):
        decompress(Codec.LZ4, compress(Codec.LZ4, DATA["incompressible"])[:size])


def test_snappy_with_and_without_xerial_framing() -> None:
    compressed = compress(Codec.SNAPPY, DATA["many blocks"])
    assert compressed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    bare = bytes(cramjam.snappy.compress_raw(DATA["many blocks"]))
    assert bytes(decompress(Codec.SNAPPY, bare)) == DATA["many blocks"]


@pytest.mark.parametrize("cut", [1, 3, 5, 100])
def test_truncated_snappy_block_is_rejected(cut: int) -> None:
    compressed = compress(Codec.SNAPPY, DATA["one block"])
    with pytest.raises(WireError, match="the block at byte 16 is incomplete"):
        decompress(Codec.SNAPPY, compressed[:-cut])
    with pytest.raises(WireError, match=f"the block at byte {len(compressed)} is incomplete"):
        decompress(Codec.SNAPPY, compressed + bytes(3))


def test_negative_snappy_block_length_is_rejected() -> None:
    with pytest.raises(WireError, match="the block at byte 16 is incomplete"):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"") + b"\xff\xff\xff\xff")


@pytest.mark.parametrize("codec", COMPRESSING)
def test_invalid_data_raises_wire_error(codec: Codec) -> None:
    random = Random(2)
    compressed = compress(codec, DATA["one block"])
    for _ in range(300):
        corrupt = bytearray(compressed)
        corrupt[random.randrange(len(corrupt))] = random.randrange(256)
        del corrupt[random.choice((len(corrupt), random.randrange(len(corrupt)))) :]
        with suppress(WireError):
            decompress(codec, corrupt, 1 << 20)
    with pytest.raises(WireError, match="Cannot decompress 5 bytes of "):
        decompress(codec, b"\xff\xff\xff\xff\xff")


@pytest.mark.parametrize("codec", COMPRESSING)
def test_output_is_limited(codec: Codec) -> None:
    bomb = compress(codec, bytes(10_000_000))
    with pytest.raises(WireError, match=r"more than 5000000 bytes, the limit"):
        decompress(codec, bomb, 5_000_000)
    assert len(decompress(codec, bomb, 10_000_000)) == 10_000_000
