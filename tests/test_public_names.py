"""The names of the package: what users import, and how objects look in a log."""

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

import slackwater
from slackwater import (
    Admin,
    Broker,
    Consumer,
    ConsumerRecord,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    SlackwaterError,
    TopicPartition,
)
from slackwater.wire.records.batch import TimestampType

# Subclasses of public exceptions; users catch the base class.
INTERNAL = {"MalformedMetadata", "OffsetResetRejected", "OverlongArray", "UnawaitedHandlerError"}


def modules() -> Iterator[ModuleType]:
    for package in ("slackwater.group", "slackwater.client"):
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            yield importlib.import_module(module.name)


def test_all_names_exist() -> None:
    for name in slackwater.__all__:
        assert getattr(slackwater, name) is not None
        assert name in dir(slackwater)
    with pytest.raises(AttributeError, match="no attribute 'Consumr'"):
        _ = slackwater.Consumr


def test_all_exceptions_are_public() -> None:
    classes = {
        value
        for module in modules()
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, SlackwaterError)
    }
    assert {cls.__name__ for cls in classes} - INTERNAL - set(slackwater.__all__) == set()


def test_importing_the_package_loads_no_part_of_it() -> None:
    code = "import sys, slackwater; print(*(name for name in sys.modules if name.startswith('slackwater.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["slackwater.version"]


def test_importing_a_value_loads_neither_numpy_nor_a_client() -> None:
    code = "import sys; from slackwater import TopicPartition, OffsetAndMetadata, UsageError; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "uvloop", "slackwater.client", "slackwater.broker"} & set(done.stdout.split())


def test_values_are_readable() -> None:
    record = ConsumerRecord("orders", 0, 4, 1_700, TimestampType.CREATE_TIME, b"ann", b"x" * 1_000_000, [("h", b"1")])
    assert repr(TopicPartition("orders", 0)) == "TopicPartition(topic='orders', partition=0)"
    assert repr(OffsetAndMetadata(4)) == "OffsetAndMetadata(offset=4, leader_epoch=-1, metadata='')"
    value = f"b'{'x' * 60}'... (1000000 bytes)"
    assert repr(record) == (
        f"ConsumerRecord(orders-0, offset=4, timestamp=1700, key=b'ann', value={value}, headers=[('h', b'1')])"
    )
    assert len(repr(record._replace(value={"list": list(range(1_000))}))) < 300


def test_clients_are_readable() -> None:
    servers = {"bootstrap.servers": "127.0.0.1:1", "client.id": "c1"}
    with Consumer(servers, group_id="billing") as consumer, Producer(servers) as producer, Admin(servers) as admin:
        assert repr(consumer) == "<Consumer 'c1' in group 'billing' of 127.0.0.1:1, 0 partitions assigned>"
        assert repr(producer) == "<Producer 'c1' of 127.0.0.1:1>"
        assert repr(admin) == "<Admin 'c1' of 127.0.0.1:1>"
    assert repr(consumer) == "<Consumer 'c1' in group 'billing' of 127.0.0.1:1, closed>"
    broker = Broker()
    assert repr(broker) == "<Broker, not running>"
    with broker:
        assert repr(broker) == f"<Broker at {broker.bootstrap_servers}>"


def test_listeners_may_have_some_methods() -> None:
    """mypy accepts each of these listeners."""

    class OnlyAssigned:
        def on_partitions_assigned(self, added: list[TopicPartition]) -> None:
            raise NotImplementedError

    class OnlyRevoked:
        def on_partitions_revoked(self, removed: list[TopicPartition]) -> int:
            raise NotImplementedError

    class Inherited(RebalanceListener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            raise NotImplementedError

    with Consumer({"bootstrap.servers": "127.0.0.1:1"}, group_id="billing") as consumer:
        consumer.subscribe(["t"], listener=OnlyAssigned())
        consumer.subscribe(["t"], listener=OnlyRevoked())
        consumer.subscribe(["t"], listener=Inherited())
        consumer.close(timeout=0.1)
