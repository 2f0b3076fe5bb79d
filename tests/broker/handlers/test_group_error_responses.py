"""Every group API has an error response in every version, and it can be encoded."""

import pytest

from slackwater.broker.handlers import load
from slackwater.group.errors import Error
from slackwater.wire import apis
from slackwater.wire.apis import Api
from slackwater.wire.codec import response_type
from slackwater.wire.messages.delete_groups import DeleteGroupsRequest
from slackwater.wire.messages.describe_groups import DescribeGroupsRequest
from slackwater.wire.messages.find_coordinator import FindCoordinatorRequest
from slackwater.wire.messages.heartbeat import HeartbeatRequest
from slackwater.wire.messages.join_group import JoinGroupRequest
from slackwater.wire.messages.leave_group import LeaveGroupRequest
from slackwater.wire.messages.list_groups import ListGroupsRequest
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from slackwater.wire.messages.offset_delete import OffsetDeleteRequest
from slackwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from slackwater.wire.messages.sync_group import SyncGroupRequest
from slackwater.wire.request_response import decode_response, encode_response
from slackwater.wire.schema import Request

REQUESTS: dict[Api, Request] = {
    apis.JOIN_GROUP: JoinGroupRequest("g"),
    apis.SYNC_GROUP: SyncGroupRequest("g"),
    apis.HEARTBEAT: HeartbeatRequest("g"),
    apis.LEAVE_GROUP: LeaveGroupRequest("g"),
    apis.DESCRIBE_GROUPS: DescribeGroupsRequest(["g"]),
    apis.LIST_GROUPS: ListGroupsRequest(),
    apis.DELETE_GROUPS: DeleteGroupsRequest(["g"]),
    apis.OFFSET_DELETE: OffsetDeleteRequest("g"),
    apis.FIND_COORDINATOR: FindCoordinatorRequest("g", coordinator_keys=["g"]),
    apis.OFFSET_COMMIT: OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic("t", bytes(16), [OffsetCommitRequestPartition(1)])]
    ),
    apis.OFFSET_FETCH: OffsetFetchRequest(
        "g",
        [OffsetFetchRequestTopic("t", [1])],
        [OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[1])])],
    ),
}


@pytest.mark.parametrize(
    ("api", "version"),
    [(api, version) for api in REQUESTS for version in range(api.min_version, api.latest_stable + 1)],
    ids=lambda value: value.name if isinstance(value, Api) else f"v{value}",
)
def test_error_response_round_trip(api: Api, version: int) -> None:
    response = load(api).error_response(REQUESTS[api], version, Error.UNKNOWN_SERVER_ERROR)
    _, decoded = decode_response(response_type(api), version, encode_response(response, version, 1)[4:])
    assert f"error_code={int(Error.UNKNOWN_SERVER_ERROR)}" in str(decoded)
