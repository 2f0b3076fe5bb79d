"""The streaming reader, called as Spark calls it, on the embedded broker: no JVM."""

import json
import logging
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from slackwater import Admin, Broker, Consumer, Producer
from slackwater.group.batches.config import DataLossError, OffsetResetRefused
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.member import query_run as runs
from slackwater.spark.member.control_server import ControlAddress, ControlServer
from slackwater.spark.source.input_partitions import RangeInputPartition
from slackwater.spark.source.options import SourceOptions
from slackwater.spark.source.stream_reader import StreamReader
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.waiting import wait_until

PATIENCE_S = 60.0
Offset = dict[str, Any]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "LOCK_WAIT_S", 0.2)
    monkeypatch.setattr(runs, "FIRST_PARTITIONS_S", 0.5)


class Room:
    """A topic and a group of a test's own, and the readers it makes."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.topic = f"t-{name}"
        self.group = f"g-{name}"
        self.readers: list[StreamReader] = []
        broker.create_topic(self.topic, 2)

    def fill(self, count: int, partition: int | None = None) -> None:
        """Write so many records to each partition, or to one."""
        with Producer({"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": 0}) as producer:
            for number in [0, 1] if partition is None else [partition]:
                for _ in range(count):
                    producer.send(self.topic, b"x", partition=number)

    def reader(self, group: str | None = "", *, control: ControlAddress | None = None, **options: str) -> StreamReader:
        """A reader of this room's group (None: of no group); an underscore in a name stands for a dot."""
        named = {name.replace("_", "."): value for name, value in options.items()}
        settings = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "kafka.heartbeat.interval.ms": "50",
            "kafka.session.timeout.ms": "10000",
            "kafka.retry.backoff.ms": "20",
        } | named
        if group is not None:
            settings["kafka.group.id"] = group or self.group
        reader = StreamReader(SourceOptions.parse(settings, streaming=True), control)
        self.readers.append(reader)
        return reader

    def committed(self) -> dict[int, int]:
        return {at.partition: offset for at, offset in self.broker.committed(self.group).items()}

    def shares(self) -> list[int]:
        found = self.broker.describe_group(self.group)
        return sorted(len(one.partitions) for one in found.members) if found.state == "Stable" else []


@pytest.fixture
def room(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Room]:
    name = "".join(one if one.isalnum() else "-" for one in request.node.name)[:80]
    room = Room(broker, name)
    yield room
    for reader in room.readers:
        reader.stop()


def started(reader: StreamReader) -> tuple[Offset, Offset]:
    """The initial offset and the first batch, which is logged."""
    initial = reader.initialOffset()
    first = latest(reader, initial)
    reader.partitions(initial, first)
    return initial, first


def latest(reader: StreamReader, start: Offset) -> Offset:
    """Ask until there is something new, as Spark does."""
    return wait_until(
        lambda: {} if (found := reader.latestOffset(start, ReadAllAvailable())) == start else found,
        lambda: f"nothing new after {start}",
        PATIENCE_S,
    )


def wait_for(condition: Callable[[], object], about: str = "it") -> None:
    wait_until(condition, lambda: about, PATIENCE_S)


def ranges(tasks: Any) -> list[tuple[int, int, int]]:
    return [(task.range.partition, task.range.from_offset, task.range.until_offset) for task in tasks]


def rows(reader: StreamReader, tasks: Any) -> int:
    return sum(batch.num_rows for task in tasks for batch in reader.read(task))


def killed(reader: StreamReader) -> None:
    """What is left of a reader whose process was killed: nothing, not even a word to the group."""
    run = reader._run
    assert run is not None
    member = run._member
    assert member is not None
    with member.changed:
        member._over = True
    run._home.close()
    for lock in run._locks:
        lock.release()
    reader._run = None


# --- batches ----------------------------------------------------------------------------------------------------------


def test_a_reader_does_nothing_until_it_is_called_and_travels_without_its_run(room: Room) -> None:
    threads = threading.active_count()
    reader = room.reader()
    assert threading.active_count() == threads

    reader.initialOffset()

    assert pickle.loads(pickle.dumps(reader))._run is None


