"""The client's side of a fetch session (KIP-227): after the first request, only changes are sent.

Invariants:
- A session starts with a full request. Later requests hold the partitions that are new or changed and the partitions
  that are no longer read; the broker remembers the rest.
- A session error or a lost response ends the session. The next request is full again.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.schema import NO_UUID

NO_SESSION: Final = 0
FULL_EPOCH: Final = 0
SESSIONLESS_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1


class FetchPosition(NamedTuple):
    """Where to fetch one partition from, and how much."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    """The partitions of one Fetch request and the session it belongs to."""

    session_id: int
    session_epoch: int
    positions: Mapping[TopicPartition, FetchPosition]
    forgotten: tuple[TopicPartition, ...] = ()
    by_name: bool = False  # at least one topic of the session has no id


def sessionless_request(partition: TopicPartition, position: FetchPosition) -> SessionRequest:
    """Return a request for one partition that opens no session."""
    by_name = position.topic_id == NO_UUID
    return SessionRequest(NO_SESSION, SESSIONLESS_EPOCH, {partition: position}, by_name=by_name)


class FetchSessionHandler:
    """The session with one broker. At most one request is in flight."""

    __slots__ = ("_epoch", "_positions", "_session_id")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FULL_EPOCH
        self._positions: dict[TopicPartition, FetchPosition] = {}

    def next_request(self, positions: Mapping[TopicPartition, FetchPosition]) -> SessionRequest:
        """Return the request that makes the session cover exactly `positions`."""
        previous, self._positions = self._positions, dict(positions)
        by_name = any(position.topic_id == NO_UUID for position in positions.values())
        if self._epoch == FULL_EPOCH:
            return SessionRequest(self._session_id, FULL_EPOCH, positions, by_name=by_name)
        changed = {
            partition: position for partition, position in positions.items() if previous.get(partition) != position
        }
        forgotten = tuple(partition for partition in previous if partition not in positions)
        return SessionRequest(self._session_id, self._epoch, changed, forgotten, by_name)

    def on_response(self, session_id: int) -> None:
        """Continue the session, or reset it if the broker closed it."""
        if session_id == NO_SESSION or (self._epoch != FULL_EPOCH and session_id != self._session_id):
            self.reset()
            return
        self._session_id = session_id
        self._epoch = self._epoch + 1 if self._epoch < _MAX_EPOCH else 1

    def reset(self) -> None:
        """Start a new session with the next request."""
        self._session_id, self._epoch = NO_SESSION, FULL_EPOCH
        self._positions.clear()
