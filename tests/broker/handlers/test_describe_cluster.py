"""DescribeCluster: one broker, which is its own controller."""

from pathlib import Path

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

from ..server_client import Client, with_server


def test_the_broker_is_told_with_the_address_it_advertises(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        answer = await client.ask(DescribeClusterRequest(), DescribeClusterResponse)
        (broker,) = answer.brokers
        assert (broker.broker_id, broker.host, broker.port, broker.is_fenced) == (1, "kafka.example", 9093, False)
        assert (answer.cluster_id, answer.controller_id) == (server.broker.cluster_id, 1)
        assert answer.cluster_authorized_operations == -(2**31)
        asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = await client.ask(asked, DescribeClusterResponse)
        assert answer.cluster_authorized_operations == 8096
        client.close()

    with_server(tmp_path, story, advertised_listeners="CONTROLLER://x:1,PLAINTEXT://kafka.example:9093")


def test_this_is_no_controllers_endpoint(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        for endpoint, error in ((2, Error.MISMATCHED_ENDPOINT_TYPE), (9, Error.UNSUPPORTED_ENDPOINT_TYPE)):
            answer = await client.ask(DescribeClusterRequest(endpoint_type=endpoint), DescribeClusterResponse)
            assert (answer.error_code, answer.brokers) == (error, [])
        client.close()

    with_server(tmp_path, story)
