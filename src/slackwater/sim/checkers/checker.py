"""The base class of the checkers, and their view of a simulated run."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from slackwater.group.coordinator import AppendRecords, CoordinatorRecord
from slackwater.group.errors import Error
from slackwater.group.events import GroupEvent, GroupState
from slackwater.group.messages import Request, Response
from slackwater.group.topic_partition import TopicPartition


class Violation(Exception):
    """A check failed."""

    def __init__(self, checker: str, at_ms: int, error: str) -> None:
        super().__init__(f"{checker} at {at_ms} ms: {error}")
        self.checker = checker
        self.at_ms = at_ms
        self.error = error


class SimulationView(Protocol):
    """The state of a run that checkers can read; mappings of processes contain the live ones, by name."""

    @property
    def now_ms(self) -> int: ...
    @property
    def initial_delay_ms(self) -> int: ...
    @property
    def group_state(self) -> GroupState | None: ...
    @property
    def generation_id(self) -> int: ...
    @property
    def leader_id(self) -> str | None: ...
    @property
    def members(self) -> Collection[str]: ...
    @property
    def committed(self) -> Mapping[TopicPartition, int]: ...
    @property
    def ends(self) -> Mapping[TopicPartition, int]: ...
    @property
    def log(self) -> Sequence[CoordinatorRecord]: ...
    @property
    def owned(self) -> Mapping[str, frozenset[TopicPartition]]: ...
    @property
    def member_ids(self) -> Mapping[str, str]: ...
    @property
    def generations(self) -> Mapping[str, int]: ...
    @property
    def settled(self) -> Mapping[str, bool]: ...


class Checker:
    """Checks one rule; every hook can call `fail`."""

    def __init__(self, view: SimulationView) -> None:
        self.view = view

    def fail(self, error: str) -> None:
        """Raise `Violation`."""
        raise Violation(type(self).__name__, self.view.now_ms, error)

    def on_request(self, reply_to: object, request: Request) -> None:
        """Called before a request is handled."""

    def on_response(self, reply_to: object, request: Request, response: Response) -> None:
        """Called when the coordinator responds."""

    def on_disconnect(self, reply_to: object) -> None:
        """Called when the connection of a waiting request is lost with the broker."""

    def on_append(self, append: AppendRecords) -> None:
        """Called when the coordinator appends records."""

    def on_written(self, append: AppendRecords, error: Error) -> None:
        """Called when records are written, or the write failed."""

    def on_event(self, event: GroupEvent) -> None:
        """Called after a group event."""

    def on_restart(self) -> None:
        """Called when the coordinator starts to reload its log."""

    def on_reload(self) -> None:
        """Called after the log was reloaded."""

    def on_assigned(self, process: str, partitions: frozenset[TopicPartition], *, cooperative: bool) -> None:
        """Called before partitions are added to the owned ones of a process."""

    def on_start_offset(self, process: str, partition: TopicPartition, offset: int) -> None:
        """Called when a process starts to read a partition at the committed offset."""

    def on_processed(self, process: str, partition: TopicPartition, offset: int) -> None:
        """Called when a process has processed a record."""

    def on_revoked(self, process: str, partitions: frozenset[TopicPartition]) -> None:
        """Called when a process has revoked or lost partitions."""

    def on_settled(self) -> None:
        """Called when the group must have settled after the last fault."""

    def on_finish(self) -> None:
        """Called at the end of the run."""
