"""Slackwater: Kafka's consumer-group system, end to end, in Python."""

from importlib import import_module
from typing import TYPE_CHECKING

from slackwater.version import __version__

if TYPE_CHECKING:
    from slackwater.broker.embedded import EmbeddedBroker as Broker
    from slackwater.client.admin import Admin
    from slackwater.client.consumer.consumer import Consumer
    from slackwater.client.producer import Producer

__all__ = ["Admin", "Broker", "Consumer", "Producer", "__version__"]

# Each name is imported on first use, so that a program that needs one part does not load the others.
_LOCATIONS = {
    "Admin": ("slackwater.client.admin", "Admin"),
    "Broker": ("slackwater.broker.embedded", "EmbeddedBroker"),
    "Consumer": ("slackwater.client.consumer.consumer", "Consumer"),
    "Producer": ("slackwater.client.producer", "Producer"),
}


def __getattr__(name: str) -> object:
    if name in _LOCATIONS:
        module, attribute = _LOCATIONS[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
