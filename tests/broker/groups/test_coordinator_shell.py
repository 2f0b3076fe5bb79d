"""Tests of the coordinator shell: combined writes, one timer, restarts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from slackwater.broker.groups.coordinator_shell import MAX_PENDING_RECORDS, CoordinatorShell, KeyValue, StoredRecord
from slackwater.clock import ManualClock
from slackwater.group.coordinator import CoordinatorConfig, ProducerTransaction
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


class MemoryStore:
    """An offsets store in memory that counts its writes."""

    def __init__(self) -> None:
        self.partitions: dict[int, list[KeyValue]] = {}
        self.writes = 0
        self.transactions: list[ProducerTransaction | None] = []  # of the writes
        self.error = Error.NONE

    def read(self, partition: int) -> Iterable[StoredRecord]:
        return [(key, value, None) for key, value in self.partitions.get(partition, [])]

    def write(
        self,
        records: Mapping[int, list[KeyValue]],
        on_written: Callable[[Mapping[int, Error]], None],
        transaction: ProducerTransaction | None = None,
    ) -> None:
        self.writes += 1
        self.transactions.append(transaction)
        if self.error is Error.NONE:
            for partition, pairs in records.items():
                self.partitions.setdefault(partition, []).extend(pairs)
        on_written(dict.fromkeys(records, self.error))


class ShellFixture:
    """A coordinator shell with a manual clock."""

    def __init__(self, store: MemoryStore) -> None:
        self.clock = ManualClock()
        self.events: list[GroupEvent] = []
        self.scheduled_iterations = 0
        self.due_ms: int | None = None
        self.groups = CoordinatorShell(
            CoordinatorConfig(offsets_topic_num_partitions=3, group_initial_rebalance_delay_ms=0),
            store,
            now_ms=self.clock.now_ms,
            wake_at=self._wake_at,
            emit=self.events.extend,
            schedule_end_of_iteration=self._schedule_end_of_iteration,
        )
        self.groups.load()

    def _wake_at(self, due_ms: int) -> None:
        self.due_ms = due_ms

    def _schedule_end_of_iteration(self) -> None:
        self.scheduled_iterations += 1


def _commit(offset: int, group_id: str = "g", member_id: str = "", generation_id: int = -1) -> OffsetCommit:
    return OffsetCommit(group_id, member_id, None, generation_id, (OffsetToCommit("t", 0, offset),))


def test_commits_of_one_iteration_are_one_write() -> None:
    store = MemoryStore()
    shell, responses = ShellFixture(store), list[OffsetCommitResponse]()
    for offset in range(5):
        shell.groups.submit(_commit(offset), responses.append)
    assert (store.writes, responses, shell.scheduled_iterations) == (0, [], 1)

    shell.groups.write_pending()

    assert store.writes == 1
    assert [response.partitions[0].error for response in responses] == [Error.NONE] * 5


def test_failed_write_is_an_error_response() -> None:
    store = MemoryStore()
    shell, responses = ShellFixture(store), list[OffsetCommitResponse]()
    store.error = Error.KAFKA_STORAGE_ERROR
    shell.groups.submit(_commit(1), responses.append)
    shell.groups.write_pending()

    assert [response.partitions[0].error for response in responses] == [Error.NOT_COORDINATOR]


def _stabilize(shell: ShellFixture) -> str:
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
    shell.groups.submit(join, joined.append)
    shell.groups.write_pending()
    assert shell.due_ms == shell.clock.now_ms()
    shell.groups.tick()
    (response,) = joined
    sync = SyncGroup("g", response.member_id, None, response.generation_id, assignments=((response.member_id, b"a"),))
    shell.groups.submit(sync, synced.append)
    shell.groups.write_pending()
    assert [response.assignment for response in synced] == [b"a"]
    return response.member_id


def test_restart_restores_groups_without_rebalance() -> None:
    store = MemoryStore()
    before = ShellFixture(store)
    member_id = _stabilize(before)
    before.groups.submit(_commit(7, member_id=member_id, generation_id=1), lambda _response: None)
    before.groups.write_pending()

    after, heartbeats, offsets = ShellFixture(store), list[HeartbeatResponse](), list[OffsetFetchResponse]()
    after.groups.submit(Heartbeat("g", member_id, None, 1), heartbeats.append)
    after.groups.submit(OffsetFetch((GroupToFetch("g", None),)), offsets.append)

    assert heartbeats == [HeartbeatResponse(Error.NONE)]
    assert [offset.offset for offset in offsets[0].groups[0].offsets] == [7]
    assert [event.kind for event in after.events] == [EventKind.GROUP_LOADED]


def _join(member_id: str = "", uuid: str = "u") -> JoinGroup:
    protocols = (JoinProtocol("range", b""),)
    return JoinGroup("g", member_id, None, "consumer", protocols, 10_000, 60_000, "c", "/h", uuid)


def test_zero_initial_delay_ends_before_next_join() -> None:
    shell, issued, joined = ShellFixture(MemoryStore()), list[JoinGroupResponse](), list[JoinGroupResponse]()
    for number in range(3):
        shell.groups.submit(_join(uuid=str(number)), issued.append)
    shell.groups.write_pending()
    first, second, third = sorted(response.member_id for response in issued)

    shell.groups.submit(_join(first), joined.append)
    assert [(response.error, response.generation_id) for response in joined] == [(Error.NONE, 1)]

    for member_id in (second, third, first):
        assert len(joined) == 1
        shell.groups.submit(_join(member_id), joined.append)
    assert [(response.error, response.generation_id) for response in joined] == [
        (Error.NONE, 1),
        *[(Error.NONE, 2)] * 3,
    ]


def test_unwritten_group_has_no_generation() -> None:
    shell, joined = ShellFixture(MemoryStore()), list[JoinGroupResponse]()
    shell.groups.submit(replace(_join(), requires_known_member_id=False), joined.append)
    assert joined == []
    shell.groups.write_pending()
    shell.groups.tick()
    assert [response.error for response in joined] == [Error.NONE]


def test_one_timer_is_rescheduled_after_firing() -> None:
    shell = ShellFixture(MemoryStore())
    _stabilize(shell)
    shell.clock.advance_ms(10_000)
    shell.groups.tick()
    shell.groups.write_pending()

    assert EventKind.MEMBER_EXPIRED in [event.kind for event in shell.events]
    assert shell.due_ms is not None
    assert shell.due_ms > shell.clock.now_ms()


def test_offsets_of_deleted_topics_are_deleted() -> None:
    shell, offsets = ShellFixture(MemoryStore()), list[OffsetFetchResponse]()
    shell.groups.submit(_commit(3), lambda _response: None)
    shell.groups.write_pending()
    shell.groups.topics_deleted(["t"])
    shell.groups.write_pending()
    shell.groups.submit(OffsetFetch((GroupToFetch("g", None),)), offsets.append)

    assert offsets[0].groups[0].offsets == ()


def test_many_appends_are_written_early() -> None:
    store = MemoryStore()
    shell, responses = ShellFixture(store), list[OffsetCommitResponse]()
    for offset in range(MAX_PENDING_RECORDS + 1):
        shell.groups.submit(_commit(offset), responses.append)
    assert (store.writes, len(responses)) == (1, MAX_PENDING_RECORDS)

    shell.groups.write_pending()

    assert (store.writes, len(responses)) == (2, MAX_PENDING_RECORDS + 1)


def test_parked_join_schedules_timer() -> None:
    shell = ShellFixture(MemoryStore())
    shell.groups.reconfigure(replace(shell.groups.config, group_initial_rebalance_delay_ms=3_000))
    shell.groups.write_pending()
    scheduled_iterations = shell.scheduled_iterations
    join = JoinGroup("g", "", "i", "consumer", (JoinProtocol("range", b""),), 10_000, 60_000, uuid="u1")
    shell.groups.submit(join, lambda _response: None)
    assert shell.scheduled_iterations == scheduled_iterations + 1

    shell.groups.write_pending()

    assert shell.due_ms is not None
    assert shell.due_ms - shell.clock.now_ms() <= 3_000


class SlowStore(MemoryStore):
    """A store whose writes complete when the test runs `held`."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], None]] = []

    def write(
        self,
        records: Mapping[int, list[KeyValue]],
        on_written: Callable[[Mapping[int, Error]], None],
        transaction: ProducerTransaction | None = None,
    ) -> None:
        self.held.append(lambda: MemoryStore.write(self, records, on_written))


def test_slow_write_times_out_but_is_applied() -> None:
    store = SlowStore()
    shell, responses = ShellFixture(store), list[OffsetCommitResponse]()
    for offset in (1, 2):
        shell.groups.submit(_commit(offset), responses.append)
        shell.groups.write_pending()
        shell.clock.advance_ms(3_000)
    assert shell.groups.next_due_ms() == shell.clock.now_ms() - 1_000
    shell.groups.tick()
    assert [response.partitions[0].error for response in responses] == [Error.COORDINATOR_NOT_AVAILABLE]

    for complete in store.held:
        complete()

    assert [response.partitions[0].error for response in responses] == [Error.COORDINATOR_NOT_AVAILABLE, Error.NONE]
    (stored,) = shell.groups.coordinator.groups["g"].offsets.values()
    assert stored.offset == 2
    due_ms = shell.groups.next_due_ms()
    assert due_ms is not None
    assert due_ms > shell.clock.now_ms() + 5_000
