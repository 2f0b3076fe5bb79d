"""The codecs of record batches: gzip, snappy, lz4 and zstd, in the framings Kafka's own clients read and write.

Rules kept here
- What is written here, the Java client reads, and the other way round.
- Unpacking raises `WireError` and nothing else, and never makes more than `limit` bytes: a megabyte of zstd can
  announce a terabyte.

Snappy travels in the framing of xerial's Java library: a header of 16 bytes, then blocks of up to 32 KiB, each with its
length before it. Some clients write one bare block instead; as in Java, what does not begin with the header is taken
for that. An lz4 frame is put together here, because Kafka reads only frames of independent blocks, and the library
writes linked ones.
"""

import struct
from enum import IntEnum
from typing import Final, TypeAlias

from slackwater.wire.errors import WireError

Buffer: TypeAlias = bytes | bytearray | memoryview

DEFAULT_LIMIT: Final = 1 << 30
# What a batch of ordinary records unpacks to is tried first; memory that is not written to costs next to nothing.
_FIRST_ROOM: Final = 1 << 16
_FIRST_RATIO: Final = 8
_ROOM_GROWS_BY: Final = 8
# What cramjam says of an output that is full; every other message means that the input is wrong.
_OUTPUT_FULL: Final = "failed to write whole buffer"

_INT32: Final = struct.Struct(">i")
_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC_BYTES: Final = 8
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

_LZ4_SIZE: Final = struct.Struct("<I")
# Magic number, flags (version 1, independent blocks, no checksums), blocks of up to 64 KiB, and the checksum of these
# two bytes, which is the same for ever.
_LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK_BYTES: Final = 64 * 1024
# The same frame with each size of blocks there is.
_LZ4_BLOCK_SIZES: Final = {
    _LZ4_HEADER: _LZ4_BLOCK_BYTES,
    bytes.fromhex("04224d18 60 50 fb"): 4 * _LZ4_BLOCK_BYTES,
    bytes.fromhex("04224d18 60 60 51"): 16 * _LZ4_BLOCK_BYTES,
    bytes.fromhex("04224d18 60 70 73"): 64 * _LZ4_BLOCK_BYTES,
}
_LZ4_STORED: Final = 1 << 31
_LZ4_END: Final = bytes(4)


class Codec(IntEnum):
    """How the records of a batch are packed; the number stands in the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Pack `data`; gzip and zstd take a level."""
    import cramjam

    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=level))
        case Codec.SNAPPY:
            return _pack_snappy(data)
        case Codec.LZ4:
            return _pack_lz4(data)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=level))


def decompress(codec: Codec, data: Buffer, limit: int = DEFAULT_LIMIT) -> Buffer:
    """Unpack `data` to at most `limit` bytes; what is not packed is handed back as it is."""
    import numpy as np

    if codec is Codec.NONE:
        return data
    room = min(limit, max(_FIRST_ROOM, _FIRST_RATIO * len(data)))
    while True:
        output = np.empty(room, np.uint8).data
        size = decompress_into(codec, data, output)
        if size is not None:
            return output[:size]
        if room >= limit:
            raise WireError(f"{len(data)} bytes of {codec.name.lower()} unpack to more than {limit}, the limit.")
        room = min(limit, room * _ROOM_GROWS_BY)


def decompress_into(codec: Codec, data: Buffer, output: memoryview) -> int | None:
    """Unpack `data` to the beginning of `output`: the number of bytes, or None if there is not enough room."""
    import cramjam

    try:
        match codec:
            case Codec.NONE:
                if len(data) > len(output):
                    return None
                output[: len(data)] = data
                return len(data)
            case Codec.GZIP:
                return cramjam.gzip.decompress_into(data, output)
            case Codec.SNAPPY:
                return _unpack_snappy(data, output)
            case Codec.LZ4:
                return _unpack_lz4(data, output)
            case Codec.ZSTD:
                return cramjam.zstd.decompress_into(data, output)
    except cramjam.DecompressionError as error:
        if _OUTPUT_FULL in str(error):
            return None
        raise WireError(f"{len(data)} bytes of {codec.name.lower()} cannot be unpacked: {error}.") from error


def _unpack_snappy(data: Buffer, output: memoryview) -> int | None:
    """Unpack xerial's framing, or one bare block."""
    import cramjam

    at = 0
    for block in _xerial_blocks(memoryview(data)):
        end = at + cramjam.snappy.decompress_raw_len(block)
        if end > len(output):
            return None
        cramjam.snappy.decompress_raw_into(block, output[at:end])
        at = end
    return at


def _unpack_lz4(data: Buffer, output: memoryview) -> int | None:
    """Unpack the frames that Java, librdkafka and we write block by block, and whatever else there is as a frame.

    Block by block takes half the time. What does not work out that way is left to the library's decoder of frames,
    which knows whether the bytes are damaged or the room is too small.
    """
    import cramjam

    view = memoryview(data)
    most = _LZ4_BLOCK_SIZES.get(bytes(view[: len(_LZ4_HEADER)]), 0)
    at = len(_LZ4_HEADER)
    end = 0
    while most and at + _LZ4_SIZE.size <= len(view):
        (size,) = _LZ4_SIZE.unpack_from(view, at)
        at += _LZ4_SIZE.size
        if not size and at == len(view):
            return end
        block = view[at : at + (size & ~_LZ4_STORED)]
        room = output[end : end + most]
        if not size or len(block) != size & ~_LZ4_STORED or not room:
            break
        at += len(block)
        if size & _LZ4_STORED:
            if len(block) > len(room):
                break
            room[: len(block)] = block
            end += len(block)
        else:
            try:
                end += cramjam.lz4.decompress_block_into(block, room, output_len=len(room))
            except cramjam.DecompressionError:
                break
    return cramjam.lz4.decompress_into(data, output)


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    if data[:_XERIAL_MAGIC_BYTES] != _XERIAL_HEADER[:_XERIAL_MAGIC_BYTES]:
        return [data]
    blocks = []
    at = len(_XERIAL_HEADER)
    while at < len(data):
        start = at + _INT32.size
        size = _INT32.unpack_from(data, at)[0] if start <= len(data) else -1
        if not 0 <= size <= len(data) - start:
            raise WireError(f"{len(data)} bytes of snappy cannot be unpacked: the block at byte {at} is not whole.")
        blocks.append(data[start : start + size])
        at = start + size
    return blocks


def _pack_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _pack_lz4(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_LZ4_HEADER]
    for at in range(0, len(view), _LZ4_BLOCK_BYTES):
        block = view[at : at + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (_LZ4_SIZE.pack(len(packed)), packed)
        else:
            parts += (_LZ4_SIZE.pack(len(block) | _LZ4_STORED), bytes(block))
    parts.append(_LZ4_END)
    return b"".join(parts)
