"""Incremental fetch sessions (KIP-227): a consumer names its partitions once, then only the changes.

Invariants, as in Kafka 4.x:
- A request with epoch 0 names all its partitions and creates a session. Epoch -1 names all partitions without creating
  one. Both close the session that they name. Any other epoch must be the next epoch of a cached session.
- The response of a session contains the partitions with records, with an error, or with a high watermark or log start
  offset that differs from the last response.
- A partition that returned records moves to the end of its session, so that the next request reads the others first.
- The cache is bounded (`max.incremental.fetch.session.cache.slots`). A new session evicts one that was not used for two
  minutes; otherwise the smallest session older than two minutes, if it is smaller than the new one. If there is none,
  the client gets no session and names all partitions in every request.
- A session refers to topics either by id or by name for its whole life.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from slackwater.group.errors import Error
from slackwater.wire.messages.fetch import PartitionData

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTABLE_AFTER_MS: Final = 120_000
_MAX_EPOCH: Final = 2**31 - 1
_MAX_ID: Final = 2**31 - 1

PartitionKey = tuple[bytes | str, int]  # a topic's id or name, and the partition index


class CachedPartition:
    """One partition of a fetch request and the state that the last response reported."""

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
        self.topic = topic  # None if no topic with this id has been seen
        self.topic_id = topic_id  # None if the request names the topic
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.high_watermark = -1
        self.log_start_offset = -1

    @property
    def key(self) -> PartitionKey:
        """The key within a session."""
        return (self.topic_id or self.topic or "", self.index)

    def update_request(self, requested: "CachedPartition") -> None:
        """Take over the fetch position of a new request."""
        self.fetch_offset = requested.fetch_offset
        self.max_bytes = requested.max_bytes
        self.current_leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch

    def update_reported(self, data: PartitionData) -> bool:
        """Store the state that is reported now; True if the response must contain the partition."""
        is_changed = (
            bool(data.records)
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.diverging_epoch.epoch >= 0
        )
        self.high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset
        if data.error_code:
            self.high_watermark = -1  # the next response reports the partition again
            return True
        return is_changed


ReadPartition = tuple[CachedPartition, PartitionData]


class FetchSession:
    """The partitions of one client, in the order in which they are read."""

    __slots__ = ("created_ms", "epoch", "partitions", "session_id", "used_ms", "uses_topic_ids")

    def __init__(
        self, session_id: int, partitions: dict[PartitionKey, CachedPartition], wall_ms: int, *, uses_topic_ids: bool
    ) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_ms = self.used_ms = wall_ms
        self.uses_topic_ids = uses_topic_ids

    def update(self, requested: Iterable[CachedPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Apply the changes of a request."""
        for partition in requested:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
            else:
                known.update_request(partition)
        for key in forgotten:
            self.partitions.pop(key, None)

    def select_changed(self, read: Sequence[ReadPartition]) -> list[ReadPartition]:
        """Return what the response must contain; partitions with records move to the end."""
        changed = [(partition, data) for partition, data in read if partition.update_reported(data)]
        partitions = self.partitions
        for partition, data in changed:
            if data.records and partitions.get(key := partition.key) is partition:
                del partitions[key]
                partitions[key] = partition
        return changed


class FetchContext:
    """One request: the partitions to read, in order, and its session if it has one."""

    __slots__ = ("epoch", "partitions", "session", "wants_session")

    def __init__(
        self, partitions: list[CachedPartition], session: FetchSession | None = None, *, wants_session: bool = False
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.wants_session = wants_session
        self.epoch = session.epoch if session is not None else 0  # of the session when the request arrived


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, slots: int, *, wall_ms: Callable[[], int], new_id: Callable[[], int] | None = None) -> None:
        self._slots = slots
        self._wall_ms = wall_ms
        self._new_id = new_id or (lambda: random.randint(1, _MAX_ID))
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def create_context(
        self,
        session_id: int,
        epoch: int,
        requested: list[CachedPartition],
        forgotten: Iterable[PartitionKey],
        *,
        uses_topic_ids: bool,
    ) -> FetchContext | Error:
        """Determine the partitions that a request reads; an error if session and epoch do not match."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            return FetchContext(requested, wants_session=epoch == INITIAL_EPOCH)
        session = self._sessions.get(session_id)
        if session is None:
            return Error.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return Error.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids is not uses_topic_ids:
            return Error.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(requested, forgotten)
        if not session.partitions:
            del self._sessions[session_id]
            return FetchContext(requested)
        session.used_ms = self._wall_ms()
        session.epoch = next_epoch(epoch)
        return FetchContext(list(session.partitions.values()), session)

    def complete(
        self, context: FetchContext, read: Sequence[ReadPartition], *, uses_topic_ids: bool
    ) -> tuple[int, Sequence[ReadPartition]] | Error:
        """Return the session id of the response and the partitions that it contains."""
        session = context.session
        if session is not None:
            # The client has sent the next request over another connection while this one waited.
            if session.epoch != context.epoch:
                return Error.INVALID_FETCH_SESSION_EPOCH
            return session.session_id, session.select_changed(read) if read else read
        if context.wants_session:
            return self._create_session(context, read, uses_topic_ids=uses_topic_ids), read
        return NO_SESSION, read

    def _create_session(self, context: FetchContext, read: Sequence[ReadPartition], *, uses_topic_ids: bool) -> int:
        wall_ms = self._wall_ms()
        partitions = {partition.key: partition for partition in context.partitions}
        if len(self._sessions) >= self._slots and not self._evict(len(partitions), wall_ms):
            return NO_SESSION
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        self._sessions[session_id] = FetchSession(session_id, partitions, wall_ms, uses_topic_ids=uses_topic_ids)
        for partition, data in read:
            partition.update_reported(data)
        return session_id

    def _evict(self, size: int, wall_ms: int) -> bool:
        """Evict a session for a new one with `size` partitions; False if none may be evicted."""
        evicted = min(self._sessions.values(), key=lambda session: session.used_ms, default=None)
        if evicted is None:
            return False
        if wall_ms - evicted.used_ms <= EVICTABLE_AFTER_MS:
            old = [session for session in self._sessions.values() if wall_ms - session.created_ms > EVICTABLE_AFTER_MS]
            evicted = min(old, key=lambda session: (len(session.partitions), session.session_id), default=None)
            if evicted is None or size <= len(evicted.partitions):
                return False
        del self._sessions[evicted.session_id]
        return True


def next_epoch(epoch: int) -> int:
    """Return the epoch that follows; 0 and -1 are reserved."""
    return epoch + 1 if epoch < _MAX_EPOCH else 1
