"""The subject of a certificate as Kafka writes it: RFC 2253, as Java's X500Principal does.

The certificate comes as DER, because Python's `ssl` gives names without their order and types.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from slackwater.security.errors import SslAuthenticationError

_VERSION: Final = 0xA0
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: Java decodes all of them as UTF-8.
_TEXT: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPES: Final = str.maketrans({letter: f"\\{letter}" for letter in ',=+<>#;"\\'} | {"\0": "\\00"})
_BLANKS: Final = " \r"


class _Element(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes


def subject_name(certificate: bytes) -> str:
    """Return the subject of a DER certificate, for example `CN=alice,OU=dev,O=Example`."""
    try:
        (outer,) = _elements(certificate)
        to_be_signed = next(_elements(outer.content))
        fields = [field for field in _elements(to_be_signed.content) if field.tag != _VERSION]
        subject = fields[4]  # after serial number, signature, issuer and validity
        names = [_relative_name(relative) for relative in _elements(subject.content)]
    except (IndexError, ValueError, StopIteration) as error:
        raise SslAuthenticationError("the subject of the client's certificate cannot be read") from error
    return ",".join(reversed(names))


def _relative_name(relative: _Element) -> str:
    parts = []
    for attribute in _elements(relative.content):
        kind, value = _elements(attribute.content)
        oid = _object_id(kind.content)
        keyword = _KEYWORDS.get(oid)
        if keyword is None or value.tag not in _TEXT:
            parts.append(f"{keyword or oid}=#{value.encoded.hex()}")
        else:
            parts.append(f"{keyword}={_escape(value.content.decode(errors='replace'))}")
    return "+".join(parts)


def _escape(text: str) -> str:
    escaped = text.translate(_ESCAPES)
    body = escaped.strip(_BLANKS)
    before, _, after = escaped.partition(body) if body else (escaped, "", "")
    return "".join(f"\\{blank}" for blank in before) + body + "".join(f"\\{blank}" for blank in after)


def _object_id(content: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(data):
        start, tag, length = at, data[at], data[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[at : at + size], "big")
            at += size
        yield _Element(tag, data[at : at + length], data[start : at + length])
        at += length
