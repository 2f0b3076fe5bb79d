"""Fetch sessions (KIP-227): a consumer names its partitions once, and from then on what has changed.

Rules kept here, as in Kafka 4.x
- A request with epoch 0 asks for everything it names, and for a session; with epoch -1 for everything and none. Both
  end the session they name. Any other epoch must be the next of a session that is known.
- A session's answer holds the partitions with records, with an error, or with another high watermark or log start
  offset than the client was last told. What it holds is noted as told when the answer is made.
- Whoever got records moves to the end of its session, so that the next request reads the others first: a partition
  that always fills the answer starves nobody.
- The sessions are bounded (`max.incremental.fetch.session.cache.slots`). For a new one, another goes that was not used
  for two minutes; or else the smallest that was made more than two minutes ago, if it is smaller than the new one. If
  there is none, the client gets no session, and asks for everything every time.
- A session speaks of topics by id, or by name, from its beginning to its end.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from slackwater.group.errors import Error
from slackwater.wire.envelope import PreencodedResponse
from slackwater.wire.messages.fetch import PartitionData

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTABLE_AFTER_MS: Final = 120_000
_MAX_EPOCH: Final = 2**31 - 1
_MAX_ID: Final = 2**31 - 1

# A topic's id or its name, and a partition.
Key = tuple[bytes | str, int]


class Wanted:
    """One partition as a client asks for it, and what it was last told of it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: bytes | None,
        index: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
    ) -> None:
        self.topic = topic  # None: no topic has this id, as far as is known
        self.topic_id = topic_id  # None: it was asked for by name
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.high_watermark = -1
        self.log_start_offset = -1

    @property
    def key(self) -> Key:
        """What tells it from others of a session."""
        return (self.topic_id or self.topic or "", self.index)

    def ask(self, other: "Wanted") -> None:
        """The client goes on elsewhere in this partition."""
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch

    def tell(self, data: PartitionData) -> bool:
        """Note what the client is told now; False if that is nothing new."""
        news = bool(data.records) or data.high_watermark != self.high_watermark
        news |= data.log_start_offset != self.log_start_offset or data.diverging_epoch.epoch >= 0
        self.high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset
        if data.error_code:
            self.high_watermark = -1  # whatever comes next is news
            return True
        return news


class Session:
    """The partitions of one client, in the order in which they are read."""

    __slots__ = (
        "created_ms",
        "epoch",
        "is_over",
        "kept_in_vain",
        "nothing_new",
        "partitions",
        "session_id",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, partitions: dict[Key, Wanted], now_ms: int, *, uses_topic_ids: bool) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_ms = self.used_ms = now_ms
        self.uses_topic_ids = uses_topic_ids
        self.is_over = False
        self.kept_in_vain = 0  # how often in a row a request was expected again (`idle_fetches`) and did not come
        self.nothing_new: tuple[int, PreencodedResponse] | None = None  # a version, and that answer in it

    def update(self, wanted: Iterable[Wanted], forgotten: Iterable[Key]) -> None:
        """Take what a request changes."""
        for one in wanted:
            known = self.partitions.get(one.key)
            if known is None:
                self.partitions[one.key] = one
            else:
                known.ask(one)
        for key in forgotten:
            self.partitions.pop(key, None)

    def told(self, found: Sequence[tuple[Wanted, PartitionData]]) -> list[tuple[Wanted, PartitionData]]:
        """What of this the client must be told; who got records is read last from now on."""
        news = [(one, data) for one, data in found if one.tell(data)]
        partitions = self.partitions
        for one, data in news:
            if data.records and partitions.get(key := one.key) is one:
                del partitions[key]
                partitions[key] = one
        return news


class Fetch:
    """One request: the partitions to read, in order, and the session it belongs to, if any."""

    __slots__ = ("epoch", "partitions", "session", "wants_session")

    def __init__(
        self,
        partitions: list[Wanted],
        session: Session | None = None,
        *,
        wants_session: bool = False,
        epoch: int | None = None,
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.wants_session = wants_session
        # Of the session when the request came.
        self.epoch = epoch if epoch is not None else session.epoch if session is not None else 0


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, slots: int, *, now_ms: Callable[[], int], new_id: Callable[[], int] | None = None) -> None:
        self._slots = slots
        self._now_ms = now_ms
        self._new_id = new_id or (lambda: random.randint(1, _MAX_ID))
        self._sessions: dict[int, Session] = {}
        self._since = -1.0
        self._since_ms = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, session_id: int, epoch: int, wanted: list[Wanted], forgotten: Iterable[Key], *, uses_topic_ids: bool
    ) -> Fetch | Error:
        """What a request asks for, all in all; an error if its session is not the one it takes it for."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._end(session_id)
            return Fetch(wanted, wants_session=epoch == INITIAL_EPOCH)
        session = self._sessions.get(session_id)
        if session is None:
            return Error.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return Error.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids is not uses_topic_ids:
            return Error.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(wanted, forgotten)
        if not session.partitions:
            self._end(session_id)
            return Fetch(wanted)
        session.used_ms = self._now_ms()
        session.epoch = next_epoch(epoch)
        return Fetch(list(session.partitions.values()), session)

    def again(self, session: Session, since: float) -> None:
        """One more request of a session that is there, which changes nothing; those that come together say when."""
        if since != self._since:
            self._since, self._since_ms = since, self._now_ms()
        session.used_ms = self._since_ms
        epoch = session.epoch
        session.epoch = epoch + 1 if epoch < _MAX_EPOCH else INITIAL_EPOCH + 1  # `next_epoch`, without the call
        session.kept_in_vain = 0

    def end(
        self, fetch: Fetch, found: Sequence[tuple[Wanted, PartitionData]], *, uses_topic_ids: bool
    ) -> tuple[int, Sequence[tuple[Wanted, PartitionData]]] | Error:
        """The session that the answer names, and what it holds of what was found."""
        session = fetch.session
        if session is not None:
            # The client has asked again over another connection while this request waited: it gave this one up.
            if session.epoch != fetch.epoch:
                return Error.INVALID_FETCH_SESSION_EPOCH
            return session.session_id, session.told(found) if found else found
        if fetch.wants_session:
            return self._create(fetch, found, uses_topic_ids=uses_topic_ids), found
        return NO_SESSION, found

    def _create(self, fetch: Fetch, found: Sequence[tuple[Wanted, PartitionData]], *, uses_topic_ids: bool) -> int:
        now_ms = self._now_ms()
        partitions = {one.key: one for one in fetch.partitions}
        if len(self._sessions) >= self._slots and not self._evict(len(partitions), now_ms):
            return NO_SESSION
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        self._sessions[session_id] = Session(session_id, partitions, now_ms, uses_topic_ids=uses_topic_ids)
        for one, data in found:
            one.tell(data)
        return session_id

    def _evict(self, size: int, now_ms: int) -> bool:
        """Make room for a session of so many partitions; False if nobody has to go for it."""
        oldest = min(self._sessions.values(), key=lambda one: one.used_ms, default=None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms <= EVICTABLE_AFTER_MS:
            old = [one for one in self._sessions.values() if now_ms - one.created_ms > EVICTABLE_AFTER_MS]
            oldest = min(old, key=lambda one: (len(one.partitions), one.session_id), default=None)
            if oldest is None or size <= len(oldest.partitions):
                return False
        self._end(oldest.session_id)
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.is_over = True


def next_epoch(epoch: int) -> int:
    """The epoch that follows; 0 and -1 mean something else and are left out."""
    return epoch + 1 if epoch < _MAX_EPOCH else 1
