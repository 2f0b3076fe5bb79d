"""What the broker counts: requests and their times by API, group events by kind.

Rules kept here
- Counting is a few additions per request: no locks, no label look-ups. Names and labels are made when somebody reads.
- A request's time runs from its last byte to the moment its answer leaves, waiting included.
"""

from bisect import bisect_left
from collections.abc import Sequence
from time import monotonic
from typing import Final

from slackwater.broker.connection import RequestContext
from slackwater.broker.repeats import Run
from slackwater.group.events import GroupEvent, RebalanceCompleted

# Upper bounds of request times, in seconds; what is slower stands in one more.
TIME_BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class Tally:
    """How often an API was answered, and how fast."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(TIME_BOUNDS) + 1)


class Metrics:
    """All counts of a broker."""

    def __init__(self) -> None:
        self.requests: dict[int, Tally] = {}
        self.events: dict[tuple[str, str], int] = {}  # kind and trigger, "" where there is none
        self.rebalance_seconds = 0.0  # of all rebalances that came to their end
        self.malformed = 0
        self.connections = 0
        self.connections_refused = 0

    def answered(self, calls: Sequence[RequestContext | Run]) -> None:
        """These answers leave now."""
        now = monotonic()
        for context in calls:
            seconds, times = now - context.since, context.count
            tally = self.requests.get(context.api_key) or self._tally(context.api_key)
            tally.count += times
            tally.seconds += seconds * times
            tally.buckets[bisect_left(TIME_BOUNDS, seconds)] += times

    def answered_together(self, calls: Sequence[RequestContext]) -> None:
        """These answers left now, each on its own connection; all of one API, in the order in which they were asked."""
        now, longest, shortest = monotonic(), calls[0], calls[-1]
        times = now - longest.since, now - shortest.since
        if bisect_left(TIME_BOUNDS, times[0]) == bisect_left(TIME_BOUNDS, times[1]):
            self._count(longest.api_key, (times[0] + times[1]) / 2, len(calls))  # they came about evenly in between
        else:
            for context in calls:
                self._count(context.api_key, now - context.since, 1)

    def _count(self, api_key: int, seconds: float, times: int) -> None:
        tally = self.requests.get(api_key) or self._tally(api_key)
        tally.count += times
        tally.seconds += seconds * times
        tally.buckets[bisect_left(TIME_BOUNDS, seconds)] += times

    def _tally(self, api_key: int) -> Tally:
        self.requests[api_key] = tally = Tally()
        return tally

    def hear(self, event: GroupEvent) -> None:
        """Something happened to a group."""
        key = (event.kind, event.trigger or "")
        self.events[key] = self.events.get(key, 0) + 1
        if isinstance(event.detail, RebalanceCompleted):
            self.rebalance_seconds += event.detail.duration_ms / 1000