def test_a_batch_is_read_and_committed_when_the_next_one_is_planned(room: Room) -> None:
    room.fill(3)
    reader = room.reader()
    initial = reader.initialOffset()
    assert reader.initialOffset() == initial
    first = latest(reader, initial)
    tasks = reader.partitions(initial, first)
    assert ranges(tasks) == [(0, 0, 3), (1, 0, 3)]
    assert rows(reader, tasks) == 6
    assert room.committed() == {0: 0, 1: 0}

    assert json.dumps(reader.latestOffset(first, ReadAllAvailable())) == json.dumps(first), "nothing new"

    wait_for(lambda: room.committed() == {0: 3, 1: 3})
    room.fill(1, partition=1)
    second = latest(reader, first)
    assert ranges(reader.partitions(first, second)) == [(1, 3, 4)]
    assert second["ranges"] == {room.topic: {"0": [3, 3], "1": [3, 4]}}


def test_an_empty_range_of_offsets_has_no_tasks(room: Room) -> None:
    assert room.reader().partitions({"v": 1}, {"v": 1}) == []


def test_limits_are_those_of_the_options_and_of_the_trigger(room: Room) -> None:
    room.fill(10)
    reader = room.reader(maxOffsetsPerTrigger="6")
    assert reader.getDefaultReadLimit() == ReadMaxRows(6)
    assert room.reader(minOffsetsPerTrigger="6").getDefaultReadLimit() == ReadMinRows(6)
    assert room.reader().getDefaultReadLimit() == ReadAllAvailable()
    initial = reader.initialOffset()
    limited = reader.latestOffset(initial, reader.getDefaultReadLimit())
    assert limited["ranges"] == {room.topic: {"0": [0, 3], "1": [0, 3]}}
    whole = reader.latestOffset(initial, ReadAllAvailable())
    assert whole["ranges"] == {room.topic: {"0": [0, 10], "1": [0, 10]}}


def test_with_available_now_what_comes_later_is_not_read(room: Room) -> None:
    room.fill(4)
    reader = room.reader(maxOffsetsPerTrigger="6")
    reader.prepareForTriggerAvailableNow()
    initial = reader.initialOffset()
    room.fill(5)
    first = reader.latestOffset(initial, ReadMaxRows(6))
    reader.partitions(initial, first)
    second = reader.latestOffset(first, ReadMaxRows(6))
    reader.partitions(first, second)

    assert second["ranges"] == {room.topic: {"0": [3, 4], "1": [3, 4]}}
    assert reader.latestOffset(second, ReadMaxRows(6)) == second, "and then it ends"
    reader.stop()
    assert room.committed() == {0: 4, 1: 4}


def test_the_progress_tells_of_the_group(room: Room) -> None:
    room.fill(3)
    reader = room.reader(kafka_group_instance_id=f"i-{room.group}", maxOffsetsPerTrigger="4")
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    shown = reader.reportLatestOffset()

    assert shown is not None
    assert shown["lag"] == {room.topic: {"0": 1, "1": 1}}, "what this batch leaves"
    assert shown["totalLag"] == 2
    assert shown["group"] == room.group
    assert shown["owned"] == {room.topic: [0, 1]}
    assert shown["generation"] == 1
    assert shown["rebalances"] == 1
    json.dumps(shown)


# --- handing over and coming back -------------------------------------------------------------------------------------


def test_a_partition_waits_for_its_batch_while_the_group_goes_on(room: Room) -> None:
    room.fill(3)
    first, second = room.reader(), room.reader()
    _, batch = started(first)
    initial = second.initialOffset()
    assert second.latestOffset(initial, ReadAllAvailable()) == initial, "the first has everything, and is busy"
    wait_for(lambda: (first.reportLatestOffset() or {})["leaving"] == {room.topic: [1]})
    assert room.shares() == [0, 1], "the group is at rest meanwhile"

    assert first.latestOffset(batch, ReadAllAvailable()) == batch

    wait_for(lambda: room.shares() == [1, 1])
    room.fill(1)
    assert latest(second, initial)["ranges"] == {room.topic: {"1": [3, 4]}}
    assert latest(first, batch)["ranges"] == {room.topic: {"0": [3, 4]}}
    shown = first.reportLatestOffset()
    assert shown is not None
    assert shown["handovers"] == 1


