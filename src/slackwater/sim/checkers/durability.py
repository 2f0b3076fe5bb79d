"""What was answered is in the log: an assignment, an offset, a static member's new id."""

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
from slackwater.sim.checkers.checker import Checker, View


class AnswersAreDurable(Checker):
    """An answer never leaves before the record it depends on is written."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.generation_id = -1
        self.assignments: dict[str, bytes] = {}
        self.offsets: dict[TopicPartition, int] = {}

    def written(self, append: AppendRecords, error: Error) -> None:
        if error is not Error.NONE:
            return
        for record in append.records:
            match record:
                case GroupMetadata(value=stored) if stored is not None:
                    self.generation_id = stored.generation_id
                    self.assignments = {member.member_id: member.assignment for member in stored.members}
                case CommittedOffset(value=offset):
                    partition = TopicPartition(record.topic, record.partition)
                    self.offsets[partition] = -1 if offset is None else offset.offset

    def answered(self, caller: object, request: Request, response: Response) -> None:
        match request, response:
            case SyncGroup(), SyncGroupResponse(error=Error.NONE):
                if self.generation_id != request.generation_id:
                    self.fail(f"generation {request.generation_id} was handed out, {self.generation_id} is in the log")
                if self.assignments.get(request.member_id) != response.assignment:
                    self.fail(f"{request.member_id} was given an assignment that is not in the log")
            case OffsetCommit(), OffsetCommitResponse():
                for asked, got in zip(request.offsets, response.partitions, strict=True):
                    stored = self.offsets.get(TopicPartition(asked.topic, asked.partition), -1)
                    if got.error is Error.NONE and stored < asked.offset:
                        self.fail(f"{asked} was acknowledged, the log has {stored}")
            case _:
                pass
