"""What a coordinator wants done, in order.

Rules kept here
- The shell carries effects out in the order given, so no answer leaves before the record it depends on is written.
- Every `AppendRecords` is followed, sooner or later and in the order of the appends, by one call of
  `Coordinator.written(write_id, error)`.
"""

from slackwater.group.coordinator.records import CoordinatorRecord
from slackwater.group.events import GroupEvent
from slackwater.group.message import message
from slackwater.group.messages import Response


@message
class AppendRecords:
    """Write these records, all or none, to the shard's log."""

    write_id: int
    shard: int
    records: tuple[CoordinatorRecord, ...]


@message
class SendResponse:
    """Answer a request; `caller` is the opaque handle the shell passed with it."""

    caller: object
    response: Response


@message
class EmitEvent:
    """Tell a group event."""

    event: GroupEvent


Effect = AppendRecords | SendResponse | EmitEvent