def test_a_static_query_reads_its_unfinished_batch_again_exactly(room: Room) -> None:
    room.fill(3)
    instance = f"i-{room.group}"
    reader = room.reader(kafka_group_instance_id=instance)
    initial, first = started(reader)
    killed(reader)
    room.fill(2)
    again = room.reader(kafka_group_instance_id=instance)

    assert ranges(again.partitions(initial, first)) == [(0, 0, 3), (1, 0, 3)]

    assert room.broker.describe_group(room.group).state == "Stable"
    second = latest(again, first)
    assert second["ranges"] == {room.topic: {"0": [3, 5], "1": [3, 5]}}
    assert second["generation"] == first["generation"]
    assert room.committed() == {0: 3, 1: 3}


def test_what_others_have_read_meanwhile_is_not_read_again(room: Room) -> None:
    room.fill(3)
    reader = room.reader()
    initial, first = started(reader)
    reader.stop()
    assert room.committed() == {0: 0, 1: 0}, "an unfinished batch is not committed"
    with Consumer({"bootstrap.servers": room.broker.bootstrap_servers, "group.id": room.group}) as consumer:
        consumer.assign([TopicPartition(room.topic, 0)])
        consumer.commit({TopicPartition(room.topic, 0): 2})
    again = room.reader()

    assert ranges(again.partitions(initial, first)) == [(0, 2, 3), (1, 0, 3)]


def test_a_plain_consumer_shares_the_group_and_its_commits_are_gone_on_from(room: Room) -> None:
    room.fill(3)
    reader = room.reader()
    _, first = started(reader)
    assert reader.latestOffset(first, ReadAllAvailable()) == first
    settings = {
        "bootstrap.servers": room.broker.bootstrap_servers,
        "group.id": room.group,
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 50,
        "enable.auto.commit": False,
    }
    offsets: list[int] = []
    with Consumer(settings) as consumer:
        consumer.subscribe([room.topic])

        def polled(condition: Callable[[], object]) -> None:
            def poll() -> object:
                offsets.extend(one.offset for one in consumer.poll(0.05))
                return condition()

            wait_for(poll)

        polled(lambda: consumer.assignment)
        (taken,) = consumer.assignment
        room.fill(2)
        polled(lambda: len(offsets) == 2)
        assert offsets == [3, 4], "it began where the query had ended"
        consumer.commit()
    wait_for(lambda: room.shares() == [2])
    room.fill(1)

    second = latest(reader, first)
    wait_for(lambda: (reader.reportLatestOffset() or {})["owned"] == {room.topic: [0, 1]})

    seen = {int(at): tuple(offsets) for at, offsets in second["ranges"][room.topic].items()}
    reader.partitions(first, second)
    if len(seen) < 2:  # planned before the partition was back
        third = latest(reader, second)
        seen |= {int(at): tuple(offsets) for at, offsets in third["ranges"][room.topic].items() if int(at) not in seen}
    assert seen[taken.partition] == (5, 6)


def test_an_operators_reset_is_obeyed_or_refused(room: Room) -> None:
    room.fill(3)
    reader = room.reader()
    _, first = started(reader)
    reader.latestOffset(first, ReadAllAvailable())
    reader.stop()
    assert room.committed() == {0: 3, 1: 3}
    with Admin({"bootstrap.servers": room.broker.bootstrap_servers}) as admin:
        admin.alter_offsets(room.group, {TopicPartition(room.topic, 0): 1})
    refusing = room.reader(onOffsetReset="refuse")
    with pytest.raises(OffsetResetRefused, match=r"-0 is 1, and this query stood at 3"):
        refusing.latestOffset(first, ReadAllAvailable())
    refusing.stop()

    again = room.reader()
    second = latest(again, first)

    assert second["ranges"] == {room.topic: {"0": [1, 3], "1": [3, 3]}}
    shown = again.reportLatestOffset()
    assert shown is not None
    assert shown["resetsObeyed"] == 1


