"""The signed integers of records: zigzag, seven bits per byte, lowest first.

The unsigned varints of requests and responses are in `decoder_generator` and `encoder_generator`; `scanner` reads
records in compiled code.
"""

from typing import Final

from slackwater.wire.errors import WireError

VARINT_SHIFTS: Final = 5 * 7
"""The bits of a number of 32 bits, in bytes of seven."""
VARLONG_SHIFTS: Final = 10 * 7
_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))


class LongVarintError(WireError):
    """A varint has more bytes than its type allows."""


def encode_varint(number: int) -> bytes:
    """Encode a signed integer: zigzag, seven bits per byte, lowest first."""
    rest = (number << 1) ^ (number >> 63)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    if rest < 0x4000:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(data: bytes, at: int, shifts: int = VARINT_SHIFTS) -> tuple[int, int]:
    """Return a number and the position after it. Excess bits are dropped, as in Java."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = byte & 0x7F
    for shift in range(7, shifts, 7):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFF_FFFF if shifts == VARINT_SHIFTS else 0xFFFF_FFFF_FFFF_FFFF
            return (value >> 1) ^ -(value & 1), at + 1
    raise LongVarintError("A varint has more bytes than its type allows.")
