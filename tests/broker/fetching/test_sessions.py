"""Fetch sessions: epochs, reported changes, eviction."""

from slackwater.broker.fetching.sessions import (
    EVICTABLE_AFTER_MS,
    CachedPartition,
    FetchContext,
    FetchSessions,
    next_epoch,
)
from slackwater.group.errors import Error
from slackwater.wire.messages.fetch import PartitionData


class SessionCache:
    """Fetch sessions with a manual clock and consecutive ids."""

    def __init__(self, slots: int = 10) -> None:
        self.now_ms = 0
        self._ids = iter(range(1, 1000))
        self.sessions = FetchSessions(slots, wall_ms=lambda: self.now_ms, new_id=lambda: next(self._ids))

    def begin(
        self, session: tuple[int, int], *names: str, forgotten: tuple[str, ...] = (), uses_topic_ids: bool = False
    ) -> FetchContext | Error:
        requested = [CachedPartition(name, None, 0, 0, 100) for name in names]
        keys = [(name, 0) for name in forgotten]
        return self.sessions.create_context(*session, requested, keys, uses_topic_ids=uses_topic_ids)

    def end(self, fetch: FetchContext | Error, **read: PartitionData) -> tuple[int, list[str | None]] | Error:
        """Complete a fetch; a partition without data is unchanged."""
        assert isinstance(fetch, FetchContext)
        pairs = [(partition, read.get(partition.topic or "", data())) for partition in fetch.partitions]
        ended = self.sessions.complete(fetch, pairs, uses_topic_ids=False)
        return ended if isinstance(ended, Error) else (ended[0], [partition.topic for partition, _ in ended[1]])

    def create(self, *names: str) -> int:
        ended = self.end(self.begin((0, 0), *names))
        assert not isinstance(ended, Error)
        return ended[0]


def data(records: bytes = b"", *, high_watermark: int = 5, log_start_offset: int = 0, error: int = 0) -> PartitionData:
    return PartitionData(0, error, high_watermark, log_start_offset=log_start_offset, records=records)


def names(fetch: FetchContext | Error) -> list[str | None]:
    assert isinstance(fetch, FetchContext)
    return [partition.topic for partition in fetch.partitions]


def test_session_keeps_its_partitions_and_applies_changes() -> None:
    cache = SessionCache()
    session = cache.create("a", "b")
    assert names(cache.begin((session, 1))) == ["a", "b"]
    assert names(cache.begin((session, 2), "c", forgotten=("a",))) == ["b", "c"]
    assert names(cache.begin((session, 3))) == ["b", "c"]


def test_request_updates_the_fetch_position() -> None:
    cache = SessionCache()
    session = cache.create("a")
    fetch = cache.sessions.create_context(
        session, 1, [CachedPartition("a", None, 0, 42, 7, 3, 2)], (), uses_topic_ids=False
    )
    assert isinstance(fetch, FetchContext)
    (partition,) = fetch.partitions
    assert (partition.fetch_offset, partition.max_bytes) == (42, 7)
    assert (partition.current_leader_epoch, partition.last_fetched_epoch) == (3, 2)


def test_first_response_is_full_and_later_ones_have_changes() -> None:
    cache = SessionCache()
    fetch = cache.begin((0, 0), "a", "b")
    assert cache.end(fetch) == (1, ["a", "b"])
    assert cache.end(cache.begin((1, 1))) == (1, [])
    assert cache.end(cache.begin((1, 2)), a=data(b"records")) == (1, ["a"])
    assert cache.end(cache.begin((1, 3)), b=data(high_watermark=6)) == (1, ["b"])
    assert cache.end(cache.begin((1, 4)), b=data(high_watermark=6, log_start_offset=1)) == (1, ["b"])
    assert cache.end(cache.begin((1, 5)), b=data(high_watermark=6, log_start_offset=1)) == (1, [])


