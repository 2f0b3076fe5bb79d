"""InitProducerId: ids for idempotent and transactional producers."""

from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.broker.storage.producer_ids import FILE
from slackwater.group.errors import Error
from slackwater.wire.apis import INIT_PRODUCER_ID
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

from ..server_client import Client, with_server


async def init_producer_id(client: Client, version: int = 5, **fields: object) -> tuple[int, int, int]:
    request = InitProducerIdRequest(**({"transactional_id": None} | fields))  # type: ignore[arg-type]
    response = await client.request(request, InitProducerIdResponse, version)
    return response.error_code, response.producer_id, response.producer_epoch


def test_every_request_gets_a_new_id_and_epoch_0(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        for number, version in enumerate(range(INIT_PRODUCER_ID.latest_stable + 1)):
            assert await init_producer_id(client, version) == (Error.NONE, number, 0)
        assert await init_producer_id(client, producer_id=3, producer_epoch=4) == (Error.NONE, 6, 0)

    with_server(tmp_path, scenario)


def test_ids_are_not_reused_after_a_kill(tmp_path: Path) -> None:
    producer_ids = []

    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        producer_ids.extend([(await init_producer_id(client))[1] for _ in range(3)])
        await server.stop(clean=False)

    for _ in range(3):
        with_server(tmp_path, scenario)
    assert len(set(producer_ids)) == 9


def test_ids_that_cannot_be_reserved_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        (tmp_path / FILE).mkdir()  # cannot be replaced by a file
        assert await init_producer_id(client) == (Error.COORDINATOR_NOT_AVAILABLE, -1, -1)

    with_server(tmp_path, scenario)
    assert (
        "Cannot reserve producer ids: Is a directory. Producers retry. Check the free space and the permissions of the "
        "data directory."
    ) in caplog.text


def test_id_without_epoch_is_rejected(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        assert await init_producer_id(client, producer_id=3) == (Error.INVALID_REQUEST, -1, -1)
        assert await init_producer_id(client, producer_epoch=3) == (Error.INVALID_REQUEST, -1, -1)

    with_server(tmp_path, scenario)


def test_transactional_id_needs_its_coordinator(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        client = await Client.connect(server)
        rejected = await init_producer_id(client, transactional_id="bank", transaction_timeout_ms=1000)
        assert rejected == (Error.NOT_COORDINATOR, -1, -1)
        assert await init_producer_id(client, transactional_id="") == (Error.INVALID_REQUEST, -1, -1)
        server.broker.create_transactions_topic()
        for epoch in range(3):
            answer = await init_producer_id(client, transactional_id="bank", transaction_timeout_ms=1000)
            assert answer == (Error.NONE, 0, epoch)

    with_server(tmp_path, scenario)
