"""Every admin API has a response and an error response in every advertised version."""

from pathlib import Path

import pytest

from slackwater.broker.handlers import load
from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.codec import decode, encode, response_type
from slackwater.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from slackwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from slackwater.wire.messages.create_acls import AclCreation, CreateAclsRequest
from slackwater.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from slackwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from slackwater.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from slackwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from slackwater.wire.messages.describe_acls import DescribeAclsRequest
from slackwater.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from slackwater.wire.messages.describe_cluster import DescribeClusterRequest
from slackwater.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from slackwater.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from slackwater.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from slackwater.wire.messages.describe_transactions import DescribeTransactionsRequest
from slackwater.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from slackwater.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from slackwater.wire.messages.incremental_alter_configs import AlterableConfig as Change
from slackwater.wire.messages.incremental_alter_configs import AlterConfigsResource as ChangedResource
from slackwater.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from slackwater.wire.messages.list_config_resources import ListConfigResourcesRequest
from slackwater.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from slackwater.wire.messages.list_transactions import ListTransactionsRequest
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from slackwater.wire.schema import Request

from ..server_client import Client, with_server

TOPIC = 2

REQUESTS: list[Request] = [
    MetadataRequest(topics=[MetadataRequestTopic(name="t")]),
    CreateTopicsRequest(topics=[CreatableTopic("new", 1, 1)]),
    DeleteTopicsRequest(topics=[DeleteTopicState("t")], topic_names=["t"]),
    DescribeAclsRequest(1, None, 1, None, None, 1, 1),
    CreateAclsRequest([AclCreation(2, "t", 3, "User:a", "*", 3, 3)]),
    DeleteAclsRequest([DeleteAclsFilter(1, None, 1, None, None, 1, 1)]),
    DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "t", None)], include_synonyms=True),
    AlterConfigsRequest([AlterConfigsResource(TOPIC, "t", [AlterableConfig("retention.ms", "5")])]),
    DescribeLogDirsRequest([DescribableLogDirTopic("t", [0])]),
    CreatePartitionsRequest([CreatePartitionsTopic("t", 5, None)]),
    ElectLeadersRequest(topic_partitions=[TopicPartitions("t", [0])]),
    IncrementalAlterConfigsRequest([ChangedResource(TOPIC, "t", [Change("retention.ms", 0, "5")])]),
    AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("t", [ReassignablePartition(0, [1])])]),
    ListPartitionReassignmentsRequest(),
    DescribeClientQuotasRequest([ComponentData("user", 2, None)]),
    DescribeUserScramCredentialsRequest([UserName("u")]),
    DescribeClusterRequest(),
    DescribeTransactionsRequest(["x"]),
    ListTransactionsRequest(),
    ListConfigResourcesRequest(),
    DescribeTopicPartitionsRequest([TopicRequest("t")]),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.API.name)
def test_every_version_has_a_response(tmp_path: Path, request_: Request) -> None:
    api = request_.API

    async def scenario(server: Server) -> None:
        for version in range(api.min_version, api.latest_stable + 1):
            for topic in list(server.broker.topics):
                server.broker.topics.delete(topic)
            server.broker.topics.create("t", 2)
            if isinstance(request_, DeleteTopicsRequest):
                request_.topics = [] if version < 6 else [DeleteTopicState("t")]
            client = await Client.connect(server)
            client.send(request_, version)
            response = await client.next_response()
            assert "error_code=-1" not in repr(response), f"v{version}: {response}"
            client.close()

    with_server(tmp_path, scenario)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.API.name)
def test_every_version_has_an_error_response(request_: Request) -> None:
    api = request_.API
    handler = load(api)
    for version in range(api.min_version, api.latest_stable + 1):
        response = handler.error_response(request_, version, Error.UNKNOWN_SERVER_ERROR)
        assert decode(response_type(api), version, encode(response, version))
