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
from slackwater.group.batches.config import DataLossError, OffsetResetRejected
from slackwater.group.errors import SlackwaterError, UsageError
from slackwater.group.topic_partition import TopicPartition
from slackwater.spark.member import query_run
from slackwater.spark.member.control_server import ControlAddress, ControlServer
from slackwater.spark.member.query_member import QueryMember
from slackwater.spark.member.stream_reader import StreamReader
from slackwater.spark.source.input_partitions import RangeInputPartition
from slackwater.spark.source.options import SourceOptions
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.waiting import wait_until

TIMEOUT_S = 60.0
Offset = dict[str, Any]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_run, "LOCK_WAIT_S", 0.2)
    monkeypatch.setattr(query_run, "FIRST_PARTITIONS_S", 0.5)


class Environment:
    """The topic, group and readers of one test."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.topic = f"t-{name}"
        self.group = f"g-{name}"
        self.readers: list[StreamReader] = []
        broker.create_topic(self.topic, 2)

    def fill(self, count: int, partition: int | None = None) -> None:
        """Write `count` records to each partition, or to one."""
        with Producer({"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": 0}) as producer:
            for number in [0, 1] if partition is None else [partition]:
                for _ in range(count):
                    producer.send(self.topic, b"x", partition=number)

    def reader(self, group: str | None = "", *, control: ControlAddress | None = None, **options: str) -> StreamReader:
        """Create a reader in the group, or without a group for None; `_` in option names means a dot."""
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
        return {partition.partition: offset for partition, offset in self.broker.committed(self.group).items()}

    def shares(self) -> list[int]:
        description = self.broker.describe_group(self.group)
        return sorted(len(member.partitions) for member in description.members) if description.state == "Stable" else []


@pytest.fixture
def env(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Environment]:
    name = "".join(character if character.isalnum() else "-" for character in request.node.name)[:80]
    env = Environment(broker, name)
    yield env
    for reader in env.readers:
        reader.stop()


def started(reader: StreamReader) -> tuple[Offset, Offset]:
    """Return the initial offset and the end of the first batch, which is in the checkpoint."""
    initial = reader.initialOffset()
    first = latest(reader, initial)
    reader.partitions(initial, first)
    return initial, first


def latest(reader: StreamReader, start: Offset) -> Offset:
    """Call until there is new data, as Spark does."""
    return wait_until(
        lambda: {} if (end := reader.latestOffset(start, ReadAllAvailable())) == start else end,
        lambda: f"no new data after {start}",
        TIMEOUT_S,
    )


def member_of(reader: StreamReader) -> QueryMember:
    assert reader.query_run is not None
    assert reader.query_run.member is not None
    return reader.query_run.member


def wait_for(condition: Callable[[], object], about: str = "the condition") -> None:
    wait_until(condition, lambda: about, TIMEOUT_S)


def ranges(tasks: Any) -> list[tuple[int, int, int]]:
    return [(task.range.partition, task.range.from_offset, task.range.until_offset) for task in tasks]


def rows(reader: StreamReader, tasks: Any) -> int:
    return sum(batch.num_rows for task in tasks for batch in reader.read(task))


def crash(reader: StreamReader) -> None:
    """Stop a reader as if its process was killed: it does not leave the group."""
    assert reader.query_run is not None
    reader.query_run.stop(leave_group=False)
    reader.query_run = None


# --- batches ----------------------------------------------------------------------------------------------------------


def test_reader_is_lazy_and_pickles_without_its_run(env: Environment) -> None:
    threads = threading.active_count()
    reader = env.reader()
    assert threading.active_count() == threads

    reader.initialOffset()

    assert pickle.loads(pickle.dumps(reader)).query_run is None


def test_batch_is_committed_when_next_is_planned(env: Environment) -> None:
    env.fill(3)
    reader = env.reader()
    initial = reader.initialOffset()
    assert reader.initialOffset() == initial
    first = latest(reader, initial)
    tasks = reader.partitions(initial, first)
    assert ranges(tasks) == [(0, 0, 3), (1, 0, 3)]
    assert rows(reader, tasks) == 6
    assert env.committed() == {0: 0, 1: 0}

    assert json.dumps(reader.latestOffset(first, ReadAllAvailable())) == json.dumps(first), "nothing new"

    wait_for(lambda: env.committed() == {0: 3, 1: 3})
    env.fill(1, partition=1)
    second = latest(reader, first)
    assert ranges(reader.partitions(first, second)) == [(1, 3, 4)]
    assert second["ranges"] == {env.topic: {"0": [3, 3], "1": [3, 4]}}


def test_equal_offsets_give_no_input_partitions(env: Environment) -> None:
    assert env.reader().partitions({"v": 1}, {"v": 1}) == []


def test_limits_of_options_and_trigger(env: Environment) -> None:
    env.fill(10)
    reader = env.reader(maxOffsetsPerTrigger="6")
    assert reader.getDefaultReadLimit() == ReadMaxRows(6)
    assert env.reader(minOffsetsPerTrigger="6").getDefaultReadLimit() == ReadMinRows(6)
    assert env.reader().getDefaultReadLimit() == ReadAllAvailable()
    initial = reader.initialOffset()
    limited = reader.latestOffset(initial, reader.getDefaultReadLimit())
    assert limited["ranges"] == {env.topic: {"0": [0, 3], "1": [0, 3]}}
    unlimited = reader.latestOffset(initial, ReadAllAvailable())
    assert unlimited["ranges"] == {env.topic: {"0": [0, 10], "1": [0, 10]}}


def test_available_now_ignores_later_records(env: Environment) -> None:
    env.fill(4)
    reader = env.reader(maxOffsetsPerTrigger="6")
    reader.prepareForTriggerAvailableNow()
    initial = reader.initialOffset()
    env.fill(5)
    first = reader.latestOffset(initial, ReadMaxRows(6))
    reader.partitions(initial, first)
    second = reader.latestOffset(first, ReadMaxRows(6))
    reader.partitions(first, second)

    assert second["ranges"] == {env.topic: {"0": [3, 4], "1": [3, 4]}}
    assert reader.latestOffset(second, ReadMaxRows(6)) == second, "the trigger is complete"
    reader.stop()
    assert env.committed() == {0: 4, 1: 4}


def test_progress_contains_group_metrics(env: Environment) -> None:
    env.fill(3)
    reader = env.reader(kafka_group_instance_id=f"i-{env.group}", maxOffsetsPerTrigger="4")
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    shown = reader.reportLatestOffset()

    assert shown is not None
    assert shown["lag"] == {env.topic: {"0": 1, "1": 1}}, "records after this batch"
    assert shown["totalLag"] == 2
    assert shown["group"] == env.group
    assert shown["owned"] == {env.topic: [0, 1]}
    assert shown["generation"] == 1
    assert shown["rebalances"] == 1
    json.dumps(shown)


# --- handing over and coming back -------------------------------------------------------------------------------------


def test_revoked_partition_waits_for_running_batch(env: Environment) -> None:
    env.fill(3)
    first, second = env.reader(), env.reader()
    _, batch = started(first)
    initial = second.initialOffset()
    assert second.latestOffset(initial, ReadAllAvailable()) == initial, "the first reader owns all partitions"
    wait_for(lambda: (first.reportLatestOffset() or {})["leaving"] == {env.topic: [1]})
    assert env.shares() == [0, 1], "the group is stable meanwhile"

    assert first.latestOffset(batch, ReadAllAvailable()) == batch

    wait_for(lambda: env.shares() == [1, 1])
    env.fill(1)
    assert latest(second, initial)["ranges"] == {env.topic: {"1": [3, 4]}}
    assert latest(first, batch)["ranges"] == {env.topic: {"0": [3, 4]}}
    shown = first.reportLatestOffset()
    assert shown is not None
    assert shown["handovers"] == 1


def test_static_query_repeats_unfinished_batch_exactly(env: Environment) -> None:
    env.fill(3)
    instance = f"i-{env.group}"
    reader = env.reader(kafka_group_instance_id=instance)
    initial, first = started(reader)
    crash(reader)
    env.fill(2)
    restarted = env.reader(kafka_group_instance_id=instance)

    assert ranges(restarted.partitions(initial, first)) == [(0, 0, 3), (1, 0, 3)]

    assert env.broker.describe_group(env.group).state == "Stable"
    second = latest(restarted, first)
    assert second["ranges"] == {env.topic: {"0": [3, 5], "1": [3, 5]}}
    assert second["generation"] == first["generation"]
    assert env.committed() == {0: 3, 1: 3}


def test_ranges_read_by_other_members_are_skipped(env: Environment) -> None:
    env.fill(3)
    reader = env.reader()
    initial, first = started(reader)
    reader.stop()
    assert env.committed() == {0: 0, 1: 0}, "an unfinished batch is not committed"
    with Consumer({"bootstrap.servers": env.broker.bootstrap_servers, "group.id": env.group}) as consumer:
        consumer.assign([TopicPartition(env.topic, 0)])
        consumer.commit({TopicPartition(env.topic, 0): 2})
    restarted = env.reader()

    assert ranges(restarted.partitions(initial, first)) == [(0, 2, 3), (1, 0, 3)]


def test_query_continues_from_commits_of_a_consumer(env: Environment) -> None:
    env.fill(3)
    reader = env.reader()
    _, first = started(reader)
    assert reader.latestOffset(first, ReadAllAvailable()) == first
    settings = {
        "bootstrap.servers": env.broker.bootstrap_servers,
        "group.id": env.group,
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 50,
        "enable.auto.commit": False,
    }
    offsets: list[int] = []
    with Consumer(settings) as consumer:
        consumer.subscribe([env.topic])

        def poll_until(condition: Callable[[], object]) -> None:
            def poll() -> object:
                offsets.extend(record.offset for record in consumer.poll(0.05))
                return condition()

            wait_for(poll)

        poll_until(lambda: consumer.assignment)
        (taken,) = consumer.assignment
        env.fill(2)
        poll_until(lambda: len(offsets) == 2)
        assert offsets == [3, 4], "the consumer starts at the query's commit"
        consumer.commit()
    wait_for(lambda: env.shares() == [2])
    env.fill(1)

    second = latest(reader, first)
    wait_for(lambda: (reader.reportLatestOffset() or {})["owned"] == {env.topic: [0, 1]})

    read = {int(number): tuple(offsets) for number, offsets in second["ranges"][env.topic].items()}
    reader.partitions(first, second)
    if len(read) < 2:  # planned before the partition was assigned again
        third = latest(reader, second)
        later = {int(number): tuple(offsets) for number, offsets in third["ranges"][env.topic].items()}
        read = later | read
    assert read[taken.partition] == (5, 6)


def test_offset_reset_is_obeyed_or_refused(env: Environment) -> None:
    env.fill(3)
    reader = env.reader()
    _, first = started(reader)
    reader.latestOffset(first, ReadAllAvailable())
    reader.stop()
    assert env.committed() == {0: 3, 1: 3}
    with Admin({"bootstrap.servers": env.broker.bootstrap_servers}) as admin:
        admin.alter_offsets(env.group, {TopicPartition(env.topic, 0): 1})
    refusing = env.reader(onOffsetReset="refuse")
    with pytest.raises(OffsetResetRejected, match=r"-0 is 1, and this query was at 3"):
        refusing.latestOffset(first, ReadAllAvailable())
    refusing.stop()

    restarted = env.reader()
    second = latest(restarted, first)

    assert second["ranges"] == {env.topic: {"0": [1, 3], "1": [3, 3]}}
    shown = restarted.reportLatestOffset()
    assert shown is not None
    assert shown["resetsObeyed"] == 1


@pytest.mark.parametrize("grouped", [True, False])
def test_continues_checkpoint_of_sparks_source(env: Environment, grouped: bool) -> None:
    env.fill(5)
    offset = {env.topic: {"0": 2, "1": 4}}
    reader = env.reader("" if grouped else None)

    assert latest(reader, offset)["ranges"] == {env.topic: {"0": [2, 5], "1": [4, 5]}}


@pytest.mark.parametrize("grouped", [True, False])
def test_repeats_unfinished_batch_of_sparks_source(env: Environment, grouped: bool) -> None:
    env.fill(5)
    before, end = {env.topic: {"0": 2}}, {env.topic: {"0": 4, "1": 3}}
    reader = env.reader("" if grouped else None)

    assert ranges(reader.partitions(before, end)) == [(0, 2, 4), (1, 0, 3)]
    assert latest(reader, end)["ranges"] == {env.topic: {"0": [4, 5], "1": [3, 5]}}


def test_stop_commits_finished_batches_and_leaves(env: Environment) -> None:
    env.fill(3)
    reader = env.reader()
    _, first = started(reader)
    reader.commit(first)

    reader.stop()
    reader.stop()

    assert env.committed() == {0: 3, 1: 3}
    assert env.broker.describe_group(env.group).members == ()


def test_static_query_stays_in_group_after_stop(env: Environment) -> None:
    reader = env.reader(kafka_group_instance_id=f"i-{env.group}")
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    reader.stop()

    assert len(env.broker.describe_group(env.group).members) == 1


def test_default_session_timeout_of_static_query() -> None:
    settings = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.group.id": "g"}
    static = settings | {"kafka.group.instance.id": "i"}
    for options, expected in (
        (settings, 45_000),
        (static, 120_000),
        (static | {"kafka.session.timeout.ms": "7000"}, 7_000),
    ):
        run = query_run.QueryRun(SourceOptions.parse(options, streaming=True), None)
        try:
            config = run.client.member_config()
            assert config.session_timeout_ms == expected
            assert config.join_rebalance_timeout_ms == 60_000
            assert [assignor.name for assignor in config.assignors] == ["cooperative-sticky"]
        finally:
            run.stop()


# --- without a group --------------------------------------------------------------------------------------------------


def test_without_group_new_partitions_are_read(env: Environment) -> None:
    env.fill(2)
    reader = env.reader(None)
    _, first = started(reader)
    assert first["group"] is None
    with Admin({"bootstrap.servers": env.broker.bootstrap_servers}) as admin:
        admin.add_partitions(env.topic, 3)
    env.fill(1, partition=2)

    second = latest(reader, first)

    assert second["ranges"] == {env.topic: {"0": [2, 2], "1": [2, 2], "2": [0, 1]}}
    assert env.committed() == {}


def test_without_group_unfinished_batch_is_repeated(env: Environment) -> None:
    env.fill(2)
    reader = env.reader(None)
    initial, first = started(reader)
    reader.stop()
    env.fill(2)

    assert ranges(env.reader(None).partitions(initial, first)) == [(0, 0, 2), (1, 0, 2)]


# --- the user's process -----------------------------------------------------------------------------------------------


@pytest.fixture
def control() -> Iterator[ControlServer]:
    with closing(ControlServer()) as control:
        yield control


def test_batch_is_committed_when_listener_reports_it(env: Environment, control: ControlServer) -> None:
    env.fill(3)
    reader = env.reader(control=control.address)
    _, first = started(reader)
    wait_for(lambda: control.members)

    control.batch_finished(first["token"], first)

    wait_for(lambda: env.committed() == {0: 3, 1: 3})


def test_stop_waits_for_report_of_last_batch(env: Environment, control: ControlServer) -> None:
    env.fill(3)
    reader = env.reader(control=control.address)
    _, first = started(reader)
    wait_for(lambda: control.members)
    stopping = threading.Thread(target=reader.stop)
    stopping.start()

    control.batch_finished(first["token"], first)
    stopping.join(TIMEOUT_S)

    assert env.committed() == {0: 3, 1: 3}


def test_batch_without_progress_leaves_group(
    env: Environment, control: ControlServer, caplog: pytest.LogCaptureFixture
) -> None:
    env.fill(3)
    reader = env.reader(control=control.address, kafka_max_poll_interval_ms="300")
    _, first = started(reader)
    wait_for(lambda: env.broker.describe_group(env.group).members == ())
    assert "kafka.max.poll.interval.ms exceeded" in caplog.text

    reader.latestOffset(first, ReadAllAvailable())

    wait_for(lambda: env.shares() == [2], "the member rejoins")


def test_finished_task_resets_process_timer(env: Environment, control: ControlServer) -> None:
    env.fill(3)
    reader = env.reader(control=control.address, kafka_max_poll_interval_ms="2000")
    _, first = started(reader)
    member = member_of(reader)
    wait_for(lambda: control.members)
    before = member.last_progress_ms

    def is_progress_reported() -> bool:
        control.task_ended(first["token"])
        return member.last_progress_ms > before

    wait_for(is_progress_reported)


def test_query_runs_without_control_server(env: Environment, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    env.fill(1)

    with caplog.at_level(logging.INFO):
        started(env.reader(control=ControlAddress("127.0.0.1", port, "secret")))

    assert "Cannot connect to the control server" in caplog.text
    assert "does not check kafka.max.poll.interval.ms" in caplog.text


@pytest.mark.parametrize("policy", ["warn", "refuse", "allow"])
def test_stateful_query_in_group_is_warned_or_refused(
    env: Environment, control: ControlServer, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = env.reader()
    other.latestOffset(other.initialOffset(), ReadAllAvailable())
    reader = env.reader(control=control.address, statefulHandover=policy)
    initial = reader.initialOffset()
    reader.latestOffset(initial, ReadAllAvailable())
    wait_for(lambda: env.shares() == [1, 1])
    member = member_of(reader)
    control.set_stateful(initial["token"], True)
    wait_for(lambda: member.is_stateful)

    if policy == "refuse":
        with pytest.raises(UsageError, match="This query is stateful"):
            reader.latestOffset(initial, ReadAllAvailable())
    else:
        reader.latestOffset(initial, ReadAllAvailable())
    assert ("This query is stateful" in caplog.text) == (policy != "allow")


# --- errors -----------------------------------------------------------------------------------------------------------


def check_single_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    return str(error)


def first_call(env: Environment, reader: StreamReader, restarted: bool) -> None:
    if restarted:
        reader.latestOffset({env.topic: {"0": 2}}, ReadAllAvailable())
    else:
        reader.initialOffset()


def test_checkpoint_of_another_group_is_rejected(env: Environment) -> None:
    env.fill(1)
    reader = env.reader()
    _, first = started(reader)
    reader.stop()
    for other, setting in (("another-group", "kafka.group.id is another-group"), (None, "kafka.group.id is not set")):
        with pytest.raises(UsageError, match=f"belongs to group {env.group}, but {setting}") as caught:
            env.reader(other).latestOffset(first, ReadAllAvailable())
        check_single_line(caught.value)


def test_checkpoint_in_use_is_rejected(env: Environment) -> None:
    env.fill(1)
    _, first = started(env.reader())

    with pytest.raises(UsageError, match=r"checkpoint of this query is in use by process \d+"):
        env.reader().latestOffset(first, ReadAllAvailable())


def test_instance_id_in_use_on_host_is_rejected(env: Environment) -> None:
    reader, other = (env.reader(kafka_group_instance_id=f"i-{env.group}") for _ in range(2))
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    with pytest.raises(UsageError, match=r"kafka.group.instance.id=i-.* is in use by process \d+ on this host"):
        other.latestOffset(other.initialOffset(), ReadAllAvailable())


def test_fenced_member_raises_usage_error(env: Environment) -> None:
    reader = env.reader(kafka_group_instance_id="mine")
    initial = reader.initialOffset()
    reader.latestOffset(initial, ReadAllAvailable())
    with Consumer(
        {
            "bootstrap.servers": env.broker.bootstrap_servers,
            "group.id": env.group,
            "group.instance.id": "mine",
        },
        partition_assignment_strategy="cooperative-sticky",
    ) as other:
        other.subscribe([env.topic])

        def fenced() -> UsageError | None:
            other.poll(0.01)
            try:
                reader.latestOffset(initial, ReadAllAvailable())
            except UsageError as error:
                return error
            return None

        error = wait_until(fenced, lambda: "no member was fenced", TIMEOUT_S)
        assert error is not None
        assert "has joined group" in check_single_line(error)


def test_group_with_other_protocol_is_rejected(env: Environment) -> None:
    helper = env.reader(None)
    helper.initialOffset()
    assert helper.query_run is not None
    client = helper.query_run.client

    async def join() -> JoinGroupResponse:
        await client.cluster.refresh()
        connection = await client.cluster.any_connection()
        request = JoinGroupRequest(
            group_id=env.group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            group_instance_id="worker",
            protocol_type="connect",
            protocols=[JoinGroupRequestProtocol(name="compatible", metadata=b"")],
        )
        return await connection.request(request, JoinGroupResponse, timeout_s=TIMEOUT_S)

    assert client.network.run(join(), TIMEOUT_S).error_code == 0
    reader = env.reader()
    initial = reader.initialOffset()
    with pytest.raises(UsageError, match=f"This query cannot join group {env.group}") as caught:
        latest(reader, initial)
    check_single_line(caught.value)


def test_assign_and_group_exclude_each_other(env: Environment) -> None:
    options = {
        "kafka.bootstrap.servers": env.broker.bootstrap_servers,
        "assign": f'{{"{env.topic}":[0]}}',
        "kafka.group.id": env.group,
    }
    with pytest.raises(UsageError, match=r"assign and kafka\.group\.id cannot be set together"):
        StreamReader(SourceOptions.parse(options, streaming=True)).initialOffset()


@pytest.mark.parametrize("restarted", [True, False])
def test_unknown_topic_is_named(env: Environment, restarted: bool) -> None:
    reader = env.reader(subscribe="missing-topic")
    with pytest.raises(SlackwaterError, match="missing-topic") as caught:
        first_call(env, reader, restarted)
    check_single_line(caught.value)


@pytest.mark.parametrize("restarted", [True, False])
def test_unreachable_broker_is_reported_in_time(env: Environment, restarted: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    reader = env.reader(kafka_bootstrap_servers=f"127.0.0.1:{port}", kafka_default_api_timeout_ms="500")
    with pytest.raises(SlackwaterError, match=rf"127\.0\.0\.1:{port}") as caught:
        first_call(env, reader, restarted)
    check_single_line(caught.value)


def test_recreated_topic_is_data_loss(env: Environment) -> None:
    env.fill(1)
    reader = env.reader(None)
    with pytest.raises(DataLossError, match="records were deleted, or the topic was recreated") as caught:
        reader.latestOffset({env.topic: {"0": 50, "1": 0}}, ReadAllAvailable())
    check_single_line(caught.value)


def test_invalid_offset_is_rejected(env: Environment) -> None:
    for wrong in ({"logOffset": 5}, {"v": 1, "token": "x"}, {"t": [1]}):
        with pytest.raises(UsageError, match="has an offset of another source"):
            env.reader().latestOffset(wrong, ReadAllAvailable())
    with pytest.raises(UsageError, match="A newer version of Slackwater wrote this checkpoint"):
        env.reader().latestOffset({"v": 2}, ReadAllAvailable())


def test_eager_assignor_logs_warning(env: Environment, caplog: pytest.LogCaptureFixture) -> None:
    env.fill(1)
    started(env.reader(kafka_partition_assignment_strategy="range"))

    assert caplog.text.count("this member rebalances eagerly") == 1


def test_input_partition_of_spark_has_no_records(env: Environment) -> None:
    from pyspark.sql.datasource import InputPartition

    assert list(env.reader().read(InputPartition(None))) == []
    assert not isinstance(InputPartition(None), RangeInputPartition)
