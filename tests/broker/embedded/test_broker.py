"""`Broker()`: a broker inside another program."""

import asyncio
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

import slackwater
from slackwater import Broker
from slackwater.group.errors import BrokerError, Error, SlackwaterError, UsageError
from slackwater.group.events import EventKind, GroupEvent
from slackwater.group.topic_partition import TopicPartition
from tests.waiting import wait_until

DEADLINE_S = 60.0
NO_DELAY = {"group.initial.rebalance.delay.ms": 0}
both = pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])


def _until(condition: Callable[[], bool]) -> None:
    wait_until(condition, lambda: "the condition is still false", DEADLINE_S)


def _produce(broker: Broker, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0


def _consumer(broker: Broker, group: str, topic: str, **settings: str) -> Consumer:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **dotted,
        }
    )
    consumer.subscribe([topic])
    return consumer


def _close(consumer: Consumer) -> None:
    """Close a consumer after it has its assignment: before that, librdkafka may block forever."""
    _until(lambda: consumer.poll(0.01) is not None or bool(consumer.assignment()))
    consumer.close()


def _read(consumer: Consumer, count: int) -> list[str]:
    values: list[str] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(values) < count:
        assert time.monotonic() < deadline
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append((message.value() or b"").decode())
    return values


def _open_files() -> list[str]:
    paths = []
    for name in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue  # the descriptor of this listing
    return sorted(paths)


# --- life cycle ------------------------------------------------------------------------------------------------------


@both
def test_stop_leaves_nothing_behind(process: bool) -> None:
    threads = set(threading.enumerate())
    with Broker(process=process, settings=NO_DELAY) as broker:
        data = broker.data
        broker.create_topic("orders", partitions=2)
        _produce(broker, "orders", "a", "b", "c")
        consumer = _consumer(broker, "readers", "orders")
        assert sorted(_read(consumer, 3)) == ["a", "b", "c"]
        group = broker.wait_for_group("readers", members=1)
        assert group.members[0].partitions == (TopicPartition("orders", 0), TopicPartition("orders", 1))
        assert EventKind.REBALANCE_COMPLETED in [event.kind for event in broker.events("readers")]
        assert broker.events("unknown") == []
        consumer.close()

    assert not data.parent.exists()
    assert set(threading.enumerate()) <= threads


def test_thread_leaves_no_open_file() -> None:
    with Broker(metrics=True):
        pass  # files that stay open are open now
    before = _open_files()
    for _ in range(3):
        with Broker(metrics=True) as broker:
            broker.create_topic("orders", 5)
            broker.restart()

    assert _open_files() == before


@both
def test_directory_and_port_arguments(process: bool, tmp_path: Path) -> None:
    with Broker(process=process, data=tmp_path / "data") as broker:
        port = broker.port
        broker.create_topic("orders")
        _produce(broker, "orders", "kept")
    with Broker(process=process, data=tmp_path / "data", port=port, settings=NO_DELAY) as broker:
        assert broker.port == port
        consumer = _consumer(broker, "readers", "orders")
        assert _read(consumer, 1) == ["kept"]
        consumer.close()


@both
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_group_survives_restart_without_rebalance(process: bool, clean: bool) -> None:
    with Broker(process=process, settings=NO_DELAY) as broker:
        port = broker.port
        broker.create_topic("orders")
        consumer = _consumer(broker, "readers", "orders")
        broker.wait_for_group("readers", members=1)
        _produce(broker, "orders", "one")
        assert _read(consumer, 1) == ["one"]
        consumer.commit(asynchronous=False)
        assert broker.committed("readers") == {TopicPartition("orders", 0): 1}
        assert broker.committed("unknown") == {}
        before = broker.describe_group("readers")

        broker.restart(clean=clean)

        assert broker.port == port
        assert broker.wait_for_group("readers", members=1) == before
        _produce(broker, "orders", "two")
        assert _read(consumer, 1) == ["two"]
        consumer.commit(asynchronous=False)
        assert broker.committed("readers") == {TopicPartition("orders", 0): 2}
        started = [event for event in broker.events("readers") if event.kind is EventKind.REBALANCE_STARTED]
        assert len(started) == 1
        consumer.close()


@both
def test_killed_broker_can_be_started_again(process: bool) -> None:
    with Broker(process=process) as broker:
        broker.create_topic("orders")
        port = broker.port
        broker.kill()
        with pytest.raises(UsageError, match=r"not running; call start\(\)"):
            _ = broker.bootstrap_servers
        broker.start()
        assert broker.port == port
        with pytest.raises(BrokerError, match="already exists"):
            broker.create_topic("orders")


@both
def test_paused_broker_does_not_respond(process: bool) -> None:
    with Broker(process=process) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert admin.list_consumer_groups(request_timeout=DEADLINE_S).result().valid == []
        broker.pause()
        broker.pause()
        (error,) = admin.list_consumer_groups(request_timeout=0.5).result().errors
        assert error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)
        broker.resume()
        assert admin.list_consumer_groups(request_timeout=DEADLINE_S).result().valid == []


@both
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_paused_broker_can_be_stopped(process: bool, clean: bool) -> None:
    with Broker(process=process) as broker:
        broker.pause()
        broker.stop() if clean else broker.kill()


def test_killed_broker_skips_requests_of_pause() -> None:
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        broker.create_topic("orders")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 2_000})
        producer.produce("orders", "before")
        assert producer.flush(DEADLINE_S) == 0
        broker.pause()
        producer.produce("orders", "lost")
        producer.flush(0.5)
        broker.kill()
        producer.purge()
        del producer
        broker.start()
        consumer = _consumer(broker, "readers", "orders")
        _produce(broker, "orders", "after")
        assert _read(consumer, 2) == ["before", "after"]
        consumer.close()


