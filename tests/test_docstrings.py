"""Every public method of the clients and of the broker has an example in its docstring, and the examples run."""

import doctest
import inspect
import os
from contextlib import ExitStack, suppress
from typing import Final

import pytest

import slackwater
from slackwater import Admin, Broker, Consumer, Producer, RebalanceListener
from slackwater.group.errors import SlackwaterError
from tests.client.helpers import QUICK, fill, poll_until

CLASSES: Final = {"Admin": Admin, "Broker": Broker, "Consumer": Consumer, "Producer": Producer}
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0}
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


@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring_example_runs(name: str) -> None:
    """An example uses a broker with the topic orders (two records), clients, and a consumer that has orders-0."""
    names: dict[str, object] = {public: getattr(slackwater, public) for public in slackwater.__all__}
    names |= {"group": GROUP, "os": os}
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(settings=SETTINGS))
        broker.create_topic("orders")
        fill(broker, "orders", [b"order 0"], key=b"ann")
        fill(broker, "orders", [b"order 1"], key=b"bob")
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        names |= {"broker": broker, "config": QUICK | servers | {"group.id": "docs", "enable.auto.commit": False}}
        code = EXAMPLES[name]
        if "admin" in code:
            names["admin"] = stack.enter_context(Admin(servers))
        if "producer" in code:
            names["producer"] = stack.enter_context(Producer(servers))
        if "consumer" in code or "group" in code:
            names["consumer"] = consumer = Consumer(QUICK | servers | {"group.id": GROUP})
            stack.callback(_close, consumer)
            consumer.subscribe(["orders"])
            poll_until(consumer, lambda: consumer.assignment)
            consumer.seek(("orders", 0), 0)  # type: ignore[arg-type]
        example = doctest.DocTestParser().get_doctest(code, names, name, None, None)
        output: list[str] = []
        failed, _ = doctest.DocTestRunner().run(example, out=output.append)
        assert not failed, "".join(output)


def _close(consumer: Consumer) -> None:
    with suppress(SlackwaterError):  # the example may have stopped the broker or removed the member
        consumer.close(timeout=1.0)
