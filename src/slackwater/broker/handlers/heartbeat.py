"""Heartbeat, v0 to v4.

v1  throttle time in the answer
v3  instance id
v4  flexible

Nothing is asked as often as this, and there are few answers to it: they are encoded once. A member says the same as
long as its generation lasts, which is read once.
"""

from functools import cache

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.broker.repeats import Cut, Run
from slackwater.group.errors import Error
from slackwater.group.messages import Heartbeat
from slackwater.group.messages import HeartbeatResponse as Heard
from slackwater.wire.apis import HEARTBEAT
from slackwater.wire.envelope import PreencodedResponse, RequestHeader
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.repeats import SameFrames


def handle(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> None:
    """A member is alive."""

    def on_response(answer: Heard) -> None:
        context.respond_encoded(_encoded(answer.error, context.version).frame(context.correlation_id))

    broker.groups.submit(_beat(request), on_response)


def repeats(header: RequestHeader, request: HeartbeatRequest, frame: bytes) -> "Again":
    """What takes the same heartbeat."""
    return Again(SameFrames(frame), _beat(request), header.api_version)


class Again:
    """A heartbeat that comes again and again."""

    __slots__ = ("_beat", "_frames", "_version", "api_key")

    def __init__(self, frames: SameFrames, beat: Heartbeat, version: int) -> None:
        self.api_key = HEARTBEAT.key
        self._frames = frames
        self._beat = beat
        self._version = version

    @property
    def size(self) -> int:
        """The bytes of one of them."""
        return self._frames.size

    def cut(self, broker: Broker, data: bytes) -> Cut | None:
        """The heartbeats there."""
        ids = self._frames.cut(data)
        return Cut(ids, None, len(ids) * self._frames.size) if ids else None

    def handle(self, broker: Broker, run: Run, asked: None) -> None:
        """A member is alive; a heartbeat is always answered at once."""
        on_response: list[Heard] = []
        broker.groups.submit_all([(self._beat, on_response.append)] * run.count)
        version = self._version
        run.answer_all([_encoded(answer.error, version) for answer in on_response])

    def refusal(self) -> PreencodedResponse:
        """The answer where that failed."""
        return _encoded(Error.UNKNOWN_SERVER_ERROR, self._version)


def _beat(request: HeartbeatRequest) -> Heartbeat:
    return Heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id)


def error_response(request: HeartbeatRequest, version: int, error: Error) -> HeartbeatResponse:
    """Nothing but an error."""
    return HeartbeatResponse(error_code=error)


@cache
def _encoded(error: Error, version: int) -> PreencodedResponse:
    return PreencodedResponse(HeartbeatResponse(error_code=error), version)
