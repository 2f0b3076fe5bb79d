"""The effects a coordinator returns, to be executed in order.

Invariants:
- The shell executes effects in the given order, so a response never leaves before the record it depends on is written.
- Every `AppendRecords` is followed, in the order of the appends, by one `Coordinator.on_append_result`.
"""

from slackwater.group.coordinator.records import CoordinatorRecord
from slackwater.group.events import PublishEvent
from slackwater.group.messages import Response
from slackwater.group.value_class import value_class


@value_class
class ProducerTransaction:
    """The open transaction that records belong to; `verification` is that of the request."""

    producer_id: int
    producer_epoch: int
    verification: object = None


@value_class
class AppendRecords:
    """Append these records, all or none, to a partition of the offsets topic."""

    write_id: int
    offsets_partition: int
    records: tuple[CoordinatorRecord, ...]
    transaction: ProducerTransaction | None = None


@value_class
class SendResponse:
    """Send a response; `reply_to` is the opaque handle that the shell passed with the request."""

    reply_to: object
    response: Response


Effect = AppendRecords | SendResponse | PublishEvent