# --- events and state -----------------------------------------------------------------------------------------------


def test_listener_gets_events_after_restart() -> None:
    events: list[GroupEvent] = []
    with Broker(settings=NO_DELAY) as broker:
        end = broker.subscribe(events.append)
        broker.create_topic("orders")
        first = _consumer(broker, "first", "orders")
        _until(lambda: any(event.kind is EventKind.REBALANCE_COMPLETED for event in events))
        _close(first)
        broker.restart()
        second = _consumer(broker, "second", "orders")
        _until(lambda: any(event.kind is EventKind.REBALANCE_COMPLETED and event.group == "second" for event in events))
        end()
        count = len(events)
        _close(second)
        broker.wait_for_group("second", state="Empty")
    assert len(events) == count


def test_listener_may_call_broker() -> None:
    states: list[str] = []
    with Broker(settings=NO_DELAY) as broker:
        broker.subscribe(lambda event: states.append(broker.describe_group(event.group).state))
        broker.create_topic("orders")
        consumer = _consumer(broker, "readers", "orders")
        broker.wait_for_group("readers", members=1)
        _close(consumer)
    assert "Stable" in states


def test_subscribe_is_not_available_in_process() -> None:
    with pytest.raises(UsageError, match="cannot call a listener; read events"):
        Broker(process=True).subscribe(print)


@both
def test_unknown_group_is_dead(process: bool) -> None:
    with Broker(process=process) as broker:
        assert broker.describe_group("unknown").state == "Dead"
        with pytest.raises(TimeoutError, match=r"not Stable with 2 members within 0\.0 s; it is Dead with 0 members"):
            broker.wait_for_group("unknown", members=2, timeout_s=0.0)


@both
def test_topic_settings_are_validated(process: bool) -> None:
    with Broker(process=process) as broker:
        broker.create_topic("compacted", 1, cleanup_policy="compact")
        with pytest.raises(BrokerError) as raised:
            broker.create_topic("wrong", 1, cleanup_policy="burn")
        assert raised.value.error is Error.INVALID_CONFIG
        with pytest.raises(BrokerError) as raised:
            broker.create_topic("no/name")
        assert raised.value.error is Error.INVALID_TOPIC_EXCEPTION


@both
def test_metrics_url(process: bool) -> None:
    with (
        Broker(process=process, metrics=True) as broker,
        urllib.request.urlopen(broker.metrics_url, timeout=DEADLINE_S) as page,
    ):
        assert b'slackwater_groups{state="Stable"} 0.0' in page.read()
    with Broker() as broker, pytest.raises(UsageError, match="has no metrics page"):
        _ = broker.metrics_url


# --- errors ---------------------------------------------------------------------------------------------------------


@both
def test_port_in_use(process: bool) -> None:
    with Broker() as first:
        second = Broker(process=process, port=first.port)
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{first.port}: address already in use"):
            second.start()
        second.stop()


@both
def test_directory_in_use(process: bool, tmp_path: Path) -> None:
    with Broker(data=tmp_path), pytest.raises(UsageError, match="in use by another broker"):
        Broker(process=process, data=tmp_path).start()


@both
def test_unknown_setting(process: bool) -> None:
    with pytest.raises(UsageError, match=r"num\.partition is not a broker setting; did you mean num\.partitions\?"):
        Broker(process=process, settings={"num.partition": 3}).start()


def test_start_twice_fails_stop_twice_works() -> None:
    broker = Broker()
    broker.stop()
    broker.start()
    with pytest.raises(UsageError, match="already running"):
        broker.start()
    broker.stop()
    broker.stop()
    with pytest.raises(UsageError, match="not running"):
        broker.create_topic("orders")
    with pytest.raises(UsageError, match="not running"):
        broker.restart()


def test_stop_reports_dead_process() -> None:
    broker = Broker(process=True).start()
    os.kill(broker.pid, 9)
    with pytest.raises(SlackwaterError, match="exited with code -9"):
        broker.stop()


# --- in other programs ----------------------------------------------------------------------------------------------


def test_use_with_asyncio() -> None:
    async def scenario() -> int:
        with Broker() as broker:
            _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.close()
            await writer.wait_closed()
            return broker.port

    assert asyncio.run(scenario()) > 0


def _run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env=os.environ | variables,
    )


@both
def test_program_exit_stops_broker(process: bool, tmp_path: Path) -> None:
    done = _run(
        f"from slackwater import Broker; b = Broker(process={process}).start(); b.create_topic('t'); print(b.port)",
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_broker_process_ends_with_killed_program(tmp_path: Path) -> None:
    done = _run(
        "import os; from slackwater import Broker; b = Broker(process=True).start();"
        "print(b.pid, flush=True); os.kill(os.getpid(), 9)",
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == -9
    pid = int(done.stdout)
    _until(lambda: not Path(f"/proc/{pid}").exists() or "(zombie)" in Path(f"/proc/{pid}/status").read_text())


def test_forked_child_does_not_stop_broker(tmp_path: Path) -> None:
    done = _run(
        "import os; from slackwater import Broker\n"
        "with Broker() as b:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        b.stop()\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
        "    assert b.data.exists()\n"
        "    b.create_topic('t')\n",
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_package_import_is_lazy() -> None:
    done = _run("import sys, slackwater; print('slackwater.broker' in sys.modules, slackwater.__version__)")
    assert done.stdout.startswith("False 0.")
    with pytest.raises(AttributeError, match="no attribute 'Brokers'"):
        _ = slackwater.Brokers
