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

from slackwater.wire.alike import ALIKE, alike
from slackwater.wire.apis import API_VERSIONS, APIS, HEARTBEAT
from slackwater.wire.codec import decode, decoder, encode, encoder, request_type
from slackwater.wire.errors import WireError
from slackwater.wire.reading import READ_FAULTS, Read, skip_tagged
from slackwater.wire.schema import MAX_STRING_BYTES, STRING, Message, Request, Response, layout
from slackwater.wire.writing import WRITE_FAULTS, Piece, Write, length_writer

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
_HEARTBEAT: Final = HEARTBEAT.key.to_bytes(2, "big")
_CLIENT_ID_AT: Final = 9  # the lower byte of its length: few are longer than it can say
_MOST_SEEN: Final = 1_024  # headers that are kept of each API and version
_MOST_ALIKE: Final = 256

# By the first four bytes of a request: how its body is read, and whether tagged fields end its header.
_bodies: Final[dict[bytes, tuple[Read, bool]]] = {}
# By the same: how the broker reads its body, how long its header is but for the client id, and what headers were seen,
# by what stands in them behind the correlation id: API, version, client id, and where the body begins.
_Seen = dict[bytes, tuple[int, int, str | None, int]]
_kinds: Final[dict[bytes, tuple[Read, int, _Seen]]] = {}
# By class and version of an answer: what packs its size and header, the header's length, the body's version, and what
# writes the body.
_Head = tuple[Callable[[int, int], bytes], int, int, Write]
_heads: Final[dict[tuple[type[Message], int], _Head]] = {}
# By class and version of an answer and the name of a field, a string or bytes: what writes its length, how many bytes
# that takes where it is empty, and how many bytes stand behind it.
_Place = tuple[Callable[[int], bytes], int, int]
_places: Final[dict[tuple[type[Message], int, str], _Place]] = {}


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
    """Reads one connection's requests.

    A header that was seen before, on whichever connection, is looked up; only its correlation id is read. Requests
    that members of a group send alike are mostly compared (`alike`). A heartbeat that says what the last one said is
    not read again: the same request is given out. Members send the same one for as long as their generation lasts.
    So what is given out has parts that others have, too, and nobody may change it.
    """

    __slots__ = ("_header", "_said", "_same", "_start")

    def __init__(self) -> None:
        self._said: bytes | None = None  # all that stood behind the correlation id of the last heartbeat
        self._start = b""  # and before it
        self._header: RequestHeader
        self._same: Request

    def decode(self, frame: bytes) -> tuple[RequestHeader, Request]:
        """The header and the body of a request."""
        start = frame[:_CORRELATION_AT]
        said = self._said
        if said is not None and frame[_CORRELATION_ENDS_AT:] == said and start == self._start:
            (correlation_id,) = _ANSWER.unpack_from(frame, _CORRELATION_AT)
            key, version, _, client_id = self._header
            return tuple.__new__(RequestHeader, (key, version, correlation_id, client_id)), self._same
        kind = _kinds.get(start)
        if kind is None or len(frame) < _REQUEST.size:
            kind = _learn_kind(frame)
        read, header_bytes, seen = kind
        known = seen.get(frame[_CORRELATION_ENDS_AT : header_bytes + frame[_CLIENT_ID_AT]])
        if known is None:
            header, _, at = _decode_header(frame)
            if at == header_bytes + frame[_CLIENT_ID_AT]:  # so it is unless the client id is null or very long
                if len(seen) >= _MOST_SEEN:
                    seen.clear()
                seen[frame[_CORRELATION_ENDS_AT:at]] = (header.api_key, header.api_version, header.client_id, at)
        else:
            (correlation_id,) = _ANSWER.unpack_from(frame, _CORRELATION_AT)
            key, version, client_id, at = known
            # The tuple itself is made, not through the class's slower `__new__`.
            header = tuple.__new__(RequestHeader, (key, version, correlation_id, client_id))
        request: Request = read(frame, at)  # type: ignore[assignment]  # a cast would cost a call per request
        if start[:2] == _HEARTBEAT:
            self._start, self._said, self._header, self._same = start, frame[_CORRELATION_ENDS_AT:], header, request
        else:
            self._said = None
        return header, request


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
    header = tuple.__new__(RequestHeader, (key, version, correlation_id, client_id))
    return header, read, at


