"""Messages to bytes and back, in any version: the front of the generated code.

Rules kept here
- Code for a message in a version is generated when it is first needed, and kept.
- Both directions raise `WireError` and nothing else, whatever the bytes or the values are.
"""

from functools import cache
from importlib import import_module
from typing import Final, TypeVar, cast

from slackwater.wire.apis import Api
from slackwater.wire.decode_errors import write_fault
from slackwater.wire.reading import Read, reader
from slackwater.wire.schema import Message, Request, Response, layout
from slackwater.wire.writing import Piece, Write, writer

M = TypeVar("M", bound=Message)

_readers: Final[dict[tuple[type[Message], int], Read]] = {}
_writers: Final[dict[tuple[type[Message], int], Write]] = {}


def decode(message: type[M], version: int, data: bytes, at: int = 0) -> M:
    """The message that stands in `data` from `at` to the end."""
    return decoder(message, version)(data, at)  # type: ignore[return-value]  # a cast would cost a call per message


def decoder(message: type[Message], version: int) -> Read:
    """The function (data, at) → message, for who decodes many."""
    read = _readers.get((message, version))
    if read is None:
        read = _readers[message, version] = reader(message, version)
    return read


def encode(message: Message, version: int) -> bytes:
    """The bytes of a message."""
    out: list[Piece] = []
    encoder(type(message), version)(message, out)
    try:
        return b"".join(out)
    except TypeError as error:  # a bytes field that holds something else shows only here
        kind = type(message)
        raise write_fault(layout(kind, version), f"{kind.__name__} v{version}", message) from error


def encoder(message: type[Message], version: int) -> Write:
    """The function (message, out) that adds a message to `out`, piece by piece, for who encodes many.

    What is bytes in it is added as it is, neither copied nor looked at.
    """
    write = _writers.get((message, version))
    if write is None:
        write = _writers[message, version] = writer(message, version)
    return write


@cache
def request_type(api: Api) -> type[Request]:
    """The class of an API's requests."""
    return cast(type[Request], _message(api, "Request"))


@cache
def response_type(api: Api) -> type[Response]:
    """The class of an API's answers."""
    return cast(type[Response], _message(api, "Response"))


def _message(api: Api, direction: str) -> type[Message]:
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in api.name).removeprefix("_")
    return cast(type[Message], getattr(import_module(f"slackwater.wire.messages.{snake}"), api.name + direction))
