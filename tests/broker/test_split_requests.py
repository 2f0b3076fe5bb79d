"""Large requests are handled in parts, with the response of the whole request."""

import struct
from pathlib import Path
from typing import Any

import pytest

from slackwater.broker.split_requests import find_split, is_bounded, parts
from slackwater.group.errors import Error
from slackwater.wire.apis import PRODUCE, SYNC_GROUP, Api
from slackwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from slackwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from slackwater.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from slackwater.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from slackwater.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from slackwater.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from slackwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from slackwater.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from slackwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from slackwater.wire.schema import Request, Response
from tests.broker.hostile_requests import hostile_requests
from tests.broker.quiet_broker import QuietBroker, QuietClient

ITERATIONS = 200


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    with QuietBroker(tmp_path, orders=5) as quiet:
        yield quiet


def _request(broker: QuietBroker, client: QuietClient, request: Request, kind: type[Response], version: int) -> Any:
    response = client.send(request, kind, version)
    for _ in range(ITERATIONS):
        if (answer := response()) is not None:
            return answer
        broker.run_pending()
    raise AssertionError("no response")


def test_keys_are_answered_in_order(broker: QuietBroker) -> None:
    keys = [f"group-{number}" for number in range(10_000)]
    _request(
        broker, broker.connect(), FindCoordinatorRequest(), FindCoordinatorResponse, 2
    )  # creates the offsets topic
    request = FindCoordinatorRequest(coordinator_keys=keys)
    response = _request(broker, broker.connect(), request, FindCoordinatorResponse, 6)
    assert [row.key for row in response.coordinators] == keys
    assert {row.error_code for row in response.coordinators} == {Error.NONE}


def test_a_divided_topic_is_one_row(broker: QuietBroker) -> None:
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic("orders", [ListOffsetsPartition(0, timestamp=-1)]),
            ListOffsetsTopic("none", [ListOffsetsPartition(index, timestamp=-1) for index in range(9_000)]),
            ListOffsetsTopic("orders", [ListOffsetsPartition(1, timestamp=-1)]),
        ]
    )
    response = _request(broker, broker.connect(), request, ListOffsetsResponse, 6)
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [
        ("orders", 1),
        ("none", 9_000),
        ("orders", 1),
    ]
    assert [row.partition_index for row in response.topics[1].partitions] == list(range(9_000))


def test_groups_and_topics_are_divided_at_both_levels(broker: QuietBroker) -> None:
    topics = [OffsetFetchRequestTopics(name, partition_indexes=list(range(5_000))) for name in ("a", "b")]
    groups = [OffsetFetchRequestGroup(group, topics=topics) for group in ("g", "h")]
    response = _request(broker, broker.connect(), OffsetFetchRequest(groups=groups), OffsetFetchResponse, 9)
    rows = [(group.group_id, topic.name, len(topic.partitions)) for group in response.groups for topic in group.topics]
    assert rows == [("g", "a", 5_000), ("g", "b", 5_000), ("h", "a", 5_000), ("h", "b", 5_000)]


def test_a_commit_that_follows_waits_for_the_last_part(broker: QuietBroker) -> None:
    def commit(offset: int, count: int) -> OffsetCommitRequest:
        partitions = [OffsetCommitRequestPartition(0, offset) for _ in range(count)]
        return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", partitions=partitions)])

    client = broker.connect()
    client.send(commit(1, 20_000), OffsetCommitResponse, 9)
    client.send(commit(2, 1), OffsetCommitResponse, 9)
    assert client.pending_requests == 2
    for _ in range(ITERATIONS):
        broker.run_pending()
    assert len(client.frames()) == 2
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    response = _request(broker, client, fetch, OffsetFetchResponse, 9)
    assert response.groups[0].topics[0].partitions[0].committed_offset == 2


def test_other_clients_are_answered_between_the_parts(broker: QuietBroker) -> None:
    large, small = broker.connect(), broker.connect()
    groups = [f"group-{number}" for number in range(40_000)]
    response = large.send(DescribeGroupsRequest(groups), DescribeGroupsResponse, 5)
    assert small.request(HeartbeatRequest("g", 1, "m"), HeartbeatResponse, 4).error_code == Error.UNKNOWN_MEMBER_ID
    assert response() is None
    for _ in range(ITERATIONS):
        broker.run_pending()
    answer = response()
    assert answer is not None
    assert [group.group_id for group in answer.groups] == groups


