"""Why a message could not be read or written: the first field that is wrong, in a sentence.

Rules kept here
- Only called when the generated code has failed, so it may be slow; it makes nothing and keeps nothing.
- It judges by the same layout: what the generated code refuses, this refuses, and says where. Should every field be
  sound, it is the number of bytes that is not.
"""

import struct

from slackwater.wire.errors import WireError
from slackwater.wire.schema import (
    ARRAY,
    MAX_STRING_BYTES,
    STRING,
    STRUCT,
    UUID,
    Layout,
    Message,
    Shape,
    Struct,
    least_bytes,
)

_VARINT_BYTES = 5


def read_fault(plan: Layout, title: str, data: bytes, at: int) -> WireError:
    """The error to raise for bytes that are not such a message."""
    walk = _Walk(data, at, plan.flexible)
    try:
        walk.structure(plan, "")
    except _FaultError as fault:
        return WireError(f"{title}: {fault}.")
    return WireError(f"{title}: {len(data) - walk.at} bytes follow the end of the message at byte {walk.at}.")


def write_fault(plan: Layout, title: str, message: Message) -> WireError:
    """The error to raise for a message that cannot be written in this version."""
    try:
        _check_structure(plan, message, "")
    except _FaultError as fault:
        return WireError(f"{title}: {fault}.")
    return WireError(f"{title} cannot be written.")


class _FaultError(Exception):
    """The sentence, without its beginning and its full stop."""


class _Walk:
    """Goes through the bytes as the generated code does, and trusts nothing."""

    def __init__(self, data: bytes, at: int, flexible: bool) -> None:
        self.data = data
        self.at = at
        self.flexible = flexible

    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int, field: str) -> bytes:
        if size > self.left():
            raise _FaultError(f"{field} takes {size} bytes at byte {self.at}, and {self.left()} are left")
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
        raise _FaultError(f"{field} has a varint longer than {_VARINT_BYTES} bytes, which ends at byte {self.at}")

    def length(self, shape: Shape, field: str) -> int:
        """A length; -1 is null, where that is allowed."""
        if self.flexible:
            length = self.varint(field) - 1
        else:
            length = int.from_bytes(self.take(2 if shape.kind is STRING else 4, field), "big", signed=True)
        if length < -1:
            raise _FaultError(f"{field} has length {length}")
        if length == -1 and not shape.nullable:
            raise _FaultError(f"{field} is null, and must not be")
        if shape.kind is STRING and length > MAX_STRING_BYTES:
            raise _FaultError(f"{field} takes {length} bytes, and at most {MAX_STRING_BYTES} can be read")
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
            least = least_bytes(shape.of, self.flexible)
            if count * least > self.left():
                raise _FaultError(
                    f"{field} announces {count} elements of {least} bytes or more, and {self.left()} bytes are left"
                )
            for number in range(count):
                self.value(shape.of, f"{field}[{number}]")
        else:
            raw = self.take(max(self.length(shape, field), 0), field)
            if kind is STRING:
                try:
                    raw.decode()
                except UnicodeDecodeError as error:
                    raise _FaultError(f"{field} is not UTF-8: {error}") from error

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
                raise _FaultError(f"{path}{slot.name} should end at byte {stop} by its size, and ends at {self.at}")


def _check_structure(plan: Layout, value: object, path: str) -> None:
    for slot in plan.refused:
        seen = getattr(value, slot.name)
        if seen != slot.default_value():
            raise _FaultError(f"{path}{slot.name} is {seen!r}, and this version has no place for it")
    for slot in plan.slots + plan.tagged:
        _check(slot.shape, getattr(value, slot.name, None), path + slot.name)


def _check(shape: Shape, value: object, field: str) -> None:
    kind = shape.kind
    if value is None:
        if not shape.nullable:
            raise _FaultError(f"{field} is None, and must not be null")
    elif kind is ARRAY:
        if not isinstance(value, list | tuple):
            raise _FaultError(f"{field} is {value!r}, and must be a list")
        for number, each in enumerate(value):
            _check(shape.of, each, f"{field}[{number}]")
    elif kind is STRUCT:
        if not isinstance(value, Struct):
            raise _FaultError(f"{field} is {value!r}, and must be a {shape.struct.struct.__name__}")
        _check_structure(shape.struct, value, field + ".")
    elif kind is STRING:
        _check_string(value, field)
    elif kind.code and kind is not UUID:
        try:
            struct.pack(">" + kind.code, value)
        except (struct.error, OverflowError) as error:
            raise _FaultError(f"{field} is {value!r}, and must be of type {kind.name}: {error}") from error
    elif not isinstance(value, bytes | bytearray | memoryview):
        raise _FaultError(f"{field} is {value!r}, and must be bytes")
    elif kind is UUID and len(value) != UUID.size:
        raise _FaultError(f"{field} has {len(value)} bytes, and must have {UUID.size}")


def _check_string(value: object, field: str) -> None:
    if not isinstance(value, str):
        raise _FaultError(f"{field} is {value!r}, and must be a string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise _FaultError(f"{field} cannot be written as UTF-8: {error}") from error
    if size > MAX_STRING_BYTES:
        raise _FaultError(f"{field} takes {size} bytes, and at most {MAX_STRING_BYTES} can be written")
