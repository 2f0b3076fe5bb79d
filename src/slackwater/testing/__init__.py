"""A broker for tests, with the faults a tester wants; pytest finds the `kafka` fixture by itself."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slackwater.testing.kafka import Kafka

__all__ = ["Kafka"]


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: pytest imports this package at every start."""
    if name == "Kafka":
        from slackwater.testing.kafka import Kafka

        return Kafka
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
