"""A broker for tests, with fault injection and virtual time; pytest loads the `kafka` fixture automatically."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slackwater.testing.kafka import Kafka

__all__ = ["Kafka"]


def __getattr__(name: str) -> object:
    """Import `Kafka` on first use, because pytest imports this package at every start."""
    if name == "Kafka":
        from slackwater.testing.kafka import Kafka

        return Kafka
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
