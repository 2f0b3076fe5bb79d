"""Error messages for messages that cannot be decoded or encoded: they name the first invalid field.

Invariants:
- This code runs only after the generated code has failed, so it may be slow.
- It uses the same layout and refuses whatever the generated code refuses. If every field is valid, the number of bytes
  is wrong.
"""

import struct

from slackwater.wire.errors import WireError
from slackwater.wire.fields import MAX_STRING_BYTES
from slackwater.wire.schema import ARRAY, STRING, STRUCT, UUID, Layout, Message, Shape, Struct, min_bytes

_VARINT_BYTES = 5


def decode_error(plan: Layout, title: str, data: bytes, at: int) -> WireError:
    """Return the error for bytes that are not a valid message."""
    decoder = _CheckingDecoder(data, at, plan.flexible)
    try:
        decoder.structure(plan, "")
    except _FieldError as error:
        return WireError(f"{title}: {error}.")
    return WireError(f"{title}: {len(data) - decoder.at} bytes follow the end of the message at byte {decoder.at}.")


def encode_error(plan: Layout, title: str, message: Message) -> WireError:
    """Return the error for a message that cannot be encoded in this version."""
    try:
        _check_structure(plan, message, "")
    except _FieldError as error:
        return WireError(f"{title}: {error}.")
    return WireError(f"{title} cannot be encoded.")


class _FieldError(Exception):
    """An invalid field; the text has no title and no full stop."""


class _CheckingDecoder:
    """Reads the bytes like the generated code and checks every field."""

    def __init__(self, data: bytes, at: int, flexible: bool) -> None:
        self.data = data
        self.at = at
        self.flexible = flexible

    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int, field: str) -> bytes:
        if size > self.left():
            raise _FieldError(f"{field} takes {size} bytes at byte {self.at}; {self.left()} are left")
        piece = self.data[self.at : self.at + size]
        self.at += size
        return piece

    def varint(self, field: str) -> int:
        value = 0
        for number in range(_VARINT_BYTES):
            byte = self.take(1, field)[0]
            value |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                return value
        raise _FieldError(f"{field} has a varint longer than {_VARINT_BYTES} bytes, which ends at byte {self.at}")

    def length(self, shape: Shape, field: str) -> int:
        """Read a length; -1 is null if the field is nullable."""
        if self.flexible:
            length = self.varint(field) - 1
        else:
            length = int.from_bytes(self.take(2 if shape.kind is STRING else 4, field), "big", signed=True)
        if length < -1:
            raise _FieldError(f"{field} has length {length}")
        if length == -1 and not shape.nullable:
            raise _FieldError(f"{field} must not be null")
        if shape.kind is STRING and length > MAX_STRING_BYTES:
            raise _FieldError(f"{field} takes {length} bytes; the maximum is {MAX_STRING_BYTES}")
        return length

    def structure(self, plan: Layout, path: str) -> None:
        for slot in plan.slots:
            self.value(slot.shape, path + slot.name)
        if plan.flexible:
            self.tagged(plan, path)

    def value(self, shape: Shape, field: str) -> None:
        kind = shape.kind
        if kind.code:
            self.take(kind.size, field)
        elif kind is STRUCT:
            if not shape.nullable or self.take(1, field)[0] < 0x80:
                self.structure(shape.struct, field + ".")
        elif kind is ARRAY:
            count = self.length(shape, field)
            least = min_bytes(shape.of, self.flexible)
            if count * least > self.left():
                raise _FieldError(
                    f"{field} announces {count} elements of {least} bytes or more; {self.left()} bytes are left"
                )
            for number in range(count):
                self.value(shape.of, f"{field}[{number}]")
        else:
            raw = self.take(max(self.length(shape, field), 0), field)
            if kind is STRING:
                try:
                    raw.decode()
                except UnicodeDecodeError as error:
                    raise _FieldError(f"{field} is not UTF-8: {error}") from error

    def tagged(self, plan: Layout, path: str) -> None:
        known = {slot.tag: slot for slot in plan.tagged}
        for _ in range(self.varint(f"{path}tagged fields")):
            tag = self.varint(f"{path}tagged fields")
            size = self.varint(f"{path}tagged field {tag}")
            slot = known.get(tag)
            if slot is None:
                self.take(size, f"{path}tagged field {tag}")
                continue
            stop = self.at + size
            self.value(slot.shape, path + slot.name)
            if self.at != stop:
                raise _FieldError(f"{path}{slot.name} should end at byte {stop} by its size, but ends at {self.at}")


def _check_structure(plan: Layout, value: object, path: str) -> None:
    for slot in plan.refused:
        current = getattr(value, slot.name)
        if current != slot.default_value():
            raise _FieldError(f"{path}{slot.name} is {current!r}, but does not exist in this version")
    for slot in plan.slots + plan.tagged:
        _check(slot.shape, getattr(value, slot.name, None), path + slot.name)


def _check(shape: Shape, value: object, field: str) -> None:
    kind = shape.kind
    if value is None:
        if not shape.nullable:
            raise _FieldError(f"{field} is None, but must not be null")
    elif kind is ARRAY:
        if not isinstance(value, list | tuple):
            raise _FieldError(f"{field} is {value!r}, but must be a list")
        for number, each in enumerate(value):
            _check(shape.of, each, f"{field}[{number}]")
    elif kind is STRUCT:
        if not isinstance(value, Struct):
            raise _FieldError(f"{field} is {value!r}, but must be a {shape.struct.struct.__name__}")
        _check_structure(shape.struct, value, field + ".")
    elif kind is STRING:
        _check_string(value, field)
    elif kind.code and kind is not UUID:
        try:
            struct.pack(">" + kind.code, value)
        except (struct.error, OverflowError) as error:
            raise _FieldError(f"{field} is {value!r}, but must be of type {kind.name}: {error}") from error
    elif not isinstance(value, bytes | bytearray | memoryview):
        raise _FieldError(f"{field} is {value!r}, but must be bytes")
    elif kind is UUID and len(value) != UUID.size:
        raise _FieldError(f"{field} has {len(value)} bytes, but must have {UUID.size}")


def _check_string(value: object, field: str) -> None:
    if not isinstance(value, str):
        raise _FieldError(f"{field} is {value!r}, but must be a string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise _FieldError(f"{field} cannot be encoded as UTF-8: {error}") from error
    if size > MAX_STRING_BYTES:
        raise _FieldError(f"{field} takes {size} bytes; the maximum is {MAX_STRING_BYTES}")
