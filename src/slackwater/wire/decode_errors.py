"""Error messages for messages that cannot be decoded or encoded: they name the first invalid field.

Invariants:
- This code runs only after the generated code has failed, so it may be slow. It gives up after `_MAX_VALUES` values,
  so that a malformed request cannot block the broker.
- It uses the same layout and rejects the same messages as the generated code. If every field is valid, the number of
  bytes is wrong.
"""

import struct

from slackwater.wire.errors import WireError
from slackwater.wire.fields import MAX_REQUEST_ELEMENTS, MAX_STRING_BYTES
from slackwater.wire.schema import ARRAY, STRING, STRUCT, UUID, FieldType, Layout, Message, Request, Struct, min_bytes

_VARINT_BYTES = 5
_MAX_VALUES = 20_000


def decode_error(struct_layout: Layout, title: str, data: bytes, at: int) -> WireError:
    """Return the error for bytes that are not a valid message."""
    budget = MAX_REQUEST_ELEMENTS if issubclass(struct_layout.struct, Request) else len(data)
    decoder = _CheckingDecoder(data, at, struct_layout.flexible, budget)
    try:
        decoder.structure(struct_layout, "")
    except _FieldError as error:
        return WireError(f"{title}: {error}.")
    return WireError(f"{title}: {len(data) - decoder.at} bytes follow the end of the message at byte {decoder.at}.")


def encode_error(struct_layout: Layout, title: str, message: Message) -> WireError:
    """Return the error for a message that cannot be encoded in this version."""
    try:
        _check_structure(struct_layout, message, "")
    except _FieldError as error:
        return WireError(f"{title}: {error}.")
    return WireError(f"{title} cannot be encoded.")


class _FieldError(Exception):
    """An invalid field; the text has no title and no full stop."""


class _CheckingDecoder:
    """Reads the bytes like the generated code and checks every field."""

    def __init__(self, data: bytes, at: int, flexible: bool, budget: int) -> None:
        self.data = data
        self.at = at
        self.flexible = flexible
        self.budget = budget  # array elements and tagged fields that may follow
        self.values = 0

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

    def length(self, field_type: FieldType, field: str) -> int:
        """Read a length; -1 is null if the field is nullable."""
        if self.flexible:
            length = self.varint(field) - 1
        else:
            length = int.from_bytes(self.take(2 if field_type.kind is STRING else 4, field), "big", signed=True)
        if length < -1:
            raise _FieldError(f"{field} has length {length}")
        if length == -1 and not field_type.nullable:
            raise _FieldError(f"{field} must not be null")
        if field_type.kind is STRING and length > MAX_STRING_BYTES:
            raise _FieldError(f"{field} takes {length} bytes; the maximum is {MAX_STRING_BYTES}")
        return length

    def structure(self, struct_layout: Layout, path: str) -> None:
        for field in struct_layout.fields:
            self.value(field.field_type, path + field.name)
        if struct_layout.flexible:
            self.tagged(struct_layout, path)

    def spend(self, count: int, field: str) -> None:
        if count > self.budget:
            raise _FieldError(
                f"{field} announces {count} elements; a request may have {MAX_REQUEST_ELEMENTS} elements in all arrays"
            )
        self.budget -= count

    def value(self, field_type: FieldType, field: str) -> None:
        self.values += 1
        if self.values > _MAX_VALUES:
            raise _FieldError(f"{field} at byte {self.at} or a field after it is invalid")
        kind = field_type.kind
        if kind.code:
            self.take(kind.size, field)
        elif kind is STRUCT:
            if not field_type.nullable or self.take(1, field)[0] < 0x80:
                self.structure(field_type.struct_layout, field + ".")
        elif kind is ARRAY:
            count = self.length(field_type, field)
            least = min_bytes(field_type.element_type, self.flexible)
            if count * least > self.left():
                raise _FieldError(
                    f"{field} announces {count} elements of {least} bytes or more; {self.left()} bytes are left"
                )
            self.spend(max(count, 0), field)
            if field_type.element_type.kind.code:  # numbers are always valid, and they fit
                self.take(max(count, 0) * least, field)
                return
            for number in range(count):
                self.value(field_type.element_type, f"{field}[{number}]")
        else:
            raw = self.take(max(self.length(field_type, field), 0), field)
            if kind is STRING:
                try:
                    raw.decode()
                except UnicodeDecodeError as error:
                    raise _FieldError(f"{field} is not UTF-8: {error}") from error

    def tagged(self, struct_layout: Layout, path: str) -> None:
        known = {field.tag: field for field in struct_layout.tagged}
        count = self.varint(f"{path}tagged fields")
        self.spend(count, f"{path}tagged fields")
        for _ in range(count):
            tag = self.varint(f"{path}tagged fields")
            size = self.varint(f"{path}tagged field {tag}")
            field = known.get(tag)
            if field is None:
                self.take(size, f"{path}tagged field {tag}")
                continue
            stop = self.at + size
            self.value(field.field_type, path + field.name)
            if self.at != stop:
                raise _FieldError(f"{path}{field.name} should end at byte {stop} by its size, but ends at {self.at}")


def _check_structure(struct_layout: Layout, value: object, path: str) -> None:
    for field in struct_layout.must_be_default:
        current = getattr(value, field.name)
        if current != field.default_value():
            raise _FieldError(f"{path}{field.name} is {current!r}, but does not exist in this version")
    for field in struct_layout.fields + struct_layout.tagged:
        _check(field.field_type, getattr(value, field.name, None), path + field.name)


def _check(field_type: FieldType, value: object, field: str) -> None:
    kind = field_type.kind
    if value is None:
        if not field_type.nullable:
            raise _FieldError(f"{field} is None, but must not be null")
    elif kind is ARRAY:
        if not isinstance(value, list | tuple):
            raise _FieldError(f"{field} is {value!r}, but must be a list")
        for number, each in enumerate(value):
            _check(field_type.element_type, each, f"{field}[{number}]")
    elif kind is STRUCT:
        if not isinstance(value, Struct):
            raise _FieldError(f"{field} is {value!r}, but must be a {field_type.struct_layout.struct.__name__}")
        _check_structure(field_type.struct_layout, value, field + ".")
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
