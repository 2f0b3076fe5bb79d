"""The simulated network between processes and the broker, with delays and losses.

Invariants:
- Requests of one process arrive in order, and so do its responses.
- A disabled link loses messages; the sender notices when its request times out. A broker that is down fails requests
  at once.
- A link can lose one direction only, or one type of request only.
"""

from collections.abc import Callable

from slackwater.group.errors import Error
from slackwater.group.member.effects import MemberRequest, MemberResponse
from slackwater.group.messages import FindCoordinator, FindCoordinatorResponse, Response
from slackwater.sim.broker import NODE_ID, SimBroker
from slackwater.sim.event_queue import EventQueue
from slackwater.sim.seeded_random import SeededRandom

OnResponse = Callable[[MemberResponse], None]
OnFailure = Callable[[], None]


class NetworkLink:
    """The connection of one process to the broker."""

    def __init__(self, queue: EventQueue, random: SeededRandom, broker: SimBroker, host: str) -> None:
        self.queue = queue
        self.random = random
        self.broker = broker
        self.host = host
        self.max_delay_ms = 20
        self.to_broker = True
        self.from_broker = True
        self.dropped_type: type[MemberRequest] | None = None
        self._next_arrival_ms = 0
        self._next_return_ms = 0

    def send(self, request: MemberRequest, timeout_ms: int, on_response: OnResponse, on_failure: OnFailure) -> None:
        """Send a request; exactly one of `on_response` and `on_failure` is called."""
        done = False

        def respond_once(response: MemberResponse) -> None:
            nonlocal done
            if not done:
                done = True
                on_response(response)

        def fail_once() -> None:
            nonlocal done
            if not done:
                done = True
                on_failure()

        self.queue.after(timeout_ms, fail_once)
        if not self.to_broker or (self.dropped_type is not None and isinstance(request, self.dropped_type)):
            return
        self._next_arrival_ms = max(
            self._next_arrival_ms, self.queue.now_ms + self.random.between(0, self.max_delay_ms)
        )
        self.queue.at(self._next_arrival_ms, lambda: self._arrive(request, respond_once, fail_once))

    def _arrive(self, request: MemberRequest, on_response: OnResponse, on_failure: OnFailure) -> None:
        if not self.broker.up:
            on_failure()
            return

        def reply(response: Response) -> None:
            if self.from_broker:
                self._return(lambda: on_response(response))  # type: ignore[arg-type]  # a member's request gets a member's response

        if isinstance(request, FindCoordinator):
            node = FindCoordinatorResponse(Error.NONE, NODE_ID, "broker", 9092)
            self._return(lambda: on_response(node))
        else:
            self.broker.receive(request, self.host, reply, lambda: self._return(on_failure))

    def _return(self, action: Callable[[], None]) -> None:
        self._next_return_ms = max(self._next_return_ms, self.queue.now_ms + self.random.between(0, self.max_delay_ms))
        self.queue.at(self._next_return_ms, action)
