"""The broker's counters: requests and their times by API, group events by kind.

Invariants:
- Counting a response takes a few additions: no locks and no label lookups. The metrics page creates names and labels.
- A request's time runs from its last byte to the write of its response, including the time that it waits.
"""

from bisect import bisect_left
from collections.abc import Sequence
from time import monotonic
from typing import Final

from slackwater.broker.request_context import RequestContext
from slackwater.group.events import GroupEvent, RebalanceCompleted

# Upper bounds of the request times in seconds; one more bucket holds slower requests.
TIME_BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class RequestTimes:
    """The number of responses of one API and a histogram of their times."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(TIME_BOUNDS) + 1)


class Metrics:
    """All counters of one broker."""

    def __init__(self) -> None:
        self.requests: dict[int, RequestTimes] = {}  # by API key
        self.events: dict[tuple[str, str], int] = {}  # by kind and trigger; "" if there is no trigger
        self.rebalance_seconds = 0.0  # of all completed rebalances
        self.malformed = 0
        self.failed_authentications = 0
        self.connections = 0
        self.connections_refused = 0

    def count_responses(self, requests: Sequence[RequestContext]) -> None:
        """Count responses that leave now."""
        now = monotonic()
        for context in requests:
            times = self.requests.get(context.api_key)
            if times is None:
                times = self.requests[context.api_key] = RequestTimes()
            seconds = now - context.received_at
            times.count += 1
            times.seconds += seconds
            times.buckets[bisect_left(TIME_BOUNDS, seconds)] += 1

    def count_event(self, event: GroupEvent) -> None:
        """Count a group event."""
        key = (event.kind, event.trigger or "")
        self.events[key] = self.events.get(key, 0) + 1
        if isinstance(event.detail, RebalanceCompleted):
            self.rebalance_seconds += event.detail.duration_ms / 1000
