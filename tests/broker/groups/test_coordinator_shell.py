"""The coordinator's shell: writes at the end of a turn, one timer, a restart that changes nothing."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from slackwater.broker.groups.coordinator_shell import MAX_PENDING_RECORDS, CoordinatorShell, KeyValue
from slackwater.clock import ManualClock
from slackwater.group.coordinator import CoordinatorConfig
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupEvent
from slackwater.group.messages import (
    GroupToFetch,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    JoinProtocol,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetToCommit,
    SyncGroup,
    SyncGroupResponse,
)


class Memory:
    """A store that remembers, and counts its writes."""

    def __init__(self) -> None:
        self.shards: dict[int, list[KeyValue]] = {}
        self.writes = 0
        self.error = Error.NONE

    def read(self, shard: int) -> Iterable[KeyValue]:
        return self.shards.get(shard, [])

    def write(self, records: Mapping[int, list[KeyValue]], settled: Callable[[Mapping[int, Error]], None]) -> None:
        self.writes += 1
        if self.error is Error.NONE:
            for shard, pairs in records.items():
                self.shards.setdefault(shard, []).extend(pairs)
        settled(dict.fromkeys(records, self.error))


class House:
    """A shell on a clock that stands still."""

    def __init__(self, store: Memory) -> None:
        self.clock = ManualClock()
        self.events: list[GroupEvent] = []
        self.turns = 0
        self.due_ms: int | None = None
        self.groups = CoordinatorShell(
            CoordinatorConfig(offsets_topic_num_partitions=3, group_initial_rebalance_delay_ms=0),
            store,
            now_ms=self.clock.now_ms,
            wake_at=self._wake_at,
            emit=self.events.extend,
            schedule_flush=self._schedule_flush,
        )
        self.groups.load()

    def _wake_at(self, due_ms: int) -> None:
        self.due_ms = due_ms

    def _schedule_flush(self) -> None:
        self.turns += 1


def _commit(offset: int, group_id: str = "g", member_id: str = "", generation_id: int = -1) -> OffsetCommit:
    return OffsetCommit(group_id, member_id, None, generation_id, (OffsetToCommit("t", 0, offset),))


def test_everything_of_one_turn_is_written_at_once_and_answered_after_it() -> None:
    store = Memory()
    house, answers = House(store), list[OffsetCommitResponse]()
    for offset in range(5):
        house.groups.submit(_commit(offset), answers.append)
    assert (store.writes, answers, house.turns) == (0, [], 1)

    house.groups.flush_pending()

    assert store.writes == 1
    assert [answer.partitions[0].error for answer in answers] == [Error.NONE] * 5


def test_a_refused_write_is_told_to_whoever_waits_for_it() -> None:
    store = Memory()
    house, answers = House(store), list[OffsetCommitResponse]()
    store.error = Error.KAFKA_STORAGE_ERROR
    house.groups.submit(_commit(1), answers.append)
    house.groups.flush_pending()

    assert [answer.partitions[0].error for answer in answers] == [Error.NOT_COORDINATOR]


def _settle(house: House) -> str:
    joined, synced = list[JoinGroupResponse](), list[SyncGroupResponse]()
    join = JoinGroup(
        "g",
        "",
        None,
        "consumer",
        (JoinProtocol("range", b""),),
        10_000,
        60_000,
        "c",
        "/h",
        "u1",
        requires_known_member_id=False,
    )
    house.groups.submit(join, joined.append)
    house.groups.flush_pending()
    assert house.due_ms == house.clock.now_ms()
    house.groups.tick()
    (answer,) = joined
    sync = SyncGroup("g", answer.member_id, None, answer.generation_id, assignments=((answer.member_id, b"a"),))
    house.groups.submit(sync, synced.append)
    house.groups.flush_pending()
    assert [answer.assignment for answer in synced] == [b"a"]
    return answer.member_id


def test_a_restart_brings_groups_and_offsets_back_without_a_rebalance() -> None:
    store = Memory()
    before = House(store)
    member_id = _settle(before)
    before.groups.submit(_commit(7, member_id=member_id, generation_id=1), lambda _answer: None)
    before.groups.flush_pending()

    after, beats, offsets = House(store), list[HeartbeatResponse](), list[OffsetFetchResponse]()
    after.groups.submit(Heartbeat("g", member_id, None, 1), beats.append)
    after.groups.submit(OffsetFetch((GroupToFetch("g", None),)), offsets.append)

    assert beats == [HeartbeatResponse(Error.NONE)]
    assert [offset.offset for offset in offsets[0].groups[0].offsets] == [7]
    assert [event.kind for event in after.events] == [EventKind.GROUP_LOADED]


def _join(member_id: str = "", uuid: str = "u") -> JoinGroup:
    protocols = (JoinProtocol("range", b""),)
    return JoinGroup("g", member_id, None, "consumer", protocols, 10_000, 60_000, "c", "/h", uuid)


def test_an_initial_delay_of_nothing_is_over_before_the_next_of_a_crowd_joins() -> None:
    house, issued, joined = House(Memory()), list[JoinGroupResponse](), list[JoinGroupResponse]()
    for number in range(3):
        house.groups.submit(_join(uuid=str(number)), issued.append)
    house.groups.flush_pending()
    first, second, third = sorted(answer.member_id for answer in issued)

    house.groups.submit(_join(first), joined.append)
    assert [(answer.error, answer.generation_id) for answer in joined] == [(Error.NONE, 1)]

    for member_id in (second, third, first):
        assert len(joined) == 1
        house.groups.submit(_join(member_id), joined.append)
    assert [(answer.error, answer.generation_id) for answer in joined] == [(Error.NONE, 1), *[(Error.NONE, 2)] * 3]


def test_a_group_that_is_not_written_yet_has_no_generation() -> None:
    house, joined = House(Memory()), list[JoinGroupResponse]()
    house.groups.submit(replace(_join(), requires_known_member_id=False), joined.append)
    assert joined == []
    house.groups.flush_pending()
    house.groups.tick()
    assert [answer.error for answer in joined] == [Error.NONE]


def test_one_timer_stands_for_all_and_is_planned_anew_when_it_fired() -> None:
    house = House(Memory())
    _settle(house)
    house.clock.advance_ms(10_000)
    house.groups.tick()
    house.groups.flush_pending()

    assert EventKind.MEMBER_EXPIRED in [event.kind for event in house.events]
    assert house.due_ms is not None
    assert house.due_ms > house.clock.now_ms()


def test_offsets_of_deleted_topics_go_with_them() -> None:
    house, offsets = House(Memory()), list[OffsetFetchResponse]()
    house.groups.submit(_commit(3), lambda _answer: None)
    house.groups.flush_pending()
    house.groups.topics_deleted(["t"])
    house.groups.flush_pending()
    house.groups.submit(OffsetFetch((GroupToFetch("g", None),)), offsets.append)

    assert offsets[0].groups[0].offsets == ()


def test_many_appends_do_not_wait_for_the_end_of_the_turn() -> None:
    store = Memory()
    house, answers = House(store), list[OffsetCommitResponse]()
    for offset in range(MAX_PENDING_RECORDS + 1):
        house.groups.submit(_commit(offset), answers.append)
    assert (store.writes, len(answers)) == (1, MAX_PENDING_RECORDS)

    house.groups.flush_pending()

    assert (store.writes, len(answers)) == (2, MAX_PENDING_RECORDS + 1)


def test_a_parked_join_alone_has_its_timer_planned() -> None:
    house = House(Memory())
    house.groups.reconfigure(replace(house.groups.config, group_initial_rebalance_delay_ms=3_000))
    house.groups.flush_pending()
    turns = house.turns
    join = JoinGroup("g", "", "i", "consumer", (JoinProtocol("range", b""),), 10_000, 60_000, uuid="u1")
    house.groups.submit(join, lambda _answer: None)
    assert house.turns == turns + 1

    house.groups.flush_pending()

    assert house.due_ms is not None
    assert house.due_ms - house.clock.now_ms() <= 3_000


class Slow(Memory):
    """A store whose writes come to their end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], None]] = []

    def write(self, records: Mapping[int, list[KeyValue]], settled: Callable[[Mapping[int, Error]], None]) -> None:
        self.held.append(lambda: Memory.write(self, records, settled))


def test_a_write_that_takes_too_long_is_given_up_by_who_waits_and_its_outcome_still_counts() -> None:
    store = Slow()
    house, answers = House(store), list[OffsetCommitResponse]()
    for offset in (1, 2):
        house.groups.submit(_commit(offset), answers.append)
        house.groups.flush_pending()
        house.clock.advance_ms(3_000)
    assert house.groups.next_due_ms() == house.clock.now_ms() - 1_000
    house.groups.tick()
    assert [answer.partitions[0].error for answer in answers] == [Error.COORDINATOR_NOT_AVAILABLE]

    for outcome in store.held:
        outcome()

    assert [answer.partitions[0].error for answer in answers] == [Error.COORDINATOR_NOT_AVAILABLE, Error.NONE]
    (stored,) = house.groups.coordinator.groups["g"].offsets.values()
    assert stored.offset == 2
    due_ms = house.groups.next_due_ms()
    assert due_ms is not None
    assert due_ms > house.clock.now_ms() + 5_000
