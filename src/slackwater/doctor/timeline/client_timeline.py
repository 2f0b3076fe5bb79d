"""The timeline of one client in a group: its membership intervals, its departures, and the rows of its own log.

Invariants:
- A timeline belongs to one static instance or one client id. If several members share a client id, it belongs to one
  member.
- Rows are appended in order of time.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from slackwater.doctor.events.rows import Row, within
from slackwater.doctor.timeline.membership_intervals import MembershipEnd, MembershipInterval

_GONE: Final = MembershipEnd.GONE
NEAR_MS: Final = 2_000
"""Maximum distance between a client's line and the broker's line about one event: one request and two clocks."""


@dataclass(slots=True)
class ClientLog:
    """The rows of a client's own log, by what they report."""

    started: list[Row] = field(default_factory=list)
    subscribes: list[Row] = field(default_factory=list)
    overruns: list[Row] = field(default_factory=list)
    lost: list[Row] = field(default_factory=list)
    leaves: list[Row] = field(default_factory=list)
    closes: list[Row] = field(default_factory=list)
    failures: list[Row] = field(default_factory=list)
    coordinator_lost: list[Row] = field(default_factory=list)
    rejoins: list[Row] = field(default_factory=list)
    assigned: list[Row] = field(default_factory=list)
    logged_ms: list[int] = field(default_factory=list)
    """Times of all rows."""


_NO_LOG: Final = ClientLog()
"""Shared by all clients without a log of their own: these are most."""


class ClientTimeline:
    """Everything known about one client (or one static instance)."""

    def __init__(
        self, name: str, client: str | None = None, instance: str | None = None, anonymous: bool = False
    ) -> None:
        self.name = name
        self.client = client
        self.instance = instance
        self.anonymous = anonymous
        """Its name is a member id because others share its client id: it is not recognised when it comes back."""
        self.intervals: list[MembershipInterval] = []
        self.log = _NO_LOG
        self.topics: list[tuple[int, frozenset[str]]] = []
        self.assignors: list[tuple[int, tuple[str, ...]]] = []
        self.settings: Mapping[str, str] = MappingProxyType({})

    def create_log(self) -> ClientLog:
        """Return its log, to which rows are added."""
        if self.log is _NO_LOG:
            self.log = ClientLog()
        return self.log

    @property
    def starts(self) -> Sequence[Row]:
        """Starts of its process; for libraries that do not log a start, its subscriptions."""
        return self.log.started or self.log.subscribes

    @property
    def has_log(self) -> bool:
        """Whether its own log was read."""
        return bool(self.log.logged_ms)

    def without_coordinator(self) -> list[Row]:
        """Return the rows in which it lost its coordinator, except while closing."""
        return [
            row
            for row in self.log.coordinator_lost
            if not within(self.log.leaves, row.time_ms - NEAR_MS, row.time_ms + NEAR_MS)
            and not within(self.log.closes, row.time_ms - NEAR_MS, row.time_ms + NEAR_MS)
        ]

    def logged_between(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether its own log has a row in this time."""
        return bisect_right(self.log.logged_ms, end_ms) > bisect_left(self.log.logged_ms, begin_ms)

    @cached_property
    def limit_ms(self) -> int | None:
        """max.poll.interval.ms, from the client's log or its joins."""
        for row in self.log.overruns:
            if limit := row.detail_number("limit_ms"):
                return limit
        if limit := self._setting_ms("max.poll.interval.ms"):
            return limit
        return next(
            (interval.rebalance_timeout_ms for interval in self.intervals if interval.rebalance_timeout_ms), None
        )

    @cached_property
    def session_ms(self) -> int | None:
        """session.timeout.ms, from the client's log or its joins."""
        if session := self._setting_ms("session.timeout.ms"):
            return session
        return next((interval.session_timeout_ms for interval in self.intervals if interval.session_timeout_ms), None)

    def _setting_ms(self, name: str) -> int | None:
        value = self.settings.get(name, "")
        return int(value) if value.isdigit() else None


class Departure(NamedTuple):
    """The end of a membership interval, with the next interval of the same client if it came back."""

    timeline: ClientTimeline
    interval: MembershipInterval
    left_ms: int
    back: MembershipInterval | None
    same_process: bool | None
    """Whether the same process came back; None if unknown."""
    overlapped: bool
    """The client requested its next member id while this one was still a member."""

    @property
    def end(self) -> MembershipEnd:
        """How the interval ended."""
        return self.interval.end or _GONE

    @property
    def back_ms(self) -> int | None:
        """When the client came back."""
        return None if self.back is None else self.back.joined_ms

    @property
    def away_ms(self) -> int | None:
        """How long the client was away."""
        return None if self.back is None else max(0, self.back.joined_ms - self.left_ms)

    @property
    def evidence(self) -> Row | None:
        """The row that reports the end."""
        return self.interval.ended
