"""Requests with as many array elements as a client can send, generated from the message schemas.

For every array of a request there is one request in which this array has the elements and every other array is as small
as possible. Arrays around it have one element.
"""

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from slackwater.broker.handlers import SUPPORTED_APIS
from slackwater.wire.apis import Api
from slackwater.wire.codec import request_type
from slackwater.wire.frames import frame
from slackwater.wire.schema import ARRAY, BOOLEAN, FLOAT64, STRING, STRUCT, UUID, FieldType, Layout, layout

CORRELATION_ID = 7


@dataclass(frozen=True)
class Values:
    """The values of all fields in a generated request."""

    string: str = ""
    number: int = 0
    uuid: bytes = bytes(16)


MINIMAL = Values()


@dataclass(frozen=True)
class HostileRequest:
    """A generated request; `array` is the path of the array with the elements."""

    api: Api
    version: int
    array: str
    frame: bytes

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version} {self.array}"


def hostile_requests(
    count: int, values: Values = MINIMAL, *, all_versions: bool = False, only: Collection[Api] = SUPPORTED_APIS
) -> Iterator[HostileRequest]:
    """Generate a request with `count` elements for every array of every API, in the newest or in all versions."""
    for api in only:
        versions = range(api.min_version, api.max_version + 1) if all_versions else [api.latest_stable]
        for version in versions:
            for array in arrays(layout(request_type(api), version)):
                yield hostile_request(api, version, array, count, values)


def hostile_request(api: Api, version: int, array: str, count: int, values: Values = MINIMAL) -> HostileRequest:
    """Generate the request of one API and version in which one array has `count` elements."""
    flexible = api.is_flexible(version)
    header = struct.pack(">hhih", api.key, version, CORRELATION_ID, -1) + (b"\x00" if flexible else b"")
    body = _Writer(flexible, values).structure(layout(request_type(api), version), array.split("."), count)
    return HostileRequest(api, version, array, frame(header + body))


def arrays(struct_layout: Layout) -> Iterator[str]:
    """Return the paths of all arrays."""
    for field in struct_layout.fields:
        kind = field.field_type
        inner = kind.element if kind.kind is ARRAY else kind
        if kind.kind is ARRAY:
            yield field.name
        if inner is not None and inner.kind is STRUCT:
            yield from (f"{field.name}.{path}" for path in arrays(inner.struct_layout))


class _Writer:
    """Writes a message field by field; the array at `path` gets `count` elements, those around it one."""

    def __init__(self, flexible: bool, values: Values) -> None:
        self._flexible = flexible
        self._values = values

    def structure(self, struct_layout: Layout, path: list[str], count: int) -> bytes:
        data = b"".join(
            self._value(field.field_type, path[1:] if path and path[0] == field.name else None, count)
            for field in struct_layout.fields
        )
        return data + (b"\x00" if self._flexible else b"")

    def _value(self, field_type: FieldType, path: list[str] | None, count: int) -> bytes:
        kind = field_type.kind
        if kind is ARRAY:
            if path is None:
                return self._length(0, 4)
            elements = 1 if path else count
            return self._length(elements, 4) + self._value(field_type.element_type, path or None, count) * elements
        if kind is STRUCT:
            present = b"\x01" if field_type.nullable else b""
            return present + self.structure(field_type.struct_layout, path or [], count)
        if kind is UUID:
            return self._values.uuid
        if kind is BOOLEAN:
            return b"\x00"
        if kind is FLOAT64:
            return bytes(8)
        if kind.code:
            return struct.pack(">" + kind.code, self._values.number)
        text = self._values.string.encode() if kind is STRING else b""
        return self._length(len(text), 2 if kind is STRING else 4) + text

    def _length(self, length: int, size: int) -> bytes:
        if not self._flexible:
            return length.to_bytes(size, "big")
        length += 1
        data = bytearray()
        while length > 0x7F:
            data.append(length & 0x7F | 0x80)
            length >>= 7
        data.append(length)
        return bytes(data)
