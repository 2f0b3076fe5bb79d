"""The interface between `EmbeddedBroker` and the thread or process that runs the broker."""

from collections.abc import Mapping
from typing import Protocol

from slackwater.group.events import GroupEvent
from slackwater.group.messages import DescribedGroup
from slackwater.group.topic_partition import TopicPartition

MAX_READ_BYTES = 1 << 20


class BrokerBackend(Protocol):
    """A running broker, in a thread or in a process."""

    port: int
    metrics_port: int | None

    @property
    def pid(self) -> int:
        """The id of the process that runs the broker."""
        ...

    def stop(self, *, clean: bool) -> None:
        """Stop the broker; `clean=False` kills it."""
        ...

    def pause(self) -> None:
        """Stop responding until `resume`."""
        ...

    def resume(self) -> None:
        """Continue after `pause`."""
        ...

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic, or raise `BrokerError`."""
        ...

    def set_scram_password(self, user: str, password: str, mechanism: str) -> None:
        """Create or replace a SCRAM credential, or raise `BrokerError`."""
        ...

    def describe_group(self, group_id: str) -> DescribedGroup:
        """Return the coordinator's description of a group."""
        ...

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group."""
        ...

    def events(self) -> list[GroupEvent]:
        """Read all events of `__group_events`."""
        ...
