"""Every public method of the clients and of the broker has an example in its docstring, and the examples run."""

import doctest
import inspect
import os
from contextlib import ExitStack, suppress
from typing import Final

import pytest

import slackwater
from slackwater import Admin, Broker, Consumer, Producer, RebalanceListener, TopicPartition
from slackwater.group.errors import SlackwaterError
from tests.client.helpers import QUICK, poll_until

CLASSES: Final = {"Admin": Admin, "Broker": Broker, "Consumer": Consumer, "Producer": Producer}
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0}
TOPIC: Final = "orders"
GROUP: Final = "billing"


def _public_methods(cls: type) -> dict[str, str]:
    """The docstrings of public methods and properties, by name."""
    return {
        name: inspect.getdoc(value) or ""
        for name, value in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
    }


METHODS: Final = {
    f"{label}.{name}": doc for label, cls in CLASSES.items() for name, doc in _public_methods(cls).items()
}
EXAMPLES: Final = METHODS | {"RebalanceListener": inspect.getdoc(RebalanceListener) or ""}


def test_every_public_method_has_an_example() -> None:
    assert [name for name, doc in METHODS.items() if ">>>" not in doc] == []


# tests/client/producer/test_transactions.py runs these on every cluster.
NEEDS_TRANSACTIONS: Final = tuple(name for name in METHODS if name.startswith("Producer.") and "transaction" in name)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in NEEDS_TRANSACTIONS])
def test_docstring_example_runs(name: str) -> None:
    with Broker(settings=SETTINGS) as broker:
        broker.create_topic(TOPIC)
        run_example(name, broker.bootstrap_servers, broker=broker)


def run_example(
    name: str, bootstrap_servers: str, *, topic: str = TOPIC, group: str = GROUP, broker: Broker | None = None
) -> None:
    """Run an example with a topic of two records, called orders, with clients, and a consumer that has orders-0."""
    names: dict[str, object] = {public: getattr(slackwater, public) for public in slackwater.__all__}
    servers: dict[str, object] = {"bootstrap.servers": bootstrap_servers}
    names |= {"group": group, "os": os, "broker": broker}
    names |= {"config": QUICK | servers | {"group.id": "docs", "enable.auto.commit": False}}
    code = EXAMPLES[name].replace(f'"{TOPIC}"', f'"{topic}"')
    with ExitStack() as stack:
        with Producer(servers) as writer:
            writer.send(topic, b"order 0", b"ann", partition=0)
            writer.send(topic, b"order 1", b"bob", partition=0)
        if "admin" in code:
            names["admin"] = stack.enter_context(Admin(servers))
        if "producer" in code:
            transactional = {"transactional.id": group} if name in NEEDS_TRANSACTIONS else {}
            names["producer"] = producer = stack.enter_context(Producer(servers | transactional))
            if transactional:
                producer.init_transactions()
        if "consumer" in code or "group" in code:
            names["consumer"] = consumer = Consumer(QUICK | servers | {"group.id": group})
            stack.callback(_close, consumer)
            consumer.subscribe([topic])
            poll_until(consumer, lambda: consumer.assignment)
            consumer.seek(TopicPartition(topic, 0), 0)
        example = doctest.DocTestParser().get_doctest(code, names, name, None, None)
        output: list[str] = []
        failed, _ = doctest.DocTestRunner().run(example, out=output.append)
        assert not failed, "".join(output)


def _close(consumer: Consumer) -> None:
    with suppress(SlackwaterError):  # the example may have stopped the broker or removed the member
        consumer.close(timeout=1.0)
