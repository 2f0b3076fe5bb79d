"""A request or an answer as it stands in a frame: its size, its header, its body.

Rules kept here
- Encoding gives a whole frame, size first, ready to send; decoding takes what follows the size.
- The header's version follows from the API and the version of the body (`apis`).
- An ApiVersions request in a version that nobody knows here is read as an empty one under its own number, and its
  answer is written in v0, with UNSUPPORTED_VERSION: that is how a newer client finds out what an older broker speaks
  (KIP-511). Read back, such an answer is recognised by its error, whatever version was asked for.
- Any other unknown API or version is a `WireError`.

A broker:

    header, request = decode_request(frame)
    match request:
        case HeartbeatRequest():
            answer = HeartbeatResponse(error_code=…)
    connection.write(encode_response(answer, header.api_version, header.correlation_id))

A client:

    connection.write(encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id, client_id))
    correlation_id, answer = decode_response(HeartbeatResponse, 4, frame)
"""

import struct
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from slackwater.wire.apis import API_VERSIONS, APIS, HEARTBEAT
from slackwater.wire.codec import decode, decoder, encode, encode_pieces, request_type
from slackwater.wire.errors import WireError
from slackwater.wire.reading import READ_FAULTS, Read, skip_tagged
from slackwater.wire.schema import MAX_STRING_BYTES, Message, Request, Response
from slackwater.wire.writing import Piece

R = TypeVar("R", bound=Response)

UNSUPPORTED_VERSION: Final = 35
_REQUEST: Final = struct.Struct(">hhih")  # key, version, correlation id, length of the client id
_SIZED_REQUEST: Final = struct.Struct(">ihhih")
_CORRELATION_AT: Final = 4
_CORRELATION_ENDS_AT: Final = 8
_ANSWER: Final = struct.Struct(">i")
_SIZED_ANSWER: Final = struct.Struct(">ii")
_SIZED_FLEXIBLE_ANSWER: Final = struct.Struct(">iix")
_ERROR_CODE: Final = struct.Struct(">h")
_SIZE: Final = 4

# By the first four bytes of a request: how its body is read, and whether tagged fields end its header.
_bodies: Final[dict[bytes, tuple[Read, bool]]] = {}
# By class and version of an answer: what packs its size and header, the header's length, and the body's version.
_heads: Final[dict[tuple[type[Message], int], tuple[Callable[[int, int], bytes], int, int]]] = {}


