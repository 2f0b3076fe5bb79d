"""The network between processes and the broker: it delays, loses, and cuts.

Rules kept here
- What one process sends arrives in the order sent, and so do the answers it gets.
- A cut link loses what is sent while it is cut; the sender finds out when its request times out. A broker that is down
  refuses at once.
- A link can lose one direction only, or one kind of request only (heartbeats that vanish while commits pass).
"""

from collections.abc import Callable

from slackwater.group.errors import Error
from slackwater.group.member.effects import MemberRequest, MemberResponse
from slackwater.group.messages import FindCoordinator, FindCoordinatorResponse, Response
from slackwater.sim.broker import NODE_ID, SimBroker
from slackwater.sim.event_queue import EventQueue
from slackwater.sim.seeded_random import SeededRandom

Answered = Callable[[MemberResponse], None]
Failed = Callable[[], None]


class NetworkLink:
    """One process's connection to the broker."""

    def __init__(self, agenda: EventQueue, dice: SeededRandom, broker: SimBroker, host: str) -> None:
        self.agenda = agenda
        self.dice = dice
        self.broker = broker
        self.host = host
        self.max_delay_ms = 20
        self.to_broker = True
        self.from_broker = True
        self.losing: type[MemberRequest] | None = None
        self._arrives_ms = 0
        self._returns_ms = 0

    def send(self, request: MemberRequest, timeout_ms: int, answered: Answered, failed: Failed) -> None:
        """Send a request; exactly one of `answered` and `failed` will be called."""
        done = False

        def once_answered(response: MemberResponse) -> None:
            nonlocal done
            if not done:
                done = True
                answered(response)

        def once_failed() -> None:
            nonlocal done
            if not done:
                done = True
                failed()

        self.agenda.after(timeout_ms, once_failed)
        if not self.to_broker or (self.losing is not None and isinstance(request, self.losing)):
            return
        self._arrives_ms = max(self._arrives_ms, self.agenda.now_ms + self.dice.between(0, self.max_delay_ms))
        self.agenda.at(self._arrives_ms, lambda: self._arrive(request, once_answered, once_failed))

    def _arrive(self, request: MemberRequest, answered: Answered, failed: Failed) -> None:
        if not self.broker.up:
            failed()
            return

        def reply(response: Response) -> None:
            if self.from_broker:
                self._return(lambda: answered(response))  # type: ignore[arg-type]  # a member's request, a member's answer

        if isinstance(request, FindCoordinator):
            node = FindCoordinatorResponse(Error.NONE, NODE_ID, "broker", 9092)
            self._return(lambda: answered(node))
        else:
            self.broker.receive(request, self.host, reply, lambda: self._return(failed))

    def _return(self, action: Callable[[], None]) -> None:
        self._returns_ms = max(self._returns_ms, self.agenda.now_ms + self.dice.between(0, self.max_delay_ms))
        self.agenda.at(self._returns_ms, action)
