"""One client's story in a group: its stays and its absences, and what its own log says.

Rules kept here
- A story is of one static instance, or of one client id; where several members have that in common, of one member.
- What was heard stands in order of time, and is put down once: whatever follows from it is asked for.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from slackwater.doctor.events.rows import Row, within
from slackwater.doctor.timeline.membership_intervals import End, Term

_GONE: Final = End.GONE
NEAR_MS: Final = 2_000
"""How far a client's line and the broker's may lie apart and still tell of one thing: one request and two clocks."""


class Story:
    """All that is known of one client (or one static instance)."""

    # Most stories are of members whose own logs nobody read: what these would have told is there once for all of them.
    started: Sequence[Row] = ()
    subscribes: Sequence[Row] = ()
    overruns: Sequence[Row] = ()
    lost: Sequence[Row] = ()
    leaves: Sequence[Row] = ()
    closes: Sequence[Row] = ()
    failures: Sequence[Row] = ()
    refused: Sequence[Row] = ()
    coordinator_lost: Sequence[Row] = ()
    rejoins: Sequence[Row] = ()
    said_ms: Sequence[int] = ()
    """When its own log said anything at all."""
    topics: Sequence[tuple[int, frozenset[str]]] = ()
    assignors: Sequence[tuple[int, tuple[str, ...]]] = ()
    settings: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, name: str, client: str | None = None, instance: str | None = None, anonymous: bool = False
    ) -> None:
        self.name = name
        self.client = client
        self.instance = instance
        self.anonymous = anonymous
        """Its name is a member id, for others have its client id too: it is not known again when it comes back."""
        self.terms: list[Term] = []

    def note(self, what: str, told: object) -> None:
        """Put something down after what was told of the same before."""
        before = self.__dict__.get(what)
        if before is None:
            self.__dict__[what] = [told]
        else:
            before.append(told)

    @property
    def starts(self) -> Sequence[Row]:
        """When its process came up; of a library that does not say so, when it subscribed."""
        return self.started or self.subscribes

    @property
    def logged(self) -> bool:
        """Its own log is among what was read."""
        return bool(self.said_ms)

    def without_coordinator(self) -> list[Row]:
        """When it lost its coordinator, but not by closing."""
        return [
            row
            for row in self.coordinator_lost
            if not within(self.leaves, row.time_ms - NEAR_MS, row.time_ms + NEAR_MS)
            and not within(self.closes, row.time_ms - NEAR_MS, row.time_ms + NEAR_MS)
        ]

    def said_between(self, begin_ms: int, end_ms: int) -> bool:
        """Its own log says something in between."""
        return bisect_right(self.said_ms, end_ms) > bisect_left(self.said_ms, begin_ms)

    @cached_property
    def limit_ms(self) -> int | None:
        """max.poll.interval.ms, as the client's log or its joins tell it."""
        for row in self.overruns:
            if limit := row.number("limit_ms"):
                return limit
        if limit := self._setting_ms("max.poll.interval.ms"):
            return limit
        return next((term.rebalance_timeout_ms for term in self.terms if term.rebalance_timeout_ms), None)

    @cached_property
    def session_ms(self) -> int | None:
        """session.timeout.ms, as its log or its joins tell it."""
        if session := self._setting_ms("session.timeout.ms"):
            return session
        return next((term.session_timeout_ms for term in self.terms if term.session_timeout_ms), None)

    def _setting_ms(self, name: str) -> int | None:
        value = self.settings.get(name, "")
        return int(value) if value.isdigit() else None


class Absence(NamedTuple):
    """A member went; and perhaps the same client came back."""

    story: Story
    term: Term
    left_ms: int
    back: Term | None
    same_process: bool | None
    overlapped: bool
    """Its next id was asked for while this one was still a member."""

    @property
    def end(self) -> End:
        """How the term ended."""
        return self.term.end or _GONE

    @property
    def back_ms(self) -> int | None:
        """When the client came back."""
        return None if self.back is None else self.back.joined_ms

    @property
    def away_ms(self) -> int | None:
        """For how long it was away."""
        return None if self.back is None else max(0, self.back.joined_ms - self.left_ms)

    @property
    def evidence(self) -> Row | None:
        """The line that tells of it."""
        return self.term.ended
