"""The client's half of a fetch session (KIP-227): only what has changed is asked for.

Rules kept here
- A session begins with a full request. From then on a request holds the partitions that are new or whose wishes have
  changed, and names those that are not wanted any more; the broker remembers the rest.
- Any doubt ends it: an error of the session, an answer that was lost. The next request is full again.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from slackwater.group.topic_partition import TopicPartition

NO_SESSION: Final = 0
FULL: Final = 0
FINAL: Final = -1
_MAX_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """What is asked of one partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class Ask(NamedTuple):
    """One request's part of a session."""

    session_id: int
    epoch: int
    wanted: Mapping[TopicPartition, Wanted]
    forgotten: tuple[TopicPartition, ...]


class FetchSession:
    """The session with one broker."""

    __slots__ = ("_epoch", "_known", "_session_id")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FULL
        self._known: dict[TopicPartition, Wanted] = {}

    def ask(self, wanted: Mapping[TopicPartition, Wanted]) -> Ask:
        """The request for what is wanted now; one at a time."""
        known, self._known = self._known, dict(wanted)
        if self._epoch == FULL:
            return Ask(self._session_id, FULL, wanted, ())
        changed = {partition: wish for partition, wish in wanted.items() if known.get(partition) != wish}
        return Ask(self._session_id, self._epoch, changed, tuple(one for one in known if one not in wanted))

    def answered(self, session_id: int) -> None:
        """The broker has answered."""
        if session_id == NO_SESSION:
            self.failed()
            return
        if self._epoch != FULL and session_id != self._session_id:
            self.failed()
            return
        self._session_id = session_id
        self._epoch = self._epoch + 1 if self._epoch < _MAX_EPOCH else 1

    def failed(self) -> None:
        """The session is in doubt: begin anew."""
        self._session_id, self._epoch = NO_SESSION, FULL
        self._known.clear()
