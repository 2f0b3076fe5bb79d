"""The watcher's side of a simulated run."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from slackwater.group.coordinator import AppendRecords, CoordinatorRecord
from slackwater.group.errors import Error
from slackwater.group.events import GroupEvent, GroupState
from slackwater.group.messages import Request, Response
from slackwater.group.topic_partition import TopicPartition


class Violation(Exception):
    """A promise was broken."""

    def __init__(self, checker: str, at_ms: int, what: str) -> None:
        super().__init__(f"{checker} at {at_ms} ms: {what}")
        self.checker = checker
        self.at_ms = at_ms
        self.what = what


class View(Protocol):
    """What checkers may know of the run beyond what they are told; processes are the live ones, by name."""

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
    """Watches one promise; every hook may raise through `fail`."""

    def __init__(self, view: View) -> None:
        self.view = view

    def fail(self, what: str) -> None:
        """The promise is broken."""
        raise Violation(type(self).__name__, self.view.now_ms, what)

    def arrived(self, caller: object, request: Request) -> None:
        """A request is about to be handled; the view shows the group as it is before."""

    def answered(self, caller: object, request: Request, response: Response) -> None:
        """The coordinator answers a request."""

    def abandoned(self, caller: object) -> None:
        """The connection of a waiting caller is gone with its broker: no answer is owed any more."""

    def appended(self, append: AppendRecords) -> None:
        """The coordinator wants records written."""

    def written(self, append: AppendRecords, error: Error) -> None:
        """Records are in the log, or were refused."""

    def told(self, event: GroupEvent) -> None:
        """The coordinator tells an event; the view shows the group as it is after."""

    def restarted(self) -> None:
        """The coordinator lost its memory and is reading its log."""

    def reloaded(self) -> None:
        """The log is read; the view shows the group as it came back."""

    def assigned(self, process: str, partitions: frozenset[TopicPartition], *, cooperative: bool) -> None:
        """A process is given partitions; the view shows what everybody owned before."""

    def started(self, process: str, partition: TopicPartition, offset: int) -> None:
        """A process starts to read a partition from an offset that the group had committed."""

    def processed(self, process: str, partition: TopicPartition, offset: int) -> None:
        """A process has processed a record."""

    def revoked(self, process: str, partitions: frozenset[TopicPartition]) -> None:
        """A process gave partitions up."""

    def quiet(self) -> None:
        """Faults have stopped, and everybody had time to settle."""

    def finish(self) -> None:
        """The run is over; nothing has happened since `quiet`."""
