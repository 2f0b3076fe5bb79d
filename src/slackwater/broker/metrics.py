"""What the broker counts: requests and their times by API, group events by kind.

Rules kept here
- Counting is a few additions per request: no locks, no label look-ups. Names and labels are made when somebody reads.
- A request's time runs from its last byte to the moment its answer leaves, waiting included.
"""

from bisect import bisect_left
from time import monotonic
from typing import Final

from slackwater.broker.connection import Call
from slackwater.group.events import GroupEvent

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
        self.malformed = 0
        self.connections = 0
        self.connections_refused = 0

    def answered(self, calls: list[Call]) -> None:
        """These answers leave now."""
        now = monotonic()
        requests = self.requests
        for call in calls:
            tally = requests.get(call.api_key)
            if tally is None:
                tally = requests[call.api_key] = Tally()
            seconds = now - call.since
            tally.count += 1
            tally.seconds += seconds
            tally.buckets[bisect_left(TIME_BOUNDS, seconds)] += 1

    def hear(self, event: GroupEvent) -> None:
        """Something happened to a group."""
        key = (event.kind.value, event.trigger.value if event.trigger is not None else "")
        self.events[key] = self.events.get(key, 0) + 1
