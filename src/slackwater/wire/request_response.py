"""Requests and responses as frames: size, header, body.

Invariants:
- Encoding returns a complete frame that starts with its size. Decoding takes the frame without the size.
- The header version follows from the API and the version of the body (`apis`).
- An ApiVersions request in an unsupported version decodes as an empty request with that version number. Its response is
  encoded in v0 with UNSUPPORTED_VERSION (KIP-511), so that a newer client learns which versions the broker supports.
  Decoding recognizes that response by its error code, whatever version was requested.
- Any other unknown API or version is a `WireError`.

A broker:

    header, request = decode_request(frame)
    match request:
        case HeartbeatRequest():
            response = HeartbeatResponse(error_code=…)
    connection.write(encode_response(response, header.api_version, header.correlation_id))

A client:

    connection.write(encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id, client_id))
    correlation_id, response = decode_response(HeartbeatResponse, 4, frame)
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from slackwater.wire.apis import API_VERSIONS, APIS
from slackwater.wire.codec import decode, decoder, encode, encoder, request_type
from slackwater.wire.decoder_generator import DECODE_EXCEPTIONS, Read, skip_tagged
from slackwater.wire.encoder_generator import Piece, Write
from slackwater.wire.errors import WireError
from slackwater.wire.fields import MAX_REQUEST_ELEMENTS, MAX_STRING_BYTES
from slackwater.wire.schema import Message, Request, Response

R = TypeVar("R", bound=Response)

UNSUPPORTED_VERSION: Final = 35
_REQUEST_HEADER: Final = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
_SIZED_REQUEST_HEADER: Final = struct.Struct(">ihhih")
_CORRELATION_ID: Final = struct.Struct(">i")
_SIZED_RESPONSE_HEADER: Final = struct.Struct(">ii")
_SIZED_FLEXIBLE_RESPONSE_HEADER: Final = struct.Struct(">iix")
_ERROR_CODE: Final = struct.Struct(">h")
_SIZE_BYTES: Final = 4

# By API key and version of a request: its body's reader, and whether its header ends with tagged fields.
_request_bodies: Final[dict[tuple[int, int], tuple[Read, bool]]] = {}
# By class and version of a response: the function that packs size and header, the header's size, the body's version,
# and the body's writer.
_ResponseFormat = tuple[Callable[[int, int], bytes], int, int, Write]
_response_formats: Final[dict[tuple[type[Message], int], _ResponseFormat]] = {}


class RequestHeader(NamedTuple):
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request(frame: bytes) -> tuple[RequestHeader, Request]:
    """Decode the header and the body of a request."""
    try:
        key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
    except struct.error as error:
        raise WireError(f"Request header takes {_REQUEST_HEADER.size} bytes; the frame has {len(frame)}.") from error
    read, is_flexible = _request_bodies.get((key, version)) or _request_body(key, version)
    at = _REQUEST_HEADER.size
    client_id: str | None = None
    if length >= 0:
        end = at + length
        if end > len(frame):
            raise WireError(f"Request header: client_id takes {length} bytes; {len(frame) - at} are left.")
        try:
            client_id = frame[at:end].decode()
        except UnicodeDecodeError as error:
            raise WireError(f"Request header: client_id is not UTF-8: {error}.") from error
        at = end
    elif length != -1:
        raise WireError(f"Request header: client_id has length {length}.")
    if is_flexible:
        # No client sends tagged fields in a header yet, so their number is almost always 0.
        at = at + 1 if frame[at : at + 1] == b"\x00" else _skip_header_tags(frame, at, "Request header")
    # tuple.__new__ avoids the slower __new__ of the class.
    header = tuple.__new__(RequestHeader, (key, version, correlation_id, client_id))
    return header, read(frame, at)  # type: ignore[return-value]  # a cast would cost a call per request


def encode_response(response: Response, version: int, correlation_id: int) -> bytes:
    """Encode a response as a frame."""
    kind = type(response)
    pack_header, size, version, write = _response_formats.get((kind, version)) or _response_format(kind, version)
    out: list[Piece] = []
    write(response, out)
    try:
        body = b"".join(out)
    except TypeError:  # a bytes field with a value of another type
        body = encode(response, version)  # raises an error that names the field
    return pack_header(size + len(body), correlation_id) + body


class PreencodedResponse:
    """A response that is encoded once and sent with many correlation ids."""

    __slots__ = ("_body", "_size")

    def __init__(self, response: Response, version: int) -> None:
        frame = encode_response(response, version, 0)
        self._size = frame[:_SIZE_BYTES]
        self._body = frame[_SIZE_BYTES + _CORRELATION_ID.size :]

    def frame(self, correlation_id: int) -> bytes:
        """Return the frame for one request."""
        return self._size + _CORRELATION_ID.pack(correlation_id) + self._body


def response_pieces(response: Response, version: int, correlation_id: int) -> list[Piece]:
    """Encode a response as a list of pieces; records are pieces of their own and are not copied."""
    kind = type(response)
    pack_header, size, version, write = _response_formats.get((kind, version)) or _response_format(kind, version)
    out: list[Piece] = [b""]
    write(response, out)
    out[0] = pack_header(size + sum(map(len, out)), correlation_id)
    return out


def encode_request(request: Request, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a request as a frame."""
    api = request.API
    body = encode(request, version)
    try:
        encoded_id = b"" if client_id is None else client_id.encode()
    except UnicodeEncodeError as error:
        raise WireError(f"Request header: client_id cannot be encoded as UTF-8: {error}.") from error
    if len(encoded_id) > MAX_STRING_BYTES:
        raise WireError(f"Request header: client_id takes {len(encoded_id)} bytes; the maximum is {MAX_STRING_BYTES}.")
    tags = b"\x00" if api.is_flexible(version) else b""
    size = _REQUEST_HEADER.size + len(encoded_id) + len(tags) + len(body)
    length = -1 if client_id is None else len(encoded_id)
    header = _SIZED_REQUEST_HEADER.pack(size, api.key, version, correlation_id, length)
    return b"".join((header, encoded_id, tags, body))