@pytest.mark.parametrize("grouped", [True, False])
def test_a_checkpoint_of_sparks_own_source_is_gone_on_from(room: Room, grouped: bool) -> None:
    room.fill(5)
    theirs = {room.topic: {"0": 2, "1": 4}}
    reader = room.reader("" if grouped else None)

    assert latest(reader, theirs)["ranges"] == {room.topic: {"0": [2, 5], "1": [4, 5]}}


@pytest.mark.parametrize("grouped", [True, False])
def test_an_unfinished_batch_of_sparks_own_source_is_read_as_it_was(room: Room, grouped: bool) -> None:
    room.fill(5)
    before, theirs = {room.topic: {"0": 2}}, {room.topic: {"0": 4, "1": 3}}
    reader = room.reader("" if grouped else None)

    assert ranges(reader.partitions(before, theirs)) == [(0, 2, 4), (1, 0, 3)]
    assert latest(reader, theirs)["ranges"] == {room.topic: {"0": [4, 5], "1": [3, 5]}}


def test_a_stop_commits_what_is_finished_and_leaves(room: Room) -> None:
    room.fill(3)
    reader = room.reader()
    _, first = started(reader)
    reader.commit(first)

    reader.stop()
    reader.stop()

    assert room.committed() == {0: 3, 1: 3}
    assert room.broker.describe_group(room.group).members == ()


def test_a_static_query_stays_in_its_group_when_it_is_stopped(room: Room) -> None:
    reader = room.reader(kafka_group_instance_id=f"i-{room.group}")
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    reader.stop()

    assert len(room.broker.describe_group(room.group).members) == 1


def test_a_static_query_has_a_long_session_unless_it_is_set() -> None:
    settings = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.group.id": "g"}
    static = settings | {"kafka.group.instance.id": "i"}
    for given, expected in (
        (settings, 45_000),
        (static, 120_000),
        (static | {"kafka.session.timeout.ms": "7000"}, 7_000),
    ):
        run = runs.QueryRun(SourceOptions.parse(given, streaming=True), None)
        try:
            config = run._home.member_config()
            assert config.session_timeout_ms == expected
            assert config.join_rebalance_timeout_ms == 60_000
            assert [one.name for one in config.assignors] == ["cooperative-sticky"]
        finally:
            run.stop()


# --- without a group --------------------------------------------------------------------------------------------------


def test_without_a_group_all_partitions_are_read_also_new_ones(room: Room) -> None:
    room.fill(2)
    reader = room.reader(None)
    _, first = started(reader)
    assert first["group"] is None
    with Admin({"bootstrap.servers": room.broker.bootstrap_servers}) as admin:
        admin.add_partitions(room.topic, 3)
    room.fill(1, partition=2)

    second = latest(reader, first)

    assert second["ranges"] == {room.topic: {"0": [2, 2], "1": [2, 2], "2": [0, 1]}}
    assert room.committed() == {}


def test_without_a_group_an_unfinished_batch_is_read_again_as_it_was(room: Room) -> None:
    room.fill(2)
    reader = room.reader(None)
    initial, first = started(reader)
    reader.stop()
    room.fill(2)

    assert ranges(room.reader(None).partitions(initial, first)) == [(0, 0, 2), (1, 0, 2)]


# --- the user's process -----------------------------------------------------------------------------------------------


@pytest.fixture
def control() -> Iterator[ControlServer]:
    with closing(ControlServer()) as control:
        yield control


def test_a_batch_is_committed_as_soon_as_the_users_process_says_so(room: Room, control: ControlServer) -> None:
    room.fill(3)
    reader = room.reader(control=control.address)
    _, first = started(reader)
    wait_for(lambda: control.guests)

    control.finished(first["token"], first)

    wait_for(lambda: room.committed() == {0: 3, 1: 3})


def test_a_stop_waits_a_moment_for_the_last_word(room: Room, control: ControlServer) -> None:
    room.fill(3)
    reader = room.reader(control=control.address)
    _, first = started(reader)
    wait_for(lambda: control.guests)
    stopping = threading.Thread(target=reader.stop)
    stopping.start()

    control.finished(first["token"], first)
    stopping.join(PATIENCE_S)

    assert room.committed() == {0: 3, 1: 3}


