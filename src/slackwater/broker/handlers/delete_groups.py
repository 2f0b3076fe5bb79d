"""DeleteGroups, v0 to v2.

v2  flexible
"""

from slackwater.broker.broker import Node
from slackwater.broker.connection import Call
from slackwater.group.errors import Error
from slackwater.group.messages import DeleteGroups
from slackwater.group.messages import DeleteGroupsResponse as Deleted
from slackwater.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(node: Node, call: Call, request: DeleteGroupsRequest) -> None:
    """Forget groups and their offsets (AD-04)."""

    def heard(answer: Deleted) -> None:
        results = [DeletableGroupResult(group.group_id or "", group.error) for group in answer.groups]
        call.answer(DeleteGroupsResponse(results=results))

    node.groups.ask(DeleteGroups(tuple(request.groups_names)), heard)


def refuse(request: DeleteGroupsRequest, version: int, error: Error) -> DeleteGroupsResponse:
    """An error on every group."""
    return DeleteGroupsResponse(results=[DeletableGroupResult(name, error) for name in request.groups_names])
