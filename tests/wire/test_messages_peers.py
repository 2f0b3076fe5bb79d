"""kafka-python and kio decode our messages and encode the same bytes.

kafka-python accepts any values. kio has types for error codes and times that hold fewer values than the wire format, so
it gets messages with default values, in every version.
"""

import io
import pkgutil
import random
from importlib import import_module
from typing import Protocol, Self

import pytest

from slackwater.wire.codec import encode
from slackwater.wire.schema import Message, Request
from tests.wire.samples import all_messages, random_message

SAMPLES = 3
# kafka-python does not have these.
MISSING = {
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
}


class KafkaPythonMessage(Protocol):
    """The used part of kafka-python's messages."""

    _header: object

    @classmethod
    def decode(cls, data: bytes, version: int) -> Self: ...

    def encode(self, version: int) -> bytes: ...


def kafka_python_messages() -> dict[str, type[KafkaPythonMessage]]:
    protocol = pytest.importorskip("kafka.protocol", reason="not installed; run: pip install kafka-python")
    base = import_module("kafka.protocol.api_message").ApiMessage
    message_types = {}
    for module in pkgutil.walk_packages(protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate" not in module.name:
            for name, kind in vars(import_module(module.name)).items():
                if isinstance(kind, type) and issubclass(kind, base):
                    message_types[name] = kind
    return message_types


def test_kafka_python_round_trip() -> None:
    theirs = kafka_python_messages()
    rng = random.Random(11)
    for kind, version in all_messages():
        # kafka-python reads every ApiVersions response with an error as v0.
        if kind.API.name in MISSING or kind.__name__ == "ApiVersionsResponse":
            continue
        for _ in range(SAMPLES):
            data = encode(random_message(rng, kind, version), version)
            decoded = theirs[kind.__name__].decode(data, version=version)
            decoded._header = None
            assert bytes(decoded.encode(version=version)) == data, (kind, version)


def test_kio_round_trip_of_defaults() -> None:
    pytest.importorskip("kio", reason="not installed; run: pip install kio")
    index, serial = import_module("kio.index"), import_module("kio.serial")

    def schema(kind: type[Message], version: int) -> object:
        load = index.load_request_schema if issubclass(kind, Request) else index.load_response_schema
        loaded: object = load(kind.API.key, version)
        return loaded

    for kind, version in all_messages():
        theirs = schema(kind, version)
        data = encode(kind(), version)
        entity, _ = serial.entity_reader(theirs)(data, 0)
        out = io.BytesIO()
        serial.entity_writer(theirs)(out, entity)
        assert out.getvalue() == data, (kind, version)
