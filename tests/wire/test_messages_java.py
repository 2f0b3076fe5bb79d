"""Compares every message in every version with Apache Kafka's classes: bytes and values."""

import random
from collections.abc import Iterator

import pytest

from slackwater.wire.apis import APIS, Api
from slackwater.wire.codec import encode, request_type, response_type
from slackwater.wire.errors import WireError
from slackwater.wire.request_response import decode_request, decode_response, encode_request, encode_response
from slackwater.wire.schema import Message, Request, Response
from tests.java import needs_jars
from tests.wire.message_oracle import MessageOracle, kafka_json
from tests.wire.samples import random_message

pytestmark = [pytest.mark.java, needs_jars, pytest.mark.xdist_group("message_oracle")]  # one JVM
SAMPLES = 12


@pytest.fixture(scope="module")
def oracle() -> Iterator[MessageOracle]:
    with MessageOracle() as running:
        yield running


def all_versions(api: Api) -> Iterator[tuple[type[Message], int]]:
    for version in range(api.min_version, api.max_version + 1):
        yield request_type(api), version
        yield response_type(api), version


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_default_messages_equal_kafkas(oracle: MessageOracle, api: Api) -> None:
    for kind, version in all_versions(api):
        theirs = oracle.default(kind, version)
        assert "error" not in theirs, theirs
        assert encode(kind(), version).hex() == theirs["bytes"], (kind, version)
        assert kafka_json(kind(), version) == theirs["body"], (kind, version)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_kafka_decodes_and_encodes_the_same_bytes(oracle: MessageOracle, api: Api) -> None:
    rng = random.Random(api.key)
    for kind, version in all_versions(api):
        for _ in range(SAMPLES):
            message = random_message(rng, kind, version)
            correlation_id = rng.getrandbits(31)
            client_id = rng.choice((None, "", "rdkafka", "é" * 200))
            if isinstance(message, Request):
                sent = encode_request(message, version, correlation_id, client_id)[4:]
            else:
                assert isinstance(message, Response)
                sent = encode_response(message, version, correlation_id)[4:]
            theirs = oracle.read(kind, version, sent)
            assert "error" not in theirs, (message, theirs)
            assert theirs["left"] == 0
            assert theirs["body"] == kafka_json(message, version)
            assert theirs["bytes"] == sent.hex()
            assert theirs["header"]["correlationId"] == correlation_id
            if isinstance(message, Request):
                header, decoded = decode_request(sent)
                assert theirs["headerVersion"] == (2 if api.is_flexible(version) else 1)
                assert theirs["header"] == {
                    "requestApiKey": header.api_key,
                    "requestApiVersion": header.api_version,
                    "correlationId": header.correlation_id,
                    "clientId": header.client_id,
                }
                assert decoded == message
            else:
                assert theirs["headerVersion"] == api.response_header_version(version)
                assert decode_response(response_type(api), version, sent) == (correlation_id, message)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_absent_fields_are_rejected_as_in_kafka(oracle: MessageOracle, api: Api) -> None:
    rng = random.Random(api.key)
    for kind, version in all_versions(api):
        for other in {api.min_version, api.max_version, rng.randint(api.min_version, api.max_version)}:
            message = random_message(rng, kind, version, set_share=0.3)
            theirs = oracle.rewrite(kind, version, other, encode(message, version))
            ours: str | None
            try:
                ours = encode(message, other).hex()
            except WireError:
                ours = None
            assert ours == theirs.get("bytes"), (message, other, theirs)
