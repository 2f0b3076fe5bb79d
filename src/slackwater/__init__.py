"""Slackwater: Kafka's consumer-group system, end to end, in Python."""

from importlib import import_module
from typing import TYPE_CHECKING

from slackwater.version import __version__

if TYPE_CHECKING:
    from slackwater.broker.embedded import Broker
    from slackwater.client.admin import Admin
    from slackwater.client.consumer.consumer import Consumer
    from slackwater.client.producer import Producer

__all__ = ["Admin", "Broker", "Consumer", "Producer", "__version__"]

# What each name stands for is imported when it is first asked for: a program that wants one part loads no other.
_HOMES = {
    "Admin": "slackwater.client.admin",
    "Broker": "slackwater.broker.embedded",
    "Consumer": "slackwater.client.consumer.consumer",
    "Producer": "slackwater.client.producer",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
