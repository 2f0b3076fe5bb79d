"""What a member wants done, in order.

Rules kept here
- The shell carries effects out in the order given.
- Every `Send` is followed, sooner or later, by one call of `answered` or `failed` with its request id; what comes
  for an id the member no longer knows is ignored.
- After a `NotifyListener` the rebalance continues only after `on_listener_done`. Requests, heartbeats and commits
  continue meanwhile.
- `RefreshMetadata` is answered by `metadata`; a metadata request that failed needs no answer, it is asked for again.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from slackwater.group.errors import SlackwaterError
from slackwater.group.events import GroupEvent
from slackwater.group.message import message
from slackwater.group.messages import (
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

MAX_INT = 2**31 - 1

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


class BrokerNode(NamedTuple):
    """The broker that coordinates the group."""

    node_id: int
    host: str
    port: int

    @property
    def connection_id(self) -> int:
        """The id of the connection to it: its own, so that heartbeats never queue behind a fetch (CL-40)."""
        return MAX_INT - self.node_id

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.connection_id} rack: null)"


class Callback(Enum):
    """What the rebalance listener is told."""

    REVOKED = "onPartitionsRevoked"
    ASSIGNED = "onPartitionsAssigned"
    LOST = "onPartitionsLost"


@message
class Send:
    """Send a request: to the coordinator (`GroupMember.coordinator`), or to any broker."""

    request_id: int
    request: MemberRequest
    timeout_ms: int
    to_coordinator: bool = True


@message
class Disconnect:
    """Close the connection to this node: it is not, or no longer, the coordinator."""

    node: BrokerNode


@message
class NotifyListener:
    """Tell the rebalance listener; then call `listener_done`."""

    callback: Callback
    partitions: tuple[TopicPartition, ...]


@message
class RefreshMetadata:
    """Fetch metadata of these topics (None: of all) and pass it to `metadata`."""

    topics: tuple[str, ...] | None = None


@message
class EmitEvent:
    """Tell a group event."""

    event: GroupEvent


@message
class Raise:
    """Raise this from the application's poll(); a member driven in the background stands still from here on."""

    error: SlackwaterError


@message
class CommitDone:
    """A commit ended; None means that every offset is stored."""

    commit_id: int
    error: SlackwaterError | None = None


@message
class OffsetsFetched:
    """The group's committed offsets, None where a partition has none; or why they could not be had."""

    fetch_id: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    error: SlackwaterError | None = None


MemberEffect = Send | Disconnect | NotifyListener | RefreshMetadata | EmitEvent | Raise | CommitDone | OffsetsFetched
