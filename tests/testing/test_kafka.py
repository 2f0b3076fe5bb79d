"""Tests of the `kafka` fixture with stock clients."""

import importlib
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Protocol

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from slackwater.group.errors import Error, UsageError
from slackwater.group.events import EventKind, Trigger
from slackwater.testing import Kafka
from tests.waiting import wait_until

DEADLINE_S = 60.0
TOPIC = "orders"


def _until(condition: Callable[[], bool]) -> None:
    wait_until(condition, lambda: "the condition", DEADLINE_S)


@contextmanager
def _member(kafka: Kafka, **settings: object) -> Iterator[Consumer]:
    """Run a consumer that has joined the group `readers`."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **named,
        }
    )
    joined: list[object] = []
    with closing(consumer):
        consumer.subscribe([TOPIC], on_assign=lambda _consumer, partitions: joined.append(partitions))
        _until(lambda: consumer.poll(0.05) is None and bool(joined))
        yield consumer


def _commit(consumer: Consumer, offset: int) -> None:
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)


def _committed(kafka: Kafka) -> int | None:
    """Return the committed offset, read outside of the group."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    group = ConsumerGroupTopicPartitions("readers")
    request = admin.list_consumer_group_offsets([group], request_timeout=DEADLINE_S)["readers"]
    offsets = request.result().topic_partitions
    return offsets[0].offset if offsets else None


@pytest.fixture
def orders(kafka: Kafka) -> Kafka:
    """Return a broker with a topic."""
    kafka.create_topic(TOPIC)
    return kafka


class Groups(Protocol):
    """The used part of kafka-python's admin client."""

    def list_groups(self) -> list[object]: ...