class RequestHeader(NamedTuple):
    """What every request begins with."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request(frame: bytes) -> tuple[RequestHeader, Request]:
    """The header and the body of a request."""
    header, read, at = _decode_header(frame)
    return header, read(frame, at)  # type: ignore[return-value]  # a cast would cost a call per request


class RequestReader:
    """Reads one connection's requests; of a header that begins like the one before only the correlation id is read.

    A heartbeat that says what the last one said is not read again: the same request is given out, which nobody may
    change. Members send the same one for as long as their generation lasts.
    """

    __slots__ = ("_body_at", "_client_id", "_key", "_read", "_rest", "_said", "_same", "_start", "_version")

    def __init__(self) -> None:
        self._key = self._version = 0
        self._client_id: str | None = None
        self._read: Read
        self._start: bytes | None = None  # API and version, which stand before the correlation id
        self._rest = b""  # the client id and the tagged fields, which stand behind it
        self._body_at = _CORRELATION_ENDS_AT
        self._said: bytes | None = None  # all that stood behind the correlation id of the last heartbeat
        self._same: Request

    def decode(self, frame: bytes) -> tuple[RequestHeader, Request]:
        """The header and the body of a request."""
        said = self._said
        if said is not None and frame[_CORRELATION_ENDS_AT:] == said and frame[:_CORRELATION_AT] == self._start:
            (correlation_id,) = _ANSWER.unpack_from(frame, _CORRELATION_AT)
            known = (self._key, self._version, correlation_id, self._client_id)
            return tuple.__new__(RequestHeader, known), self._same
        header, request = self._decode(frame)
        if self._key == HEARTBEAT.key:
            self._said, self._same = frame[_CORRELATION_ENDS_AT:], request
        else:
            self._said = None
        return header, request

    def _decode(self, frame: bytes) -> tuple[RequestHeader, Request]:
        at = self._body_at
        if frame[:_CORRELATION_AT] == self._start and frame[_CORRELATION_ENDS_AT:at] == self._rest:
            (correlation_id,) = _ANSWER.unpack_from(frame, _CORRELATION_AT)
            known = (self._key, self._version, correlation_id, self._client_id)
            return tuple.__new__(RequestHeader, known), self._read(frame, at)  # type: ignore[return-value]
        header, self._read, self._body_at = _decode_header(frame)
        self._key, self._version, _, self._client_id = header
        self._start, self._rest = frame[:_CORRELATION_AT], frame[_CORRELATION_ENDS_AT : self._body_at]
        return header, self._read(frame, self._body_at)  # type: ignore[return-value]


def _decode_header(frame: bytes) -> tuple[RequestHeader, Read, int]:
    """The header of a request, how its body is read, and where that begins."""
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(frame)
    except struct.error as error:
        raise WireError(f"Request header takes {_REQUEST.size} bytes, and the frame has {len(frame)}.") from error
    read, flexible = _bodies.get(frame[:4]) or _learn_request(frame[:4], key, version)
    at = _REQUEST.size
    client_id: str | None = None
    if length >= 0:
        end = at + length
        if end > len(frame):
            raise WireError(f"Request header: client_id takes {length} bytes, and {len(frame) - at} are left.")
        try:
            client_id = frame[at:end].decode()
        except UnicodeDecodeError as error:
            raise WireError(f"Request header: client_id is not UTF-8: {error}.") from error
        at = end
    elif length != -1:
        raise WireError(f"Request header: client_id has length {length}.")
    if flexible:
        # Nobody sends tagged fields in a header yet: the byte that counts them is 0.
        at = at + 1 if frame[at : at + 1] == b"\x00" else _after_tags(frame, at, "Request header")
    # The tuple itself is made, not through the class's slower `__new__`.
    header = tuple.__new__(RequestHeader, (key, version, correlation_id, client_id))
    return header, read, at


def encode_response(response: Response, version: int, correlation_id: int) -> bytes:
    """A frame with an answer."""
    head, size, version = _heads.get((type(response), version)) or _learn_response(type(response), version)
    body = encode(response, version)
    return head(size + len(body), correlation_id) + body


class FixedAnswer:
    """An answer that is always the same but for its correlation id, encoded once; for those given very often."""

    __slots__ = ("_body", "_size")

    def __init__(self, response: Response, version: int) -> None:
        frame = encode_response(response, version, 0)
        self._size = frame[:_SIZE]
        self._body = frame[_SIZE + _ANSWER.size :]

    def frame(self, correlation_id: int) -> bytes:
        """A frame with it."""
        return self._size + _ANSWER.pack(correlation_id) + self._body

    def frame_for(self, correlation_id: bytes) -> bytes:
        """A frame with it, for an id as it stands in the request."""
        return self._size + correlation_id + self._body

    def frames(self, correlation_ids: Iterable[bytes]) -> bytes:
        """A frame for each of these ids, one after the other; they are given as they stand in the requests."""
        return self._size + (self._body + self._size).join(correlation_ids) + self._body


def response_pieces(response: Response, version: int, correlation_id: int) -> list[Piece]:
    """A frame with an answer, in pieces; records stand among them as they are, for answers too large to copy."""
    head, size, version = _heads.get((type(response), version)) or _learn_response(type(response), version)
    out: list[Piece] = [b""]
    encode_pieces(out, response, version)
    out[0] = head(size + sum(map(len, out)), correlation_id)
    return out


def encode_request(request: Request, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A frame with a request."""
    api = request.API
    body = encode(request, version)
    try:
        raw = b"" if client_id is None else client_id.encode()
    except UnicodeEncodeError as error:
        raise WireError(f"Request header: client_id cannot be written as UTF-8: {error}.") from error
    if len(raw) > MAX_STRING_BYTES:
        raise WireError(f"Request header: client_id takes {len(raw)} bytes, and may take {MAX_STRING_BYTES}.")
    tags = b"\x00" if api.is_flexible(version) else b""
    size = _REQUEST.size + len(raw) + len(tags) + len(body)
    length = -1 if client_id is None else len(raw)
    return b"".join((_SIZED_REQUEST.pack(size, api.key, version, correlation_id, length), raw, tags, body))


def decode_response(response: type[R], version: int, frame: bytes) -> tuple[int, R]:
    """The correlation id and the body of an answer to a request that was sent in this version."""
    api = response.API
    if len(frame) < _ANSWER.size:
        raise WireError(f"Response header takes {_ANSWER.size} bytes, and the frame has {len(frame)}.")
    (correlation_id,) = _ANSWER.unpack_from(frame)
    at = _ANSWER.size
    if api.response_header_version(version):
        at = _after_tags(frame, at, "Response header")
    if api is API_VERSIONS and frame[at : at + _ERROR_CODE.size] == _ERROR_CODE.pack(UNSUPPORTED_VERSION):
        version = 0
    return correlation_id, decode(response, version, frame, at)


def _after_tags(frame: bytes, at: int, title: str) -> int:
    """Where a header ends that has tagged fields; none is known, so all are skipped."""
    try:
        count = frame[at]
        at = skip_tagged(frame, at + 1, count) if count else at + 1
    except READ_FAULTS as error:
        raise WireError(f"{title}: its tagged fields at byte {at} are cut off or malformed.") from error
    if at > len(frame):
        raise WireError(f"{title}: its tagged fields end at byte {at}, and the frame has {len(frame)}.")
    return at


def _learn_request(start: bytes, key: int, version: int) -> tuple[Read, bool]:
    api = APIS.get(key)
    if api is None:
        raise WireError(f"Request header: API key {key} is unknown.")
    kind = request_type(api)
    if api is API_VERSIONS and not api.speaks(version):
        return (lambda data, at: kind()), api.is_flexible(version)
    _bodies[start] = known = (decoder(kind, version), api.is_flexible(version))
    return known


def _learn_response(kind: type[Response], version: int) -> tuple[Callable[[int, int], bytes], int, int]:
    api = kind.API
    if api is API_VERSIONS and not api.speaks(version):
        return _SIZED_ANSWER.pack, _SIZED_ANSWER.size - _SIZE, 0
    head = _SIZED_FLEXIBLE_ANSWER if api.response_header_version(version) else _SIZED_ANSWER
    _heads[kind, version] = known = (head.pack, head.size - _SIZE, version)
    return known