def test_a_batch_that_makes_no_progress_leaves_the_group_and_says_why(
    room: Room, control: ControlServer, caplog: pytest.LogCaptureFixture
) -> None:
    room.fill(3)
    reader = room.reader(control=control.address, kafka_max_poll_interval_ms="300")
    _, first = started(reader)
    wait_for(lambda: room.broker.describe_group(room.group).members == ())
    assert "has ended no task for 300 ms" in caplog.text

    reader.latestOffset(first, ReadAllAvailable())

    wait_for(lambda: room.shares() == [2], "it comes back when it is called")


def test_a_task_that_ended_keeps_the_member_in_its_group(room: Room, control: ControlServer) -> None:
    room.fill(3)
    reader = room.reader(control=control.address, kafka_max_poll_interval_ms="2000")
    _, first = started(reader)
    member = reader._run._member if reader._run is not None else None
    assert member is not None
    wait_for(lambda: control.guests)
    before = member._alive_ms

    def told() -> bool:
        control.task_ended(first["token"])
        return member._alive_ms > before

    wait_for(told)


def test_a_room_that_is_not_there_costs_nothing_but_its_news(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    room.fill(1)

    with caplog.at_level(logging.INFO):
        started(room.reader(control=ControlAddress("127.0.0.1", port, "secret")))

    assert "cannot be heard" in caplog.text
    assert "kafka.max.poll.interval.ms is not checked" in caplog.text


@pytest.mark.parametrize("policy", ["warn", "refuse", "allow"])
def test_state_in_a_group_of_several_is_warned_about_or_refused(
    room: Room, control: ControlServer, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = room.reader()
    other.latestOffset(other.initialOffset(), ReadAllAvailable())
    reader = room.reader(control=control.address, statefulHandover=policy)
    initial = reader.initialOffset()
    reader.latestOffset(initial, ReadAllAvailable())
    wait_for(lambda: room.shares() == [1, 1])
    member = reader._run._member if reader._run is not None else None
    assert member is not None
    control.stateful(initial["token"], True)
    wait_for(lambda: member._stateful)

    if policy == "refuse":
        with pytest.raises(UsageError, match="This query keeps state"):
            reader.latestOffset(initial, ReadAllAvailable())
    else:
        reader.latestOffset(initial, ReadAllAvailable())
    assert ("This query keeps state" in caplog.text) == (policy != "allow")


# --- refusals ---------------------------------------------------------------------------------------------------------


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    return str(error)


def first_call(room: Room, reader: StreamReader, restarted: bool) -> None:
    if restarted:
        reader.latestOffset({room.topic: {"0": 2}}, ReadAllAvailable())
    else:
        reader.initialOffset()


def test_a_checkpoint_of_another_group_is_refused(room: Room) -> None:
    room.fill(1)
    reader = room.reader()
    _, first = started(reader)
    reader.stop()
    for other, seen in (("somebody-elses", "kafka.group.id is somebody-elses"), (None, "kafka.group.id is not set")):
        with pytest.raises(UsageError, match=f"belongs to group {room.group}, and {seen}") as caught:
            room.reader(other).latestOffset(first, ReadAllAvailable())
        one_line(caught.value)


def test_a_checkpoint_in_use_is_refused(room: Room) -> None:
    room.fill(1)
    _, first = started(room.reader())

    with pytest.raises(UsageError, match=r"checkpoint is in use by process \d+"):
        room.reader().latestOffset(first, ReadAllAvailable())


def test_an_instance_id_in_use_on_this_host_is_refused(room: Room) -> None:
    reader, other = (room.reader(kafka_group_instance_id=f"i-{room.group}") for _ in range(2))
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    with pytest.raises(UsageError, match=r"kafka.group.instance.id=i-.* is in use by process \d+ on this host"):
        other.latestOffset(other.initialOffset(), ReadAllAvailable())


def test_a_member_that_was_thrown_out_by_its_own_name_says_so(room: Room) -> None:
    reader = room.reader(kafka_group_instance_id="mine")
    initial = reader.initialOffset()
    reader.latestOffset(initial, ReadAllAvailable())
    with Consumer(
        {"bootstrap.servers": room.broker.bootstrap_servers, "group.id": room.group, "group.instance.id": "mine"},
        partition_assignment_strategy="cooperative-sticky",
    ) as other:
        other.subscribe([room.topic])

        def fenced() -> UsageError | None:
            other.poll(0.01)
            try:
                reader.latestOffset(initial, ReadAllAvailable())
            except UsageError as error:
                return error
            return None

        error = wait_until(fenced, lambda: "nobody was thrown out", PATIENCE_S)
        assert error is not None
        assert "has joined group" in one_line(error)


def test_a_group_of_another_kind_is_refused(room: Room) -> None:
    helper = room.reader(None)
    helper.initialOffset()
    run = helper._run
    assert run is not None
    home = run._home

    async def join() -> JoinGroupResponse:
        await home.cluster.refresh()
        connection = await home.cluster.any_connection()
        request = JoinGroupRequest(
            group_id=room.group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            group_instance_id="worker",
            protocol_type="connect",
            protocols=[JoinGroupRequestProtocol(name="compatible", metadata=b"")],
        )
        return await connection.request(request, JoinGroupResponse, timeout_s=PATIENCE_S)

    assert home.network.run(join(), PATIENCE_S).error_code == 0
    reader = room.reader()
    initial = reader.initialOffset()
    with pytest.raises(
        UsageError, match=f"Group {room.group} is in use in a way that this query cannot join"
    ) as caught:
        latest(reader, initial)
    one_line(caught.value)


def test_assign_and_a_group_exclude_each_other(room: Room) -> None:
    options = {
        "kafka.bootstrap.servers": room.broker.bootstrap_servers,
        "assign": f'{{"{room.topic}":[0]}}',
        "kafka.group.id": room.group,
    }
    with pytest.raises(UsageError, match=r"assign and kafka\.group\.id cannot be set together"):
        StreamReader(SourceOptions.parse(options, streaming=True)).initialOffset()


@pytest.mark.parametrize("restarted", [True, False])
def test_an_unknown_topic_is_named(room: Room, restarted: bool) -> None:
    reader = room.reader(subscribe="nobody-made-this")
    with pytest.raises(SlackwaterError, match="nobody-made-this") as caught:
        first_call(room, reader, restarted)
    one_line(caught.value)


@pytest.mark.parametrize("restarted", [True, False])
def test_an_unreachable_broker_is_told_in_time(room: Room, restarted: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    reader = room.reader(kafka_bootstrap_servers=f"127.0.0.1:{port}", kafka_default_api_timeout_ms="500")
    with pytest.raises(SlackwaterError, match=rf"127\.0\.0\.1:{port}") as caught:
        first_call(room, reader, restarted)
    one_line(caught.value)


def test_a_topic_that_was_made_anew_is_data_lost(room: Room) -> None:
    room.fill(1)
    reader = room.reader(None)
    with pytest.raises(DataLossError, match="records are gone, or the topic was made anew") as caught:
        reader.latestOffset({room.topic: {"0": 50, "1": 0}}, ReadAllAvailable())
    one_line(caught.value)


def test_what_an_offset_cannot_be_is_refused(room: Room) -> None:
    for wrong in ({"logOffset": 5}, {"v": 1, "token": "x"}, {"t": [1]}):
        with pytest.raises(UsageError, match="neither this source's nor that of Spark's kafka source"):
            room.reader().latestOffset(wrong, ReadAllAvailable())
    with pytest.raises(UsageError, match="written by a newer Slackwater"):
        room.reader().latestOffset({"v": 2}, ReadAllAvailable())


def test_an_eager_group_is_told_what_it_costs(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    room.fill(1)
    started(room.reader(kafka_partition_assignment_strategy="range"))

    assert caplog.text.count("this member rebalances eagerly") == 1


def test_a_task_without_a_range_has_no_records(room: Room) -> None:
    from pyspark.sql.datasource import InputPartition

    assert list(room.reader().read(InputPartition(None))) == []
    assert not isinstance(InputPartition(None), RangeInputPartition)
