"""What a handler file is.

Rules kept here
- One file per API, named like its message file. Its docstring holds the version notes that matter to the broker.
- `handle(node, call, request)` answers through `call`, now or later. What differs between versions is settled there:
  the core and the logs know no versions. A field that a version does not have is not written, so it may be set.
- `repeats(header, request, frame)`, where a file has it, is what takes the requests of a connection that say what this
  one says (`broker.repeats`); None where there can be none. What stands in the place of a handler has none either, and
  sees every request.
- `IDLES`, where a file has it, says that its requests may be taken by what it left on the connection
  (`broker.idle_fetches`). What stands in the place of a handler leaves nothing there, and takes everything.
- `refuse(request, version, error)` is the answer that says nothing but an error, in the shape that this API gives it:
  on the whole, or on every topic and partition asked for.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from slackwater.group.errors import Error
from slackwater.wire.apis import Api
from slackwater.wire.envelope import RequestHeader
from slackwater.wire.schema import Response

if TYPE_CHECKING:
    from slackwater.broker.broker import Node
    from slackwater.broker.connection import Call
    from slackwater.broker.repeats import Repeats


class Handle(Protocol):
    """Do what a request asks, and answer now or later."""

    def __call__(self, node: "Node", call: "Call", request: Any, /) -> None: ...


class Refuse(Protocol):
    """An answer that says nothing but an error."""

    def __call__(self, request: Any, version: int, error: Error, /) -> Response: ...


class Remember(Protocol):
    """What takes the requests that say what this one says."""

    def __call__(self, header: RequestHeader, request: Any, frame: bytes, /) -> "Repeats | None": ...


class Handler(NamedTuple):
    """One API."""

    api: Api
    handle: Handle
    refuse: Refuse
    repeats: Remember | None = None
    idles: bool = False
