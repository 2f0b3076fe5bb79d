"""A response is limited by what its request asked for."""

import re
import socket
import threading
import tracemalloc

import pytest

from slackwater import Admin, Consumer, Producer, ResponseTooLargeError, TopicPartition
from slackwater.testing.kafka import Kafka
from slackwater.wire.apis import FETCH, METADATA
from slackwater.wire.messages.fetch import FetchRequest
from slackwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from slackwater.wire.schema import Request, Response
from tests.client.helpers import QUICK, poll_until, read
from tests.client.network.hostile_server import HostileServer, announce, hostile_server
from tests.waiting import wait_until

TWO_GB = 2**31 - 1
GENERAL_LIMIT = 100 * 1024 * 1024
QUICK_ADMIN = {name: value for name, value in QUICK.items() if name.startswith(("retry.", "reconnect."))}


def metadata(server: HostileServer) -> MetadataResponse:
    """The metadata of a cluster with one broker and one partition."""
    partition = MetadataResponsePartition(leader_id=1, replica_nodes=[1], isr_nodes=[1])
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=server.port)],
        controller_id=1,
        topics=[MetadataResponseTopic(name="t", topic_id=bytes(15) + b"\x01", partitions=[partition])],
    )


def test_large_metadata_response_is_refused() -> None:
    def respond(request: Request) -> bytes:
        assert request.API is METADATA
        return announce(TWO_GB)

    with hostile_server(respond) as server, Admin(QUICK_ADMIN, bootstrap_servers=server.bootstrap_servers) as admin:
        tracemalloc.start()
        message = (
            rf"^{server.bootstrap_servers} announced a response of {TWO_GB} bytes to Metadata; this client accepts "
            rf"up to {GENERAL_LIMIT}\.$"
        )
        with pytest.raises(ResponseTooLargeError, match=message):
            admin.list_topics()
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 8 << 20
        assert server.accepted_bytes < 32 << 20


def test_fetch_response_is_limited_by_fetch_max_bytes() -> None:
    def respond(request: Request) -> Response | bytes:
        if isinstance(request, MetadataRequest):
            return metadata(server)
        assert isinstance(request, FetchRequest)
        return announce(request.max_bytes + GENERAL_LIMIT + 1)

    settings = QUICK | {"fetch.max.bytes": 1_000}
    with hostile_server(respond) as server, Consumer(settings, bootstrap_servers=server.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek(TopicPartition("t", 0), 0)
        limit = GENERAL_LIMIT + 1_000
        message = (
            rf"{server.bootstrap_servers} announced a response of {limit + 1} bytes to {FETCH.name}; this client "
            rf"accepts up to {limit}\. Raise fetch\.max\.bytes"
        )
        with pytest.raises(ResponseTooLargeError, match=message):
            poll_until(consumer, lambda: False)
        assert server.accepted_bytes < 32 << 20


def test_consumer_group_reports_large_metadata() -> None:
    settings = QUICK | {"group.id": "g"}
    with hostile_server(lambda _request: announce(TWO_GB)) as server:
        consumer = Consumer(settings, bootstrap_servers=server.bootstrap_servers)
        consumer.subscribe(["t"])
        with pytest.raises(ResponseTooLargeError, match=r"bytes to (Metadata|FindCoordinator);"):
            poll_until(consumer, lambda: False)
        consumer.close(timeout=0.1)


def test_server_of_another_protocol_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def respond() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(1)

        threading.Thread(target=respond, daemon=True).start()
        with Consumer(QUICK, bootstrap_servers=address) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            expected = rf"{address} announced a response of 1213486160 bytes to ApiVersions;.* port of a Kafka broker\?"

            def is_logged() -> bool:
                consumer.poll(0.05)
                return re.search(expected, caplog.text) is not None

            wait_until(is_logged, lambda: caplog.text, 60.0)


def test_batch_above_fetch_max_bytes_is_read(kafka: Kafka) -> None:
    kafka.create_topic("t", 1, max_message_bytes=40 << 20)
    servers = kafka.bootstrap_servers
    with Producer({"bootstrap.servers": servers, "max.request.size": 40 << 20, "buffer.memory": 80 << 20}) as producer:
        producer.send("t", bytes(30 << 20))
    with Consumer(QUICK | {"fetch.max.bytes": 1_000}, bootstrap_servers=servers) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [len(record.value) for record in read(consumer, 1)] == [30 << 20]
