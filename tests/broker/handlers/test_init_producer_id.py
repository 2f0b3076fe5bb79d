"""InitProducerId: ids for idempotent producers, a clear no to transactions."""

import logging
from pathlib import Path

import pytest

from slackwater.broker.server import Server
from slackwater.group.errors import Error
from slackwater.wire.apis import INIT_PRODUCER_ID
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

from ..server_client import Client, with_server


async def ask(client: Client, version: int = 5, **fields: object) -> tuple[int, int, int]:
    request = InitProducerIdRequest(**({"transactional_id": None} | fields))  # type: ignore[arg-type]
    response = await client.ask(request, InitProducerIdResponse, version)
    return response.error_code, response.producer_id, response.producer_epoch


def test_every_version_gets_an_id_of_its_own_and_epoch_0(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        for number, version in enumerate(range(INIT_PRODUCER_ID.latest_stable + 1)):
            assert await ask(client, version) == (Error.NONE, number, 0)
        assert await ask(client, producer_id=3, producer_epoch=4) == (Error.NONE, 6, 0)

    with_server(tmp_path, story)


def test_ids_are_not_given_again_after_a_kill(tmp_path: Path) -> None:
    given = []

    async def story(server: Server) -> None:
        client = await Client.connect(server)
        given.extend([(await ask(client))[1] for _ in range(3)])
        await server.stop(clean=False)

    for _ in range(3):
        with_server(tmp_path, story)
    assert len(set(given)) == 9


def test_half_an_old_producer_is_refused(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        assert await ask(client, producer_id=3) == (Error.INVALID_REQUEST, -1, -1)
        assert await ask(client, producer_epoch=3) == (Error.INVALID_REQUEST, -1, -1)

    with_server(tmp_path, story)


def test_a_transaction_is_refused_for_good_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: Server) -> None:
        client = await Client.connect(server)
        refused = await ask(client, transactional_id="bank", transaction_timeout_ms=1000)
        assert refused == (Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1)
        assert await ask(client, transactional_id="") == (Error.INVALID_REQUEST, -1, -1)

    with caplog.at_level(logging.WARNING):
        with_server(tmp_path, story)
    assert "transactional.id=bank" in caplog.text
    assert not Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.retriable