@pytest.fixture
def admin(orders: Kafka) -> Iterator[Groups]:
    """Return kafka-python's admin client, whose imports raise warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        kafka_python = importlib.import_module("kafka")
        client = kafka_python.KafkaAdminClient(bootstrap_servers=orders.bootstrap_servers)
    with closing(client):
        yield client


def _raises_error() -> AbstractContextManager[object]:
    return pytest.raises(importlib.import_module("kafka.errors").GroupAuthorizationFailedError)


# --- delay, drop, fail ----------------------------------------------------------------------------------------------


def test_delay_applies_to_one_response(orders: Kafka) -> None:
    with _member(orders) as consumer:
        fault = orders.delay("OffsetCommit", 0.3)
        began = time.monotonic()
        _commit(consumer, 5)
        assert time.monotonic() - began >= 0.3
        fault.wait()
        assert fault.count == 1
        _commit(consumer, 6)
        assert fault.count == 1
        assert _committed(orders) == 6


def test_delayed_request_is_executed_at_once(orders: Kafka) -> None:
    with _member(orders, socket_timeout_ms=2_000) as consumer:
        orders.delay("OffsetCommit", 3600)
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 5)], asynchronous=True)
        _until(lambda: _committed(orders) == 5)


def test_dropped_response_keeps_commit(orders: Kafka) -> None:
    with _member(orders) as consumer:
        _commit(consumer, 1)
        fault = orders.drop("OffsetCommit", times=None)
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 5)], asynchronous=True)
        _until(lambda: fault.count > 0)
        assert _committed(orders) == 5
        orders.clear_faults()

        def has_advanced() -> bool:
            _commit(consumer, 6)  # librdkafka's retry of the lost commit may arrive later
            return _committed(orders) == 6

        _until(has_advanced)


def test_dropped_request_commits_nothing(orders: Kafka) -> None:
    with _member(orders) as consumer:
        _commit(consumer, 1)
        fault = orders.drop("OffsetCommit", times=None, processed=False)
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 5)], asynchronous=True)
        _until(lambda: fault.count > 0)
        assert _committed(orders) == 1
        orders.clear_faults()


def test_error_fault_reaches_client(orders: Kafka) -> None:
    with _member(orders) as consumer:
        _commit(consumer, 1)
        orders.fail("OffsetCommit", "OFFSET_METADATA_TOO_LARGE")
        with pytest.raises(KafkaException) as raised:
            _commit(consumer, 5)
        assert raised.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
        assert _committed(orders) == 1


def test_retriable_error_is_retried(orders: Kafka) -> None:
    with _member(orders) as consumer:
        fault = orders.fail("OffsetCommit", Error.COORDINATOR_LOAD_IN_PROGRESS, times=2)
        _commit(consumer, 5)
        assert (fault.count, fault.is_finished) == (2, True)
        assert _committed(orders) == 5


def test_faults_apply_to_other_clients(orders: Kafka, admin: Groups) -> None:
    orders.fail("ListGroups", Error.GROUP_AUTHORIZATION_FAILED)
    with _raises_error():
        admin.list_groups()
    assert admin.list_groups() == []


def test_dropped_heartbeat_causes_no_rebalance(orders: Kafka) -> None:
    with _member(orders, heartbeat_interval_ms=50, session_timeout_ms=10_000) as consumer:
        fault = orders.drop("Heartbeat", times=2)
        _until(lambda: consumer.poll(0.05) is None and fault.is_finished)
        heartbeats = orders.delay("Heartbeat", 0)  # the next heartbeat arrives
        _until(lambda: consumer.poll(0.05) is None and heartbeats.is_finished)
        started = [event for event in orders.events("readers") if event.kind is EventKind.REBALANCE_STARTED]
        assert len(started) == 1


def test_faults_of_one_api_are_injected_in_order(orders: Kafka, admin: Groups) -> None:
    first = orders.fail("ListGroups", Error.GROUP_AUTHORIZATION_FAILED)
    second = orders.delay("ListGroups", 0.01, times=2)
    with _raises_error():
        admin.list_groups()
    assert (first.is_finished, second.count) == (True, 0)
    for _ in range(3):
        admin.list_groups()
    assert second.count == 2


def test_error_closes_connection_of_acks_0_producer(orders: Kafka) -> None:
    fault = orders.fail("Produce", Error.NOT_LEADER_OR_FOLLOWER)
    producer = Producer({"bootstrap.servers": orders.bootstrap_servers, "acks": 0})
    producer.produce(TOPIC, "gone")
    producer.flush(DEADLINE_S)
    fault.wait()
    reader = Consumer({"bootstrap.servers": orders.bootstrap_servers, "group.id": "readers"})

    def has_arrived() -> bool:
        producer.produce(TOPIC, "there")  # repeat until the producer has reconnected
        producer.flush(DEADLINE_S)
        return bool(reader.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=DEADLINE_S)[1] > 0)

    with closing(reader):
        _until(has_arrived)
    assert fault.count == 1


def test_pending_fault_survives_restart(orders: Kafka) -> None:
    with _member(orders) as consumer:
        fault = orders.fail("OffsetCommit", Error.OFFSET_METADATA_TOO_LARGE)
        orders.restart()
        with pytest.raises(KafkaException):
            _commit(consumer, 5)
        assert fault.is_finished


def test_fault_wait_times_out(orders: Kafka) -> None:
    with pytest.raises(TimeoutError, match=r"injected 0 times within 0\.0 s"):
        orders.drop("Fetch").wait(0.0)


# --- pause, members, time -------------------------------------------------------------------------------------------


def test_paused_broker_can_be_inspected(orders: Kafka) -> None:
    admin = AdminClient({"bootstrap.servers": orders.bootstrap_servers})
    assert admin.list_consumer_groups(request_timeout=DEADLINE_S).result().errors == []
    orders.pause()
    assert orders.describe_group("readers").state == "Dead"
    assert admin.list_consumer_groups(request_timeout=0.3).result().errors != []
    orders.resume()
    assert admin.list_consumer_groups(request_timeout=DEADLINE_S).result().errors == []


def test_expired_member_rejoins_in_new_generation(orders: Kafka) -> None:
    with _member(orders, client_id="a", heartbeat_interval_ms=50) as consumer:
        orders.expire_member("readers", "a")
        (expired,) = [event for event in orders.events("readers") if event.kind is EventKind.MEMBER_EXPIRED]
        assert (expired.client, expired.trigger) == ("a", Trigger.SESSION_TIMEOUT)

        def is_back() -> bool:
            consumer.poll(0.05)
            group = orders.describe_group("readers")
            return group.state == "Stable" and [member.member_id for member in group.members] != [expired.member]

        _until(is_back)


def test_static_member_expires_by_instance_id(orders: Kafka) -> None:
    with _member(orders, group_instance_id="i"):
        pass  # a static member sends no LeaveGroup
    assert [member.group_instance_id for member in orders.describe_group("readers").members] == ["i"]
    orders.expire_member("readers", "i")
    assert orders.describe_group("readers").state == "Empty"


@pytest.mark.kafka(virtual_time=True)
def test_virtual_time_expires_session(orders: Kafka) -> None:
    with _member(orders, group_instance_id="i", session_timeout_ms=45_000):
        pass
    began = time.monotonic()
    orders.advance(44)
    assert len(orders.describe_group("readers").members) == 1
    orders.advance(1)
    assert orders.describe_group("readers").state == "Empty"
    assert time.monotonic() - began < 40


@pytest.mark.kafka(virtual_time=True, settings={"group.initial.rebalance.delay.ms": 3000})
def test_virtual_time_ends_the_initial_delay(orders: Kafka) -> None:
    consumer = Consumer({"bootstrap.servers": orders.bootstrap_servers, "group.id": "readers"})
    with closing(consumer):
        consumer.subscribe([TOPIC])
        orders.wait_for_group("readers", state="PreparingRebalance", members=1, timeout_s=DEADLINE_S)
        orders.advance(3)
        orders.wait_for_group("readers", members=1, timeout_s=DEADLINE_S)


@pytest.mark.kafka(virtual_time=True)
def test_virtual_time_continues_after_a_restart(orders: Kafka) -> None:
    with _member(orders, group_instance_id="i", session_timeout_ms=45_000):
        pass
    orders.advance(40)
    orders.restart(clean=False)
    orders.advance(44)  # the restarted coordinator starts a new session
    assert len(orders.describe_group("readers").members) == 1
    orders.advance(1)
    assert orders.describe_group("readers").state == "Empty"


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda kafka: kafka.drop("OfsetCommit"),
            r"OfsetCommit is not an API of this broker; did you mean OffsetCommit\?",
        ),
        (lambda kafka: kafka.fail("Fetch", "TEAPOT"), r"TEAPOT is not a Kafka error\."),
        (lambda kafka: kafka.fail("Fetch", "NOT_LEADER"), r"did you mean NOT_LEADER_OR_FOLLOWER\?"),
        (lambda kafka: kafka.drop("Fetch", times=0), "times=0 is not valid"),
        (lambda kafka: kafka.delay("Fetch", -1), "use 0 or more"),
        (lambda kafka: kafka.advance(1), r"uses real time; use @pytest\.mark\.kafka\(virtual_time=True\)"),
        (lambda kafka: kafka.expire_member("g", "m"), r"Group g has no member called m\. Its members: none\."),
    ],
)
def test_invalid_call_message(kafka: Kafka, call: Callable[[Kafka], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(kafka)


@pytest.mark.kafka(virtual_time=True)
def test_negative_advance_is_rejected(kafka: Kafka) -> None:
    with pytest.raises(UsageError, match="Cannot advance the time by"):
        kafka.advance(-1)


@pytest.mark.kafka(settings={"group.initial.rebalance.delay.ms": 3000}, virtual_time=True)
def test_member_in_rebalance_cannot_expire(orders: Kafka) -> None:
    consumer = Consumer({"bootstrap.servers": orders.bootstrap_servers, "group.id": "readers", "client.id": "a"})
    with closing(consumer):
        consumer.subscribe([TOPIC])
        orders.wait_for_group("readers", state="PreparingRebalance", members=1, timeout_s=DEADLINE_S)
        with pytest.raises(UsageError, match="waits for a response in a rebalance"):
            orders.expire_member("readers", "a")
        orders.advance(3)
