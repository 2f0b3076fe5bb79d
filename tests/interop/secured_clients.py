"""One record through a secured broker, with each client library.

Settings have librdkafka's names. With the mechanism OAUTHBEARER, `token` is the token.
"""

import asyncio
import ssl
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final

import aiokafka
import aiokafka.abc
import confluent_kafka

TIMEOUT_S: Final = 30.0
RoundTrip = Callable[[Mapping[str, str], str], bytes | None]


def confluent_round_trip(config: Mapping[str, Any], topic: str) -> bytes | None:
    """Produce and consume with confluent-kafka."""
    config = _with_token_function(config)
    producer = confluent_kafka.Producer({**config})
    producer.produce(topic, b"confluent")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer({**config, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None
    assert message.error() is None, message.error()
    consumer.close()
    value = message.value()
    assert not isinstance(value, str)
    return value


def kafka_python_round_trip(config: Mapping[str, str], topic: str) -> bytes | None:
    """Produce and consume with kafka-python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import kafka
    options = _python_options(config)
    if "token" in config:
        from kafka.net.sasl.oauth import AbstractTokenProvider

        class Provider(AbstractTokenProvider):  # type: ignore[misc]
            def token(self) -> str:
                return config["token"]

        options["sasl_oauth_token_provider"] = Provider()
    with closing(kafka.KafkaProducer(**options)) as producer:
        producer.send(topic, b"kafka-python").get(TIMEOUT_S)
    with closing(kafka.KafkaConsumer(topic, group_id="readers", auto_offset_reset="earliest", **options)) as consumer:
        records = consumer.poll(TIMEOUT_S * 1000)
    value: bytes = next(iter(records.values()))[0].value
    return value


def aiokafka_round_trip(config: Mapping[str, str], topic: str) -> bytes | None:
    """Produce and consume with aiokafka."""

    async def run() -> bytes:
        options = _python_options(config)
        if "token" in config:

            class Provider(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
                async def token(self) -> str:
                    return config["token"]

            options["sasl_oauth_token_provider"] = Provider()
        async with aiokafka.AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(topic, b"aiokafka")
        consumer = aiokafka.AIOKafkaConsumer(topic, group_id="readers", auto_offset_reset="earliest", **options)
        async with consumer, asyncio.timeout(TIMEOUT_S):
            value: bytes = (await consumer.getone()).value
            return value

    return asyncio.run(run())


ROUND_TRIPS: Final[dict[str, RoundTrip]] = {
    "confluent-kafka": confluent_round_trip,
    "kafka-python": kafka_python_round_trip,
    "aiokafka": aiokafka_round_trip,
}


def _with_token_function(config: Mapping[str, Any]) -> dict[str, Any]:
    settings = {**config}
    if (token := settings.pop("token", None)) is not None:
        settings["oauth_cb"] = lambda _config: (token, time.time() + 600)
    return settings


def _python_options(config: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings under the names of kafka-python and aiokafka."""
    options: dict[str, Any] = {
        "bootstrap_servers": config["bootstrap.servers"],
        "security_protocol": config["security.protocol"],
    }
    if "ssl.ca.location" in config:
        context = ssl.create_default_context(cafile=config["ssl.ca.location"])
        if "ssl.certificate.location" in config:
            context.load_cert_chain(config["ssl.certificate.location"])
        options["ssl_context"] = context
    if "token" in config:
        options["sasl_mechanism"] = config["sasl.mechanism"]
    elif "sasl.mechanism" in config:
        options |= {
            "sasl_mechanism": config["sasl.mechanism"],
            "sasl_plain_username": config["sasl.username"],
            "sasl_plain_password": config["sasl.password"],
        }
    return options
