"""Records as lines of text: the input of `produce` and the output of `consume`.

Invariants:
- As JSON a record is one object with key and value as text. Bytes that are not UTF-8 are base64 under `key_base64` and
  `value_base64`. `produce --from-json` reads what `consume --json` prints.
- Otherwise a line is a value, or a key and a value with a separator. On a terminal, control characters and bytes that
  are not UTF-8 are escaped; elsewhere bytes are written as they are.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from slackwater.escaping import escape
from slackwater.group.errors import UsageError

if TYPE_CHECKING:
    from slackwater.client.consumer.records import ConsumerRecord

Headers = tuple[tuple[str, bytes | None], ...]
_KNOWN: Final = frozenset(
    {"topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers"}
)


class InputRecord(NamedTuple):
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
        **_encode_bytes("key", record.key),
        **_encode_bytes("value", record.value),
        "headers": [{"name": name, **_encode_bytes("value", value)} for name, value in record.headers],
    }


def _encode_bytes(name: str, data: bytes | None) -> dict[str, object]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def from_json(line: bytes, number: int) -> InputRecord:
    """Parse a record from a JSON object; `number` is the line number for error messages."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UsageError(f"line {number} is not JSON: {error}.") from None
    if not isinstance(row, dict):
        raise UsageError(f'line {number} is not a JSON object; write {{"key": …, "value": …}}.')
    unknown = sorted(set(row) - _KNOWN)
    if unknown:
        raise UsageError(f"line {number} has {unknown[0]!r}, which no record has; use {', '.join(sorted(_KNOWN))}.")
    headers = row.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(header, dict) and "name" in header for header in headers):
        raise UsageError(f"line {number}: headers must be a list of objects with name and value.")
    return InputRecord(
        _decode_bytes(row, "key", number),
        _decode_bytes(row, "value", number),
        tuple((str(header["name"]), _decode_bytes(header, "value", number)) for header in headers),
        _number(row, "partition", number),
        _number(row, "timestamp", number),
    )


def _decode_bytes(row: dict[str, Any], name: str, number: int) -> bytes | None:
    encoded = row.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise UsageError(f"line {number}: {name}_base64 is not base64.") from None
    value = row.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()


def _number(row: dict[str, Any], name: str, number: int) -> int | None:
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"line {number}: {name} is {value!r}, which is not a whole number.")
    return value if value >= 0 else None


def from_text(line: bytes, separator: bytes | None, number: int) -> InputRecord:
    """Parse a record from a line of text."""
    if separator is None:
        return InputRecord(None, line)
    key, separator_found, value = line.partition(separator)
    if not separator_found:
        raise UsageError(f"line {number} has no {separator.decode(errors='replace')!r} between key and value.")
    return InputRecord(key, value)


class Format:
    """A template for a record: %k key, %v value, %t topic, %p partition, %o offset, %T timestamp, %h headers."""

    def __init__(self, template: str, *, is_terminal: bool = False) -> None:
        self._pieces = _pieces(template)
        self._field = _escaped_field if is_terminal else _field

    def write(self, record: "ConsumerRecord") -> bytes:
        """Render a record."""
        return b"".join(piece if isinstance(piece, bytes) else self._field(piece, record) for piece in self._pieces)


_ESCAPES: Final = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
_FIELDS: Final = "kvtpoTh"
_NOT_UTF8: Final = re.compile(r"\\udc([89a-f][0-9a-f])")  # an escaped byte, as `surrogateescape` decodes it


def unescape(text: str) -> str:
    r"""Replace \n, \t and \0 by the characters they stand for."""
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
    text, at = unescape(template), 0
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


def _escaped_field(letter: str, record: "ConsumerRecord") -> bytes:
    text = _field(letter, record).decode(errors="surrogateescape")
    return _NOT_UTF8.sub(r"\\x\1", escape(text)).encode()
