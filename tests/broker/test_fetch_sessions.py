"""Fetch sessions: epochs, what is told, who goes when there are too many."""

from slackwater.broker.fetching.sessions import EVICTABLE_AFTER_MS, Fetch, FetchSessions, Wanted, next_epoch
from slackwater.group.errors import Error
from slackwater.wire.messages.fetch import PartitionData


class Room:
    """Sessions with a clock and ids that count."""

    def __init__(self, slots: int = 10) -> None:
        self.now_ms = 0
        self._ids = iter(range(1, 1000))
        self.sessions = FetchSessions(slots, now_ms=lambda: self.now_ms, new_id=lambda: next(self._ids))

    def begin(
        self, session: tuple[int, int], *names: str, forgotten: tuple[str, ...] = (), uses_topic_ids: bool = False
    ) -> Fetch | Error:
        wanted = [Wanted(name, None, 0, 0, 100) for name in names]
        keys = [(name, 0) for name in forgotten]
        return self.sessions.begin(*session, wanted, keys, uses_topic_ids=uses_topic_ids)

    def end(self, fetch: Fetch | Error, **found: PartitionData) -> tuple[int, list[str | None]] | Error:
        """Answer with what was found: nothing new where nothing is said."""
        assert isinstance(fetch, Fetch)
        pairs = [(one, found.get(one.topic or "", data())) for one in fetch.partitions]
        ended = self.sessions.end(fetch, pairs, uses_topic_ids=False)
        return ended if isinstance(ended, Error) else (ended[0], [one.topic for one, _ in ended[1]])

    def create(self, *names: str) -> int:
        ended = self.end(self.begin((0, 0), *names))
        assert not isinstance(ended, Error)
        return ended[0]


def data(records: bytes = b"", *, high_watermark: int = 5, log_start_offset: int = 0, error: int = 0) -> PartitionData:
    return PartitionData(0, error, high_watermark, log_start_offset=log_start_offset, records=records)


def names(fetch: Fetch | Error) -> list[str | None]:
    assert isinstance(fetch, Fetch)
    return [one.topic for one in fetch.partitions]


def test_a_session_remembers_its_partitions_and_takes_changes() -> None:
    room = Room()
    session = room.create("a", "b")
    assert names(room.begin((session, 1))) == ["a", "b"]
    assert names(room.begin((session, 2), "c", forgotten=("a",))) == ["b", "c"]
    assert names(room.begin((session, 3))) == ["b", "c"]


def test_a_known_partition_is_read_where_the_client_goes_on() -> None:
    room = Room()
    session = room.create("a")
    fetch = room.sessions.begin(session, 1, [Wanted("a", None, 0, 42, 7, 3, 2)], (), uses_topic_ids=False)
    assert isinstance(fetch, Fetch)
    (one,) = fetch.partitions
    found = (one.fetch_offset, one.max_bytes, one.current_leader_epoch, one.last_fetched_epoch)
    assert found == (42, 7, 3, 2)


def test_everything_is_told_first_and_then_what_is_new() -> None:
    room = Room()
    fetch = room.begin((0, 0), "a", "b")
    assert room.end(fetch) == (1, ["a", "b"])
    assert room.end(room.begin((1, 1))) == (1, [])
    assert room.end(room.begin((1, 2)), a=data(b"records")) == (1, ["a"])
    assert room.end(room.begin((1, 3)), b=data(high_watermark=6)) == (1, ["b"])
    assert room.end(room.begin((1, 4)), b=data(high_watermark=6, log_start_offset=1)) == (1, ["b"])
    assert room.end(room.begin((1, 5)), b=data(high_watermark=6, log_start_offset=1)) == (1, [])


