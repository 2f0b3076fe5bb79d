"""DescribeCluster: one broker, which is also the controller."""

from pathlib import Path

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

from ..server_client import Client, with_server


def test_broker_has_its_advertised_address(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        response = await client.request(DescribeClusterRequest(), DescribeClusterResponse)
        (broker,) = response.brokers
        assert (broker.broker_id, broker.host, broker.port, broker.is_fenced) == (1, "kafka.example", 9093, False)
        assert (response.cluster_id, response.controller_id) == (server.broker.cluster_id, 1)
        assert response.cluster_authorized_operations == -(2**31)
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await client.request(request, DescribeClusterResponse)
        assert response.cluster_authorized_operations == 8096
        client.close()

    with_server(tmp_path, scenario, advertised_listeners="CONTROLLER://x:1,PLAINTEXT://kafka.example:9093")


def test_controller_endpoint_is_rejected(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        for endpoint, error in ((2, Error.MISMATCHED_ENDPOINT_TYPE), (9, Error.UNSUPPORTED_ENDPOINT_TYPE)):
            response = await client.request(DescribeClusterRequest(endpoint_type=endpoint), DescribeClusterResponse)
            assert (response.error_code, response.brokers) == (error, [])
        client.close()

    with_server(tmp_path, scenario)
