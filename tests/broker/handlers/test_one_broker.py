"""What there is nothing to do about with one broker: leaders, reassignments, quotas, ACLs, transactions."""

from pathlib import Path

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from slackwater.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from slackwater.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from slackwater.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from slackwater.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from slackwater.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from slackwater.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from slackwater.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from slackwater.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from slackwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from slackwater.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

from ..server_client import Client, with_server


def test_no_election_is_needed(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        asked = [TopicPartitions("t", [0, 9]), TopicPartitions("nix", [0])]
        for election_type in (0, 1):
            answer = await client.ask(ElectLeadersRequest(election_type, asked), ElectLeadersResponse)
            results = [[part.error_code for part in one.partition_result] for one in answer.replica_election_results]
            assert results == [
                [Error.ELECTION_NOT_NEEDED, Error.UNKNOWN_TOPIC_OR_PARTITION],
                [Error.UNKNOWN_TOPIC_OR_PARTITION],
            ]
        answer = await client.ask(ElectLeadersRequest(9, asked[:1]), ElectLeadersResponse)
        assert answer.error_code == Error.INVALID_REQUEST
        answer = await client.ask(ElectLeadersRequest(0, None), ElectLeadersResponse)
        assert [(one.topic, one.partition_result) for one in answer.replica_election_results] == [("t", [])]
        client.close()

    with_server(tmp_path, story)


def test_a_partition_can_be_put_where_it_is_and_nowhere_else(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
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
            answer = await client.ask(request, AlterPartitionReassignmentsResponse)
            assert answer.responses[0].partitions[0].error_code == error
        listed = await client.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
        assert (listed.error_code, listed.topics) == (0, [])
        client.close()

    with_server(tmp_path, story)


def test_there_are_no_quotas_and_wrong_filters_are_told(tmp_path: Path) -> None:
    user, address = ComponentData("user", 2, None), ComponentData("ip", 2, None)

    async def story(server: Server) -> None:
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
            answer = await client.ask(DescribeClientQuotasRequest(components), DescribeClientQuotasResponse)
            assert (answer.error_code, answer.entries) == (error, None if error else [])
        client.close()

    with_server(tmp_path, story)


def test_acls_are_disabled(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        described = await client.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), DescribeAclsResponse)
        assert described.error_code == Error.SECURITY_DISABLED
        rule = AclCreation(2, "t", 3, "User:a", "*", 3, 3)
        created = await client.ask(CreateAclsRequest([rule, rule]), CreateAclsResponse)
        assert [one.error_code for one in created.results] == [Error.SECURITY_DISABLED] * 2
        matching = DeleteAclsFilter(1, None, 1, None, None, 1, 1)
        deleted = await client.ask(DeleteAclsRequest([matching]), DeleteAclsResponse)
        assert [one.error_code for one in deleted.filter_results] == [Error.SECURITY_DISABLED]
        client.close()

    with_server(tmp_path, story)


def test_nobody_has_scram_credentials(tmp_path: Path) -> None:
    a, b = UserName("a"), UserName("b")

    async def story(server: Server) -> None:
        client = await Client.connect(server)
        for users, expected in (
            (None, []),
            ([a, b, b], [("a", Error.RESOURCE_NOT_FOUND), ("b", Error.DUPLICATE_RESOURCE)]),
        ):
            request = DescribeUserScramCredentialsRequest(users)
            answer = await client.ask(request, DescribeUserScramCredentialsResponse)
            assert (answer.error_code, [(one.user, one.error_code) for one in answer.results]) == (0, expected)
        client.close()

    with_server(tmp_path, story)


def test_there_are_no_transactions(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        described = await client.ask(DescribeTransactionsRequest(["a", ""]), DescribeTransactionsResponse)
        assert [(one.transactional_id, one.error_code) for one in described.transaction_states] == [
            ("a", Error.TRANSACTIONAL_ID_NOT_FOUND),
            ("", Error.INVALID_REQUEST),
        ]
        listed = await client.ask(ListTransactionsRequest(["Ongoing", "Odd"]), ListTransactionsResponse)
        assert (listed.error_code, listed.transaction_states, listed.unknown_state_filters) == (0, [], ["Odd"])
        listed = await client.ask(ListTransactionsRequest(transactional_id_pattern="("), ListTransactionsResponse)
        assert listed.error_code == Error.INVALID_REGULAR_EXPRESSION
        client.close()

    with_server(tmp_path, story)


def test_what_has_settings_is_listed_by_type(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        server.broker.topics.create("t", 1)
        client = await Client.connect(server)
        for types, expected in (([], [("t", 2), ("1", 4), ("1", 8)]), ([4], [("1", 4)]), ([16, 32], [])):
            answer = await client.ask(ListConfigResourcesRequest(types), ListConfigResourcesResponse)
            assert [(one.resource_name, one.resource_type) for one in answer.config_resources] == expected
        answer = await client.ask(ListConfigResourcesRequest([77]), ListConfigResourcesResponse)
        assert answer.error_code == Error.UNSUPPORTED_VERSION
        answer = await client.ask(ListConfigResourcesRequest(), ListConfigResourcesResponse, 0)
        assert answer.config_resources == []
        client.close()

    with_server(tmp_path, story)
