"""APIs with a fixed response on a single broker: elections, reassignments, quotas, ACLs, transactions."""

from pathlib import Path

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from slackwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from slackwater.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from slackwater.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from slackwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from slackwater.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from slackwater.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from slackwater.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from slackwater.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from slackwater.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from slackwater.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from slackwater.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from slackwater.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from slackwater.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from slackwater.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from slackwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from slackwater.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from slackwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from slackwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

from ..server_client import Client, with_server


def test_no_election_is_needed(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        requested = [TopicPartitions("t", [0, 9]), TopicPartitions("nix", [0])]
        for election_type in (0, 1):
            response = await client.request(ElectLeadersRequest(election_type, requested), ElectLeadersResponse)
            results = [
                [partition.error_code for partition in topic.partition_result]
                for topic in response.replica_election_results
            ]
            assert results == [
                [Error.ELECTION_NOT_NEEDED, Error.UNKNOWN_TOPIC_OR_PARTITION],
                [Error.UNKNOWN_TOPIC_OR_PARTITION],
            ]
        response = await client.request(ElectLeadersRequest(9, requested[:1]), ElectLeadersResponse)
        assert response.error_code == Error.INVALID_REQUEST
        response = await client.request(ElectLeadersRequest(0, None), ElectLeadersResponse)
        assert [(topic.topic, topic.partition_result) for topic in response.replica_election_results] == [("t", [])]
        client.close()

    with_server(tmp_path, scenario)


def test_reassignment_to_another_broker_is_rejected(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for name, index, replicas, error in (
            ("t", 0, [1], Error.NONE),
            ("t", 0, [2], Error.INVALID_REPLICA_ASSIGNMENT),
            ("t", 0, [1, 2], Error.INVALID_REPLICA_ASSIGNMENT),
            ("t", 0, [], Error.INVALID_REPLICA_ASSIGNMENT),
            ("t", 0, None, Error.NO_REASSIGNMENT_IN_PROGRESS),
            ("t", 9, [1], Error.UNKNOWN_TOPIC_OR_PARTITION),
            ("nix", 0, [1], Error.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            topics = [ReassignableTopic(name, [ReassignablePartition(index, replicas)])]
            request = AlterPartitionReassignmentsRequest(topics=topics)
            response = await client.request(request, AlterPartitionReassignmentsResponse)
            assert response.responses[0].partitions[0].error_code == error
        listed = await client.request(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
        assert (listed.error_code, listed.topics) == (0, [])
        client.close()

    with_server(tmp_path, scenario)


def test_no_quotas_and_invalid_filters(tmp_path: Path) -> None:
    user, address = ComponentData("user", 2, None), ComponentData("ip", 2, None)

    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        for components, error in (
            ([], Error.NONE),
            ([user], Error.NONE),
            ([user, user], Error.INVALID_REQUEST),
            ([user, address], Error.INVALID_REQUEST),
            ([ComponentData("", 2, None)], Error.INVALID_REQUEST),
            ([ComponentData("user", 0, None)], Error.INVALID_REQUEST),
            ([ComponentData("user", 9, None)], Error.INVALID_REQUEST),
            ([ComponentData("planet", 2, None)], Error.UNSUPPORTED_VERSION),
        ):
            response = await client.request(DescribeClientQuotasRequest(components), DescribeClientQuotasResponse)
            assert (response.error_code, response.entries) == (error, None if error else [])
        client.close()

    with_server(tmp_path, scenario)


def test_acls_are_disabled(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        described = await client.request(DescribeAclsRequest(1, None, 1, None, None, 1, 1), DescribeAclsResponse)
        assert described.error_code == Error.SECURITY_DISABLED
        rule = AclCreation(2, "t", 3, "User:a", "*", 3, 3)
        created = await client.request(CreateAclsRequest([rule, rule]), CreateAclsResponse)
        assert [result.error_code for result in created.results] == [Error.SECURITY_DISABLED] * 2
        acl_filter = DeleteAclsFilter(1, None, 1, None, None, 1, 1)
        deleted = await client.request(DeleteAclsRequest([acl_filter]), DeleteAclsResponse)
        assert [result.error_code for result in deleted.filter_results] == [Error.SECURITY_DISABLED]
        client.close()

    with_server(tmp_path, scenario)


def test_no_scram_credentials(tmp_path: Path) -> None:
    a, b = UserName("a"), UserName("b")

    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        for users, expected in (
            (None, []),
            ([a, b, b], [("a", Error.RESOURCE_NOT_FOUND), ("b", Error.DUPLICATE_RESOURCE)]),
        ):
            request = DescribeUserScramCredentialsRequest(users)
            response = await client.request(request, DescribeUserScramCredentialsResponse)
            assert (response.error_code, [(result.user, result.error_code) for result in response.results]) == (
                0,
                expected,
            )
        client.close()

    with_server(tmp_path, scenario)


def test_config_resources_by_type(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for types, expected in (([], [("t", 2), ("1", 4), ("1", 8)]), ([4], [("1", 4)]), ([16, 32], [])):
            response = await client.request(ListConfigResourcesRequest(types), ListConfigResourcesResponse)
            assert [
                (resource.resource_name, resource.resource_type) for resource in response.config_resources
            ] == expected
        response = await client.request(ListConfigResourcesRequest([77]), ListConfigResourcesResponse)
        assert response.error_code == Error.UNSUPPORTED_VERSION
        response = await client.request(ListConfigResourcesRequest(), ListConfigResourcesResponse, 0)
        assert response.config_resources == []
        client.close()

    with_server(tmp_path, scenario)


def test_listener_has_no_sasl(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        handshake = await client.request(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse)
        assert (handshake.error_code, handshake.mechanisms) == (Error.ILLEGAL_SASL_STATE, [])
        authenticated = await client.request(SaslAuthenticateRequest(b"x"), SaslAuthenticateResponse)
        assert authenticated.error_code == Error.ILLEGAL_SASL_STATE
        client.close()

    with_server(tmp_path, scenario)


def test_delegation_tokens_are_not_allowed(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        for version in (1, 2, 3):
            created = await client.request(CreateDelegationTokenRequest(), CreateDelegationTokenResponse, version)
            assert (created.error_code, created.principal_name, created.max_timestamp_ms) == (
                Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
                "ANONYMOUS",
                -1,
            )
        renewed = await client.request(RenewDelegationTokenRequest(b"x", 1), RenewDelegationTokenResponse)
        expired = await client.request(ExpireDelegationTokenRequest(b"x", 1), ExpireDelegationTokenResponse)
        described = await client.request(DescribeDelegationTokenRequest(None), DescribeDelegationTokenResponse)
        for response in (renewed, expired, described):
            assert response.error_code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        client.close()

    with_server(tmp_path, scenario)


def test_groups_are_classic(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        heartbeat = await client.request(ConsumerGroupHeartbeatRequest("g"), ConsumerGroupHeartbeatResponse)
        assert heartbeat.error_code == Error.UNSUPPORTED_VERSION
        described = await client.request(ConsumerGroupDescribeRequest(["g", "h"]), ConsumerGroupDescribeResponse)
        assert [(group.group_id, group.error_code) for group in described.groups] == [
            ("g", Error.UNSUPPORTED_VERSION),
            ("h", Error.UNSUPPORTED_VERSION),
        ]
        client.close()

    with_server(tmp_path, scenario)


def test_there_is_one_log_directory(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        topics = [AlterReplicaLogDirTopic("t", [0, 9]), AlterReplicaLogDirTopic("nix", [0])]
        for path, expected in (
            (str(server.broker.directory.path.absolute()), [Error.NONE, *[Error.UNKNOWN_TOPIC_OR_PARTITION] * 2]),
            ("/nowhere", [Error.LOG_DIR_NOT_FOUND] * 3),
        ):
            request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, topics)])
            response = await client.request(request, AlterReplicaLogDirsResponse)
            assert [result.error_code for topic in response.results for result in topic.partitions] == expected
        client.close()

    with_server(tmp_path, scenario)


def test_quotas_can_only_be_removed(tmp_path: Path) -> None:
    entity = [EntityData("client-id", "a")]

    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        for remove, error in ((False, Error.INVALID_REQUEST), (True, Error.NONE)):
            request = AlterClientQuotasRequest([EntryData(entity, [OpData("producer_byte_rate", 1.0, remove)])])
            response = await client.request(request, AlterClientQuotasResponse)
            assert [(entry.error_code, entry.entity) for entry in response.entries] == [(error, entity)]
        client.close()

    with_server(tmp_path, scenario)