def decode_response(response: type[R], version: int, frame: bytes) -> tuple[int, R]:
    """Decode the correlation id and the body of the response to a request in this version."""
    api = response.API
    if len(frame) < _CORRELATION_ID.size:
        raise WireError(f"Response header takes {_CORRELATION_ID.size} bytes; the frame has {len(frame)}.")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    at = _CORRELATION_ID.size
    if api.response_header_version(version):
        at = _skip_header_tags(frame, at, "Response header")
    if api is API_VERSIONS and frame[at : at + _ERROR_CODE.size] == _ERROR_CODE.pack(UNSUPPORTED_VERSION):
        version = 0
    return correlation_id, decode(response, version, frame, at)


def _skip_header_tags(frame: bytes, at: int, title: str) -> int:
    """Return the end of a header's tagged fields; all of them are unknown and skipped."""
    try:
        count = frame[at]
        at = skip_tagged(frame, at + 1, count, MAX_REQUEST_ELEMENTS)[0] if count else at + 1
    except DECODE_EXCEPTIONS as error:
        raise WireError(f"{title}: its tagged fields at byte {at} are truncated or malformed.") from error
    if at > len(frame):
        raise WireError(f"{title}: its tagged fields end at byte {at}; the frame has {len(frame)}.")
    return at


def _request_body(key: int, version: int) -> tuple[Read, bool]:
    api = APIS.get(key)
    if api is None:
        raise WireError(f"Request header: API key {key} is unknown.")
    kind = request_type(api)
    if api is API_VERSIONS and not api.supports(version):
        return (lambda data, at: kind()), api.is_flexible(version)
    _request_bodies[key, version] = body = (decoder(kind, version), api.is_flexible(version))
    return body


def _response_format(kind: type[Response], version: int) -> _ResponseFormat:
    api = kind.API
    if api is API_VERSIONS and not api.supports(version):
        return _SIZED_RESPONSE_HEADER.pack, _SIZED_RESPONSE_HEADER.size - _SIZE_BYTES, 0, encoder(kind, 0)
    header = _SIZED_FLEXIBLE_RESPONSE_HEADER if api.response_header_version(version) else _SIZED_RESPONSE_HEADER
    _response_formats[kind, version] = known = (header.pack, header.size - _SIZE_BYTES, version, encoder(kind, version))
    return known
