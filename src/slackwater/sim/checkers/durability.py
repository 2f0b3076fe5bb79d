"""Assignments and offsets in responses are in the log."""

from slackwater.group.coordinator import AppendRecords, CommittedOffset, GroupMetadata
from slackwater.group.errors import Error
from slackwater.group.messages import (
    OffsetCommit,
    OffsetCommitResponse,
    Request,
    Response,
    SyncGroup,
    SyncGroupResponse,
)
from slackwater.group.topic_partition import TopicPartition
from slackwater.sim.checkers.checker import Checker, SimulationView


class ResponsesAreDurable(Checker):
    """A response is sent only after the record it depends on is written."""

    def __init__(self, view: SimulationView) -> None:
        super().__init__(view)
        self.generation_id = -1
        self.assignments: dict[str, bytes] = {}
        self.offsets: dict[TopicPartition, int] = {}

    def on_written(self, append: AppendRecords, error: Error) -> None:
        if error is not Error.NONE:
            return
        for record in append.records:
            match record:
                case GroupMetadata(value=stored) if stored is not None:
                    self.generation_id = stored.generation_id
                    self.assignments = {member.member_id: member.assignment for member in stored.members}
                case CommittedOffset(value=value):
                    partition = TopicPartition(record.topic, record.partition)
                    self.offsets[partition] = -1 if value is None else value.offset

    def on_response(self, reply_to: object, request: Request, response: Response) -> None:
        match request, response:
            case SyncGroup(), SyncGroupResponse(error=Error.NONE):
                if self.generation_id != request.generation_id:
                    self.fail(
                        f"the response is for generation {request.generation_id}, the log has {self.generation_id}"
                    )
                if self.assignments.get(request.member_id) != response.assignment:
                    self.fail(f"{request.member_id} received an assignment that is not in the log")
            case OffsetCommit(), OffsetCommitResponse():
                for offset, result in zip(request.offsets, response.partitions, strict=True):
                    stored = self.offsets.get(TopicPartition(offset.topic, offset.partition), -1)
                    if result.error is Error.NONE and stored < offset.offset:
                        self.fail(f"{offset} was acknowledged, the log has {stored}")
            case _:
                pass
