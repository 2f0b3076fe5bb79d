"""The codecs of record batches: gzip, snappy, lz4 and zstd, in the framings of Kafka's clients.

Snappy uses the framing of the Java library xerial: a header of 16 bytes, then blocks of up to 32 KiB, each with its
length. Some clients write one raw block instead; as in Java, data without the header is a raw block. LZ4 frames are
assembled here, because Kafka reads only frames with independent blocks and the library writes linked ones.

Invariants:
- The Java client reads what this module writes, and vice versa.
- Decompression raises only `WireError` and never produces more than `limit` bytes, whatever size the data claims.
"""

import struct
from enum import IntEnum
from typing import Final, TypeAlias

from slackwater.wire.errors import WireError

Buffer: TypeAlias = bytes | bytearray | memoryview

DEFAULT_LIMIT: Final = 1 << 30
# The first output buffer is large enough for most batches; memory that is not written to costs almost nothing.
_MIN_OUTPUT_BYTES: Final = 1 << 16
_EXPECTED_RATIO: Final = 8
_OUTPUT_GROWTH: Final = 8
# The error message of cramjam for a full output buffer; any other message means invalid input.
_OUTPUT_FULL: Final = "failed to write whole buffer"

_INT32: Final = struct.Struct(">i")
_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC_BYTES: Final = 8
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

_LZ4_SIZE: Final = struct.Struct("<I")
# Magic number, flags (version 1, independent blocks, no checksums), blocks of up to 64 KiB, and the checksum of the two
# bytes before it.
_LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK_BYTES: Final = 64 * 1024
# The same header for each block size of the format.
_LZ4_BLOCK_SIZES: Final = {
    _LZ4_HEADER: _LZ4_BLOCK_BYTES,
    bytes.fromhex("04224d18 60 50 fb"): 4 * _LZ4_BLOCK_BYTES,
    bytes.fromhex("04224d18 60 60 51"): 16 * _LZ4_BLOCK_BYTES,
    bytes.fromhex("04224d18 60 70 73"): 64 * _LZ4_BLOCK_BYTES,
}
_LZ4_STORED: Final = 1 << 31
_LZ4_END: Final = bytes(4)


class Codec(IntEnum):
    """Compression codecs; the number is in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class LimitExceeded(WireError):
    """The decompressed data has more bytes than the limit."""


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`. Only gzip and zstd have a level."""
    import cramjam

    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=level))
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            return _compress_lz4(data)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=level))


def decompress(codec: Codec, data: Buffer, limit: int = DEFAULT_LIMIT) -> Buffer:
    """Decompress `data` to at most `limit` bytes. `Codec.NONE` returns `data` itself."""
    import numpy as np

    if codec is Codec.NONE:
        return data
    size_guess = min(limit, max(_MIN_OUTPUT_BYTES, _EXPECTED_RATIO * len(data)))
    while True:
        output = np.empty(size_guess, np.uint8).data
        size = decompress_into(codec, data, output)
        if size is not None:
            return output[:size]
        if size_guess >= limit:
            raise LimitExceeded(
                f"Cannot decompress {len(data)} bytes of {codec.name.lower()}: more than {limit} bytes, the limit."
            )
        size_guess = min(limit, size_guess * _OUTPUT_GROWTH)


def decompress_into(codec: Codec, data: Buffer, output: memoryview) -> int | None:
    """Decompress `data` into `output`. Returns the size, or None if `output` is too small."""
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
                return _decompress_snappy(data, output)
            case Codec.LZ4:
                return _decompress_lz4(data, output)
            case Codec.ZSTD:
                return cramjam.zstd.decompress_into(data, output)
    except cramjam.DecompressionError as error:
        if _OUTPUT_FULL in str(error):
            return None
        raise WireError(f"Cannot decompress {len(data)} bytes of {codec.name.lower()}: {error}.") from error


def _decompress_snappy(data: Buffer, output: memoryview) -> int | None:
    """Decompress xerial's framing, or one raw block."""
    import cramjam

    at = 0
    for block in _xerial_blocks(memoryview(data)):
        end = at + cramjam.snappy.decompress_raw_len(block)
        if end > len(output):
            return None
        cramjam.snappy.decompress_raw_into(block, output[at:end])
        at = end
    return at


def _decompress_lz4(data: Buffer, output: memoryview) -> int | None:
    """Decompress frames of Java, librdkafka and this module block by block, and other frames with the library.

    Block by block takes half the time. When it fails, the library's frame decoder decides whether the data is corrupt
    or the output too small.
    """
    import cramjam

    view = memoryview(data)
    max_block_bytes = _LZ4_BLOCK_SIZES.get(bytes(view[: len(_LZ4_HEADER)]), 0)
    at = len(_LZ4_HEADER)
    end = 0
    while max_block_bytes and at + _LZ4_SIZE.size <= len(view):
        (size,) = _LZ4_SIZE.unpack_from(view, at)
        at += _LZ4_SIZE.size
        if not size and at == len(view):
            return end
        block = view[at : at + (size & ~_LZ4_STORED)]
        room = output[end : end + max_block_bytes]
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
            raise WireError(f"Cannot decompress {len(data)} bytes of snappy: the block at byte {at} is incomplete.")
        blocks.append(data[start : start + size])
        at = start + size
    return blocks


def _compress_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _compress_lz4(data: Buffer) -> bytes:
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