def test_an_error_is_told_every_time_and_so_is_its_end() -> None:
    room = Room()
    room.create("a", "b")
    wrong = data(high_watermark=-1, log_start_offset=-1, error=Error.OFFSET_OUT_OF_RANGE)
    assert room.end(room.begin((1, 1)), a=wrong) == (1, ["a"])
    assert room.end(room.begin((1, 2)), a=wrong) == (1, ["a"])
    assert room.end(room.begin((1, 3))) == (1, ["a"])
    assert room.end(room.begin((1, 4))) == (1, [])


def test_whoever_got_records_is_read_last_the_next_time() -> None:
    room = Room()
    room.create("a", "b", "c")
    room.end(room.begin((1, 1)), a=data(b"records"))
    fetch = room.begin((1, 2))
    assert names(fetch) == ["b", "c", "a"]
    room.end(fetch, b=data(b"records"), c=data(high_watermark=9))
    assert names(room.begin((1, 3))) == ["c", "a", "b"]


def test_epochs_must_follow_each_other() -> None:
    room = Room()
    session = room.create("a")
    assert room.begin((session, 2)) is Error.INVALID_FETCH_SESSION_EPOCH
    assert isinstance(room.begin((session, 1)), Fetch)
    assert room.begin((session, 1)) is Error.INVALID_FETCH_SESSION_EPOCH
    assert room.begin((session + 1, 1)) is Error.FETCH_SESSION_ID_NOT_FOUND
    assert room.begin((session, 2), uses_topic_ids=True) is Error.FETCH_SESSION_TOPIC_ID_ERROR
    assert next_epoch(2**31 - 1) == 1


def test_a_request_that_was_given_up_while_it_waited_changes_nothing() -> None:
    room = Room()
    session = room.create("a")
    given_up = room.begin((session, 1))
    again = room.begin((session, 2))
    assert room.end(given_up, a=data(b"records")) is Error.INVALID_FETCH_SESSION_EPOCH
    assert room.end(again) == (session, [])


def test_epoch_0_and_epoch_minus_1_end_the_session_they_name() -> None:
    room = Room()
    session = room.create("a")
    assert room.end(room.begin((session, 0), "b")) == (session + 1, ["b"])
    assert room.begin((session, 1)) is Error.FETCH_SESSION_ID_NOT_FOUND
    assert room.end(room.begin((session + 1, -1), "c")) == (0, ["c"])
    assert len(room.sessions) == 0


def test_a_session_without_partitions_ends() -> None:
    room = Room()
    session = room.create("a")
    assert room.end(room.begin((session, 1), forgotten=("a",))) == (0, [])
    assert len(room.sessions) == 0


def test_when_there_are_too_many_a_new_client_gets_none() -> None:
    room = Room(slots=2)
    assert [room.create("a"), room.create("b"), room.create("c")] == [1, 2, 0]
    assert Room(slots=0).create("a") == 0


def test_a_session_that_was_not_used_for_two_minutes_makes_room() -> None:
    room = Room(slots=2)
    first, second = room.create("a", "b", "c"), room.create("b")
    room.now_ms = EVICTABLE_AFTER_MS
    room.begin((first, 1))
    assert room.create("d") == 0
    room.now_ms += 1
    assert room.create("d") == 3
    assert room.begin((second, 1)) is Error.FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(room.begin((first, 2)), Fetch)


def test_an_old_session_that_is_in_use_makes_room_for_a_larger_one() -> None:
    room = Room(slots=2)
    small, large = room.create("a", "b"), room.create("c", "d", "e")
    room.now_ms = EVICTABLE_AFTER_MS + 1
    for session in (small, large):
        room.begin((session, 1))
    assert room.create("f", "g") == 0
    assert room.create("f", "g", "h") == 3
    assert room.begin((small, 2)) is Error.FETCH_SESSION_ID_NOT_FOUND
    # The new one is young and stays: the large one would have to go, and only for a larger one.
    assert room.create("i", "j", "k") == 0
    assert room.create("i", "j", "k", "l") == 4
    assert room.begin((large, 2)) is Error.FETCH_SESSION_ID_NOT_FOUND