def encode_response(response: Response, version: int, correlation_id: int) -> bytes:
    """A frame with an answer."""
    head, size, version, write = _heads.get((type(response), version)) or _learn_response(type(response), version)
    out: list[Piece] = []
    write(response, out)
    try:
        body = b"".join(out)
    except TypeError:  # a bytes field that holds something else
        body = encode(response, version)  # which says where
    return head(size + len(body), correlation_id) + body


class PreencodedResponse:
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


class AnswerAlike:
    """An answer that is the same for many but for its correlation id and one field, a string or bytes; encoded once."""

    __slots__ = ("_before", "_behind", "_bytes", "_length", "_title")

    def __init__(self, response: Response, version: int, varied: str) -> None:
        """`response` is one of them, with that field empty."""
        frame = encode_response(response, version, 0)
        known = _places.get((type(response), version, varied))
        self._length, length_bytes, behind = known or _find_place(type(response), version, varied)
        end = len(frame) - behind
        self._before, self._behind = frame[_SIZED_ANSWER.size : end - length_bytes], frame[end:]
        self._bytes = len(frame) - _SIZE - length_bytes
        self._title = f"{type(response).__name__} v{version}: {varied}"

    def frame(self, correlation_id: int, value: bytes) -> bytes:
        """A frame with it, and with this in the field."""
        try:
            length = self._length(len(value))
        except WRITE_FAULTS as error:
            raise WireError(f"{self._title} takes {len(value)} bytes, which is too long.") from error
        size = self._bytes + len(length) + len(value)
        return b"".join((_SIZED_ANSWER.pack(size, correlation_id), self._before, length, value, self._behind))


class AnswersAlike(dict[tuple[object, ...], AnswerAlike]):
    """Answers of one kind by what they say beside the field that varies; not more of them than pays."""

    def __init__(self, varied: str) -> None:
        super().__init__()
        self._varied = varied

    def learn(self, said: tuple[object, ...], response: Response, version: int) -> AnswerAlike:
        """Keep this one; its field that varies is empty."""
        if len(self) >= _MOST_ALIKE:
            self.clear()
        self[said] = alike = AnswerAlike(response, version, self._varied)
        return alike


def _find_place(kind: type[Response], version: int, varied: str) -> _Place:
    (shape,) = [slot.shape for slot in layout(kind, version).slots if slot.name == varied]
    empty, other = ("", "a") if shape.kind is STRING else (b"", b"a")
    without, having = (encode(kind(**{varied: value}), version) for value in (empty, other))
    length = length_writer(shape, flexible=kind.API.is_flexible(version))
    before = next(at for at, (one, two) in enumerate(zip(without, having, strict=False)) if one != two)
    # The last byte of the length is the first that differs.
    _places[kind, version, varied] = place = (length, len(length(0)), len(without) - before - 1)
    return place


def response_pieces(response: Response, version: int, correlation_id: int) -> list[Piece]:
    """A frame with an answer, in pieces; records stand among them as they are, for answers too large to copy."""
    head, size, version, write = _heads.get((type(response), version)) or _learn_response(type(response), version)
    out: list[Piece] = [b""]
    write(response, out)
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


def _learn_kind(frame: bytes) -> tuple[Read, int, _Seen]:
    """How requests that begin like this one are read; one that is too short for a header is refused."""
    header, read, _ = _decode_header(frame)
    key, version = header.api_key, header.api_version
    flexible = APIS[key].is_flexible(version)
    if flexible and APIS[key] in ALIKE:
        read = alike(request_type(APIS[key]), version, read)
    kind = (read, _REQUEST.size + flexible, _Seen())
    if APIS[key].speaks(version):  # there is no end to the others, and ApiVersions has an answer to all of them
        _kinds[frame[:_CORRELATION_AT]] = kind
    return kind


def _learn_response(kind: type[Response], version: int) -> _Head:
    api = kind.API
    if api is API_VERSIONS and not api.speaks(version):
        return _SIZED_ANSWER.pack, _SIZED_ANSWER.size - _SIZE, 0, encoder(kind, 0)
    head = _SIZED_FLEXIBLE_ANSWER if api.response_header_version(version) else _SIZED_ANSWER
    _heads[kind, version] = known = (head.pack, head.size - _SIZE, version, encoder(kind, version))
    return known
