"""Kafka's primitive types, decoded and encoded one field at a time.

Invariants:
- The reader never reads past the end and raises only `WireError`.
- Strings, bytes and arrays have a fixed-size length, or in flexible versions (KIP-482) a compact one: a varint of the
  length plus one. `flexible` selects the form.
- A length above the remaining bytes is rejected before memory is allocated for it.
"""

import struct
from typing import Final

from slackwater.wire.errors import WireError

MAX_STRING_BYTES: Final = 2**15 - 1
MAX_REQUEST_ELEMENTS: Final = 50_000
"""The array elements and tagged fields of one request, in total. Decoding that many takes less than 100 ms."""
_VARINT_BYTES: Final = 5


class FieldReader:
    """Reads the fields of one message in order; `what` names the message in errors."""

    __slots__ = ("at", "data", "flexible", "what")

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what
        self.at = 0
        self.flexible = False

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.at + size
        if end > len(self.data):
            raise self.error(f"{size} bytes are announced at byte {self.at}; {len(self.data) - self.at} are left")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def int8(self) -> int:
        """A signed 8-bit integer."""
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        """A signed 16-bit integer."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        """A signed 32-bit integer."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        """A signed 64-bit integer."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def varint(self) -> int:
        """An unsigned integer of up to 32 bits, seven to the byte, lowest first."""
        value = 0
        for number in range(_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                return value
        raise self.error(f"the varint that ends at byte {self.at} is longer than {_VARINT_BYTES} bytes")

    def nullable_string(self, field: str) -> str | None:
        """A string, or None."""
        length = self._length(self.varint() - 1 if self.flexible else self.int16(), field)
        if length is None:
            return None
        raw = self.take(length)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.error(f"{field} is not UTF-8: {error}") from error

    def string(self, field: str) -> str:
        """A string that is not null."""
        text = self.nullable_string(field)
        if text is None:
            raise self.error(f"{field} must not be null")
        return text

    def binary(self, field: str) -> bytes:
        """Bytes that are not null."""
        length = self._length(self.varint() - 1 if self.flexible else self.int32(), field)
        if length is None:
            raise self.error(f"{field} must not be null")
        return self.take(length)

    def array(self, field: str) -> int:
        """The number of elements that follow; each takes at least one byte."""
        length = self.nullable_array(field)
        if length is None:
            raise self.error(f"{field} must not be null")
        return length

    def nullable_array(self, field: str) -> int | None:
        """The number of elements that follow, or None."""
        length = self._length(self.varint() - 1 if self.flexible else self.int32(), field)
        if length is None:
            return None
        if length > len(self.data) - self.at:
            raise self.error(f"{field} announces {length} elements; {len(self.data) - self.at} bytes are left")
        return length

    def tagged_fields(self) -> dict[int, bytes]:
        """The tagged fields at the end of a structure of a flexible version."""
        tagged: dict[int, bytes] = {}
        if self.flexible:
            for _ in range(self.varint()):
                tag = self.varint()
                tagged[tag] = self.take(self.varint())
        return tagged

    def error(self, message: str) -> WireError:
        """Return the error to raise."""
        return WireError(f"{self.what}: {message}.")

    def _length(self, length: int, field: str) -> int | None:
        if length < -1:
            raise self.error(f"{field} has length {length}")
        return None if length == -1 else length


class FieldWriter:
    """Writes the fields of one message in order."""

    __slots__ = ("flexible", "parts", "what")

    def __init__(self, what: str, *, flexible: bool = False) -> None:
        self.what = what
        self.flexible = flexible
        self.parts: list[bytes] = []

    def done(self) -> bytes:
        """Return the encoded message."""
        return b"".join(self.parts)

    def int8(self, value: int) -> None:
        """A signed 8-bit integer."""
        self.parts.append(struct.pack(">b", value))

    def int16(self, value: int) -> None:
        """A signed 16-bit integer."""
        self.parts.append(struct.pack(">h", value))

    def int32(self, value: int) -> None:
        """A signed 32-bit integer."""
        self.parts.append(struct.pack(">i", value))

    def int64(self, value: int) -> None:
        """A signed 64-bit integer."""
        self.parts.append(struct.pack(">q", value))

    def varint(self, value: int) -> None:
        """An unsigned integer, seven bits to the byte, lowest first."""
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        self.parts.append(bytes(out))

    def string(self, text: str | None, field: str) -> None:
        """A string, or null."""
        if text is None:
            self.parts.append(b"\x00" if self.flexible else b"\xff\xff")
            return
        try:
            raw = text.encode()
        except UnicodeEncodeError as error:
            raise WireError(f"{self.what}: {field} cannot be encoded as UTF-8: {error}.") from error
        if len(raw) > MAX_STRING_BYTES:
            raise WireError(f"{self.what}: {field} takes {len(raw)} bytes; the maximum is {MAX_STRING_BYTES}.")
        if self.flexible:
            self.varint(len(raw) + 1)
        else:
            self.int16(len(raw))
        self.parts.append(raw)

    def binary(self, data: bytes) -> None:
        """Bytes."""
        self.array(len(data))
        self.parts.append(data)

    def array(self, length: int | None) -> None:
        """The number of elements that follow; None for a null array."""
        size = -1 if length is None else length
        if self.flexible:
            self.varint(size + 1)
        else:
            self.int32(size)

    def tagged_fields(self, fields: dict[int, bytes]) -> None:
        """The tagged fields at the end of a structure of a flexible version, in the order of their tags."""
        if self.flexible:
            self.varint(len(fields))
            for tag, data in sorted(fields.items()):
                self.varint(tag)
                self.varint(len(data))
                self.parts.append(data)
