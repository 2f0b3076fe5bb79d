"""Where an embedded broker runs, and what it can be asked there."""

from collections.abc import Mapping
from typing import Protocol

from slackwater.group.events import GroupEvent
from slackwater.group.messages import DescribedGroup
from slackwater.group.topic_partition import TopicPartition

MAX_READ_BYTES = 1 << 20


class BrokerBackend(Protocol):
    """A broker that runs, in a thread or in a process."""

    port: int
    metrics_port: int | None

    def stop(self, *, clean: bool) -> None:
        """End it; `clean=False` is what a kill leaves behind."""
        ...

    def pause(self) -> None:
        """Answer nobody until `resume`."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Make a topic, or raise `BrokerError`."""
        ...

    def describe_group(self, group_id: str) -> DescribedGroup:
        """A group as the coordinator describes it."""
        ...

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets a group has committed."""
        ...

    def events(self) -> list[GroupEvent]:
        """Everything that stands in `__group_events`."""
        ...