def test_error_is_reported_each_time_and_when_it_ends() -> None:
    cache = SessionCache()
    cache.create("a", "b")
    wrong = data(high_watermark=-1, log_start_offset=-1, error=Error.OFFSET_OUT_OF_RANGE)
    assert cache.end(cache.begin((1, 1)), a=wrong) == (1, ["a"])
    assert cache.end(cache.begin((1, 2)), a=wrong) == (1, ["a"])
    assert cache.end(cache.begin((1, 3))) == (1, ["a"])
    assert cache.end(cache.begin((1, 4))) == (1, [])


def test_partition_with_records_is_read_last_next_time() -> None:
    cache = SessionCache()
    cache.create("a", "b", "c")
    cache.end(cache.begin((1, 1)), a=data(b"records"))
    fetch = cache.begin((1, 2))
    assert names(fetch) == ["b", "c", "a"]
    cache.end(fetch, b=data(b"records"), c=data(high_watermark=9))
    assert names(cache.begin((1, 3))) == ["c", "a", "b"]


def test_epochs_must_be_consecutive() -> None:
    cache = SessionCache()
    session = cache.create("a")
    assert cache.begin((session, 2)) is Error.INVALID_FETCH_SESSION_EPOCH
    assert isinstance(cache.begin((session, 1)), FetchContext)
    assert cache.begin((session, 1)) is Error.INVALID_FETCH_SESSION_EPOCH
    assert cache.begin((session + 1, 1)) is Error.FETCH_SESSION_ID_NOT_FOUND
    assert cache.begin((session, 2), uses_topic_ids=True) is Error.FETCH_SESSION_TOPIC_ID_ERROR
    assert next_epoch(2**31 - 1) == 1


def test_superseded_request_changes_nothing() -> None:
    cache = SessionCache()
    session = cache.create("a")
    superseded = cache.begin((session, 1))
    current = cache.begin((session, 2))
    assert cache.end(superseded, a=data(b"records")) is Error.INVALID_FETCH_SESSION_EPOCH
    assert cache.end(current) == (session, [])


def test_initial_and_final_epoch_close_the_named_session() -> None:
    cache = SessionCache()
    session = cache.create("a")
    assert cache.end(cache.begin((session, 0), "b")) == (session + 1, ["b"])
    assert cache.begin((session, 1)) is Error.FETCH_SESSION_ID_NOT_FOUND
    assert cache.end(cache.begin((session + 1, -1), "c")) == (0, ["c"])
    assert len(cache.sessions) == 0


def test_session_without_partitions_is_closed() -> None:
    cache = SessionCache()
    session = cache.create("a")
    assert cache.end(cache.begin((session, 1), forgotten=("a",))) == (0, [])
    assert len(cache.sessions) == 0


def test_full_cache_gives_no_session() -> None:
    cache = SessionCache(slots=2)
    assert [cache.create("a"), cache.create("b"), cache.create("c")] == [1, 2, 0]
    assert SessionCache(slots=0).create("a") == 0


def test_unused_session_is_evicted_after_two_minutes() -> None:
    cache = SessionCache(slots=2)
    first, second = cache.create("a", "b", "c"), cache.create("b")
    cache.now_ms = EVICTABLE_AFTER_MS
    cache.begin((first, 1))
    assert cache.create("d") == 0
    cache.now_ms += 1
    assert cache.create("d") == 3
    assert cache.begin((second, 1)) is Error.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(cache.begin((first, 2)), FetchContext)


def test_old_session_is_evicted_for_a_larger_one() -> None:
    cache = SessionCache(slots=2)
    small, large = cache.create("a", "b"), cache.create("c", "d", "e")
    cache.now_ms = EVICTABLE_AFTER_MS + 1
    for session in (small, large):
        cache.begin((session, 1))
    assert cache.create("f", "g") == 0
    assert cache.create("f", "g", "h") == 3
    assert cache.begin((small, 2)) is Error.FETCH_SESSION_ID_NOT_FOUND
    # The new session is too young to be evicted. The large one is evicted only for a larger one.
    assert cache.create("i", "j", "k") == 0
    assert cache.create("i", "j", "k", "l") == 4
    assert cache.begin((large, 2)) is Error.FETCH_SESSION_ID_NOT_FOUND
