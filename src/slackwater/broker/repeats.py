"""Runs of requests that say what the last of their kind said: what is remembered of it, and their answers.

Rules kept here
- Every request of a run is put to the core by itself, and has its own answer. Only what cannot differ is shared: the
  reading of the requests, and the bytes of their answers.
- A run's answers leave together, when the last of them is there.
- A request that comes alone is read as usual, which takes less time; so a client that waits for each answer pays
  nothing for all this. What is remembered and never comes again is not worth the trouble: after a few times it is left
  at that.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from slackwater.wire.envelope import PreencodedResponse

if TYPE_CHECKING:
    from slackwater.broker.broker import Broker
    from slackwater.broker.connection import Connection

FEWEST: Final = 2
MOST_WASTED: Final = 16


class Run:
    """Requests that came together and say the same, and the answers they are owed."""

    __slots__ = ("_answers", "_correlation_ids", "_left", "api_key", "connection", "count", "frame", "since")

    def __init__(self, connection: "Connection", api_key: int, correlation_ids: list[bytes]) -> None:
        self.connection = connection
        self.api_key = api_key
        self.since = connection.heard
        self.count = self._left = len(correlation_ids)
        self.frame: bytes | None = None  # all answers; None: not all are there
        self._correlation_ids = correlation_ids
        self._answers: list[PreencodedResponse | None] = [None] * self.count

    def answer_all(self, answers: list[PreencodedResponse]) -> None:
        """Answer every request, in their order."""
        self._left = 0
        self._finish(answers)

    def answer(self, place: int, answer: PreencodedResponse) -> None:
        """Answer one request, by its place in the run."""
        answers = self._answers
        if answers[place] is None:
            answers[place] = answer
            self._left -= 1
            if not self._left:
                self._finish(answers)  # type: ignore[arg-type]  # none is missing

    def answer_rest(self, answer: PreencodedResponse) -> None:
        """Answer all that have no answer yet."""
        if self._left:
            self.answer_all([one or answer for one in self._answers])

    def _finish(self, answers: list[PreencodedResponse]) -> None:
        first = answers[0]
        if answers.count(first) == len(answers):  # no two are equal that are not the same
            self.frame = frame = first.frames(self._correlation_ids)
        else:
            self.frame = frame = b"".join(
                [answer.frames((one,)) for answer, one in zip(answers, self._correlation_ids, strict=True)]
            )
        self.connection.ready(len(frame), self.count)


class Cut(NamedTuple):
    """Requests cut from the beginning of what came."""

    correlation_ids: list[bytes]
    asked: Any  # what else is known of them
    size: int  # in bytes, all together


class Repeats(Protocol):
    """What takes the requests of one connection that say what the last of their kind said."""

    api_key: int

    @property
    def size(self) -> int:
        """The bytes of one of them."""
        ...

    def cut(self, broker: "Broker", data: bytes) -> Cut | None:
        """The requests that this begins with, if they say it and it still means the same."""
        ...

    def handle(self, broker: "Broker", run: Run, asked: Any) -> None:
        """Do what they ask, and answer now or later."""
        ...

    def refusal(self) -> PreencodedResponse:
        """The answer where that failed."""
        ...


class Remembered:
    """What is kept of one kind of request on a connection."""

    __slots__ = ("repeats", "wasted")

    def __init__(self) -> None:
        self.repeats: Repeats | None = None
        self.wasted = 0  # how often in a row something was remembered and did not come again