def test_parts_of_a_closed_connection_are_dropped(broker: QuietBroker) -> None:
    client = broker.connect()
    client.send(DescribeGroupsRequest([str(number) for number in range(40_000)]), DescribeGroupsResponse, 5)
    client.close()
    for _ in range(ITERATIONS):
        broker.run_pending()
    assert client.frames() == []


def test_small_requests_are_not_divided() -> None:
    assert find_split(DescribeGroupsRequest(["g"] * 2_000), 4_000) is None
    assert find_split(HeartbeatRequest("g"), 4_000) is None
    split = find_split(DescribeGroupsRequest(["g"] * 2_001), 4_002)
    assert split is not None
    requests = [part.request for part in parts(DescribeGroupsRequest(["g"] * 2_001), split)]
    assert requests == [DescribeGroupsRequest(["g"] * 2_000), DescribeGroupsRequest(["g"])]


def test_repeated_resources_are_described_three_times(broker: QuietBroker) -> None:
    client = broker.connect()
    resources = [DescribeConfigsResource(2, "orders")] * 20
    described = client.request(DescribeConfigsRequest(resources), DescribeConfigsResponse, 4)
    assert len(described.results) == 3
    groups = client.request(DescribeGroupsRequest(["g", "h", *["g"] * 20]), DescribeGroupsResponse, 5)
    assert [group.group_id for group in groups.groups] == ["g", "h", "g", "g"]
    all_offsets = [OffsetFetchRequestGroup("g", topics=None)] * 20
    fetched = client.request(OffsetFetchRequest(groups=all_offsets), OffsetFetchResponse, 9)
    assert len(fetched.groups) == 3


def test_requests_that_cannot_be_divided_are_limited(broker: QuietBroker) -> None:
    topics = [TopicProduceData("t", partition_data=[])] * 10_001
    client = broker.connect()
    client.send(ProduceRequest(acks=1, topic_data=topics), ProduceResponse, 12)
    assert client.is_closed
    client = broker.connect()
    client.send(ProduceRequest(acks=1, topic_data=topics[:10_000]), ProduceResponse, 12)
    assert not client.is_closed


def test_topic_names_of_a_produce_request_are_limited(broker: QuietBroker) -> None:
    topics = [TopicProduceData("n" * 30_000, partition_data=[])] * 40
    client = broker.connect()
    client.send(ProduceRequest(acks=1, topic_data=topics), ProduceResponse, 12)
    assert client.is_closed


def test_requests_without_records_are_limited_in_size(broker: QuietBroker) -> None:
    def start(api: Api, size: int) -> QuietClient:
        client = broker.connect()
        for piece in (struct.pack(">i", size), struct.pack(">hhih", api.key, 3, 1, -1), bytes(1_000)):
            client.send_bytes(piece)
        return client

    assert start(SYNC_GROUP, (16 << 20) + 1).is_closed
    assert not start(SYNC_GROUP, 16 << 20).is_closed
    assert not start(PRODUCE, 100 << 20).is_closed


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("x")] * 10_001), 4),
        (AddPartitionsToTxnRequest(v3_and_below_topics=[AddPartitionsToTxnTopic("t", [0] * 10_000)]), 3),
        (AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion("x", 1)] * 5_001), 0),
    ],
)
def test_atomic_requests_are_limited(broker: QuietBroker, request_: Request, version: int) -> None:
    client = broker.connect()
    client.send(request_, Response, version)
    assert client.is_closed


def test_groups_of_the_consumer_protocol_are_answered_in_order(broker: QuietBroker) -> None:
    groups = [f"group-{number}" for number in range(5_000)]
    request = ConsumerGroupDescribeRequest(groups)
    response = _request(broker, broker.connect(), request, ConsumerGroupDescribeResponse, 1)
    assert [group.group_id for group in response.groups] == groups


def test_transactional_commit_has_a_row_per_partition(broker: QuietBroker) -> None:
    partitions = [TxnOffsetCommitRequestPartition(index) for index in range(5_000)]
    request = TxnOffsetCommitRequest("x", "g", topics=[TxnOffsetCommitRequestTopic("orders", partitions)])
    response = _request(broker, broker.connect(), request, TxnOffsetCommitResponse, 3)
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("orders", 5_000)]


def test_every_request_with_an_array_is_bounded() -> None:
    assert [request.api.name for request in hostile_requests(10) if not is_bounded(request.api)] == []
