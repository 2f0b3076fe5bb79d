"""Encodes and decodes messages in any version with generated code.

Invariants:
- The code for a message in a version is generated on first use.
- Both directions raise only `WireError`, whatever the bytes or values are.
"""

from functools import cache
from importlib import import_module
from typing import Final, TypeVar, cast

from slackwater.wire.apis import Api
from slackwater.wire.decode_errors import encode_error
from slackwater.wire.decoder_generator import Read, reader
from slackwater.wire.encoder_generator import Piece, Write, writer
from slackwater.wire.schema import Message, Request, Response, layout

M = TypeVar("M", bound=Message)

_readers: Final[dict[tuple[type[Message], int], Read]] = {}
_writers: Final[dict[tuple[type[Message], int], Write]] = {}


def decode(message: type[M], version: int, data: bytes, at: int = 0) -> M:
    """Decode the message in `data` from `at` to the end."""
    return decoder(message, version)(data, at)  # type: ignore[return-value]  # a cast would cost a call per message


def decoder(message: type[Message], version: int) -> Read:
    """Return the function (data, at) → message."""
    read = _readers.get((message, version))
    if read is None:
        read = _readers[message, version] = reader(message, version)
    return read


def encode(message: Message, version: int) -> bytes:
    """Encode a message."""
    out: list[Piece] = []
    encoder(type(message), version)(message, out)
    try:
        return b"".join(out)
    except TypeError as error:  # a bytes field with a value of another type
        kind = type(message)
        raise encode_error(layout(kind, version), f"{kind.__name__} v{version}", message) from error


def encoder(message: type[Message], version: int) -> Write:
    """Return the function (message, out) that appends the pieces of a message to `out`; bytes are not copied."""
    write = _writers.get((message, version))
    if write is None:
        write = _writers[message, version] = writer(message, version)
    return write


@cache
def request_type(api: Api) -> type[Request]:
    """Return the request class of an API."""
    return cast(type[Request], _message(api, "Request"))


@cache
def response_type(api: Api) -> type[Response]:
    """Return the response class of an API."""
    return cast(type[Response], _message(api, "Response"))


def _message(api: Api, direction: str) -> type[Message]:
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in api.name).removeprefix("_")
    return cast(type[Message], getattr(import_module(f"slackwater.wire.messages.{snake}"), api.name + direction))
