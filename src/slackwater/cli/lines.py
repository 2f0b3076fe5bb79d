"""Records as lines of text: what `produce` reads and `consume` writes.

Rules kept here
- As JSON a record is one object with the bytes of key and value as text. Bytes that are no UTF-8 are written as base64
  under `key_base64` and `value_base64`. What `consume --json` prints, `produce --from-json` reads.
- Otherwise a line is a value, or a key and a value with a separator between them.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.client.consumer.records import ConsumerRecord

Headers = tuple[tuple[str, bytes | None], ...]
_KNOWN: Final = frozenset(
    {"topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers"}
)


class Outgoing(NamedTuple):
    """A record to be sent."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def to_json(record: "ConsumerRecord") -> dict[str, object]:
    """A record as an object."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_written("key", record.key),
        **_written("value", record.value),
        "headers": [{"name": name, **_written("value", value)} for name, value in record.headers],
    }


def _written(name: str, data: bytes | None) -> dict[str, object]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def from_json(line: bytes, number: int) -> Outgoing:
    """A record from an object; `number` is the line's, for whoever has to find a mistake in it."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UsageError(f"line {number} is no JSON: {error}.") from None
    if not isinstance(row, dict):
        raise UsageError(f'line {number} is no JSON object; write {{"key": …, "value": …}}.')
    unknown = sorted(set(row) - _KNOWN)
    if unknown:
        raise UsageError(f"line {number} has {unknown[0]!r}, which no record has; use {', '.join(sorted(_KNOWN))}.")
    headers = row.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(one, dict) and "name" in one for one in headers):
        raise UsageError(f"line {number}: headers must be a list of objects with name and value.")
    return Outgoing(
        _read(row, "key", number),
        _read(row, "value", number),
        tuple((str(one["name"]), _read(one, "value", number)) for one in headers),
        _number(row, "partition", number),
        _number(row, "timestamp", number),
    )


def _read(row: dict[str, Any], name: str, number: int) -> bytes | None:
    encoded = row.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise UsageError(f"line {number}: {name}_base64 is no base64.") from None
    value = row.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()


def _number(row: dict[str, Any], name: str, number: int) -> int | None:
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"line {number}: {name} is {value!r}, which is no whole number.")
    return value if value >= 0 else None


def from_text(line: bytes, separator: bytes | None, number: int) -> Outgoing:
    """A record from a line of text."""
    if separator is None:
        return Outgoing(None, line)
    key, found, value = line.partition(separator)
    if not found:
        raise UsageError(f"line {number} has no {separator.decode(errors='replace')!r} between key and value.")
    return Outgoing(key, value)


class Format:
    """A template for a record: %k key, %v value, %t topic, %p partition, %o offset, %T timestamp, %h headers."""

    def __init__(self, template: str) -> None:
        self._pieces = _pieces(template)

    def write(self, record: "ConsumerRecord") -> bytes:
        """A record as bytes."""
        return b"".join(piece if isinstance(piece, bytes) else _field(piece, record) for piece in self._pieces)


_ESCAPES: Final = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
_FIELDS: Final = "kvtpoTh"


def unescaped(text: str) -> str:
    r"""\n, \t and \0 as they are meant."""
    out, at = [], 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in _ESCAPES and at + 1 < len(text):
            out.append(_ESCAPES[text[at + 1]])
            at += 2
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def _pieces(template: str) -> Sequence[bytes | str]:
    pieces: list[bytes | str] = []
    text, at = unescaped(template), 0
    while at < len(text):
        if text[at] != "%":
            end = text.find("%", at)
            end = len(text) if end < 0 else end
            pieces.append(text[at:end].encode())
            at = end
            continue
        letter = text[at + 1 : at + 2]
        if letter == "%":
            pieces.append(b"%")
        elif letter and letter in _FIELDS:
            pieces.append(letter)
        else:
            raise UsageError(
                f"--format has %{letter}; use %k key, %v value, %t topic, %p partition, %o offset, %T timestamp, "
                "%h headers, %% for a percent sign."
            )
        at += 2
    return pieces


def _field(letter: str, record: "ConsumerRecord") -> bytes:
    match letter:
        case "k":
            return record.key or b""
        case "v":
            return record.value or b""
        case "t":
            return record.topic.encode()
        case "p":
            return b"%d" % record.partition
        case "o":
            return b"%d" % record.offset
        case "T":
            return b"%d" % record.timestamp
        case _:
            return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)
