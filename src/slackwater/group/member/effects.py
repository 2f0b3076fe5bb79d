"""The effects that a group member returns.

Invariants:
- The shell executes effects in the order given.
- Every `Send` is followed by one call of `on_response` or `on_request_failed` with its request id. The member ignores
  calls with an unknown id.
- After a `NotifyListener` the rebalance continues only after `on_listener_done`. Requests, heartbeats and commits
  continue meanwhile.
- `RefreshMetadata` is followed by `on_metadata`. The shell need not report a failed metadata request: the member
  requests it again.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from slackwater.group.errors import SlackwaterError
from slackwater.group.events import PublishEvent
from slackwater.group.messages import (
    MAX_INT,
    FindCoordinator,
    FindCoordinatorResponse,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    SyncGroup,
    SyncGroupResponse,
)
from slackwater.group.offset_and_metadata import OffsetAndMetadata
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.value_class import value_class

MemberRequest = FindCoordinator | JoinGroup | SyncGroup | Heartbeat | LeaveGroup | OffsetCommit | OffsetFetch
MemberResponse = (
    FindCoordinatorResponse
    | JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
)


class CoordinatorNode(NamedTuple):
    """The broker that coordinates the group."""

    node_id: int
    host: str
    port: int

    @property
    def connection_id(self) -> int:
        """The id of the coordinator connection, separate from the fetch connection to the same broker (CL-40)."""
        return MAX_INT - self.node_id

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.connection_id} rack: null)"


class Callback(Enum):
    """The rebalance listener's callbacks."""

    REVOKED = "onPartitionsRevoked"
    ASSIGNED = "onPartitionsAssigned"
    LOST = "onPartitionsLost"


@value_class
class Send:
    """Send a request: to the coordinator (`GroupMember.coordinator`), or to any broker."""

    request_id: int
    request: MemberRequest
    timeout_ms: int
    to_coordinator: bool = True


@value_class
class Disconnect:
    """Close the connection to this node: it is not, or no longer, the coordinator."""

    node: CoordinatorNode


@value_class
class NotifyListener:
    """Call the rebalance listener, then call `on_listener_done`."""

    callback: Callback
    partitions: tuple[TopicPartition, ...]


@value_class
class RefreshMetadata:
    """Fetch metadata of these topics (None: all topics) and pass it to `on_metadata`."""

    topics: tuple[str, ...] | None = None


@value_class
class Raise:
    """Raise this error from the application's poll(). A background member stops here."""

    error: SlackwaterError


@value_class
class CommitDone:
    """A commit completed; None means that every offset is stored."""

    commit_id: int
    error: SlackwaterError | None = None


@value_class
class OffsetsFetched:
    """The group's committed offsets, None for a partition without one; or the error."""

    fetch_id: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    error: SlackwaterError | None = None


MemberEffect = Send | Disconnect | NotifyListener | RefreshMetadata | PublishEvent | Raise | CommitDone | OffsetsFetched
