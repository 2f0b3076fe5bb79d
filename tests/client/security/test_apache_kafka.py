"""Clients on a secured Apache Kafka: each way in, and the sentence of each mistake."""

import logging
from collections.abc import Callable, Mapping
from contextlib import closing

import pytest

from slackwater import (
    Admin,
    Consumer,
    IllegalSaslStateError,
    Producer,
    SaslAuthenticationError,
    SlackwaterError,
    SslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from tests.client.security.secured_kafka import SESSION_MS, SecuredKafka, unsigned_token

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("secured_kafka")]
Settings = Mapping[str, object]
SECONDS = 30.0
WAYS_IN: Mapping[str, Callable[[SecuredKafka], Settings]] = {
    "SSL": lambda kafka: kafka.tls(),
    "SSL-pem-text": lambda kafka: (
        kafka.servers("TLS")
        | {"security.protocol": "SSL", "ssl.truststore.certificates": kafka.authority.path.read_text()}
    ),
    "mutual-pem": lambda kafka: kafka.mtls(),
    "mutual-librdkafka": lambda kafka: (
        kafka.servers("MTLS")
        | {
            "security.protocol": "ssl",
            "ssl.ca.location": str(kafka.authority.path),
            "ssl.certificate.location": str(kafka.client.certificate()),
            "ssl.key.location": str(kafka.client.key("key-secret")),
            "ssl.key.password": "key-secret",
        }
    ),
    "mutual-pkcs12": lambda kafka: (
        kafka.servers("MTLS")
        | {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(kafka.client.pkcs12("store-secret")),
            "ssl.truststore.password": "store-secret",
            "ssl.keystore.location": str(kafka.client.pkcs12("store-secret")),
            "ssl.keystore.password": "store-secret",
        }
    ),
    "any-host-name": lambda kafka: kafka.tls("OTHER") | {"ssl.endpoint.identification.algorithm": ""},
    "PLAIN": lambda kafka: kafka.sasl("PLAIN"),
    "PLAIN-jaas": lambda kafka: (
        kafka.tls("SASL")
        | {
            "security.protocol": "SASL_SSL",
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="alice" password="alice-secret";',
        }
    ),
    "SCRAM-SHA-256": lambda kafka: kafka.sasl("SCRAM-SHA-256"),
    "SCRAM-SHA-512": lambda kafka: kafka.sasl("SCRAM-SHA-512", listener="SCRAM"),
    "OAUTHBEARER": lambda kafka: kafka.sasl("OAUTHBEARER"),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_admin_connects(secured: SecuredKafka, way: str) -> None:
    with Admin(WAYS_IN[way](secured)) as admin:
        assert [broker.node_id for broker in admin.brokers()] == [1]


@pytest.mark.parametrize("way", ["SSL", "SCRAM-SHA-512", "PLAIN"])
def test_records_go_through(secured: SecuredKafka, way: str) -> None:
    settings, topic = WAYS_IN[way](secured), f"records-{way}"
    with Admin(settings) as admin, Producer(settings) as producer:
        admin.create_topic(topic, 1)
        producer.send(topic, b"x" * 100_000).result(SECONDS)
        producer.send(topic, b"last").result(SECONDS)
    group = {"group.id": f"group-{way}", "auto.offset.reset": "earliest"}
    with Consumer(settings, **group) as consumer:
        consumer.subscribe([topic])
        records = iter(consumer)
        values = [next(records).value for _ in range(2)]
    assert values == [b"x" * 100_000, b"last"]


MISTAKES: Mapping[str, tuple[Callable[[SecuredKafka], Settings], type[SlackwaterError], str]] = {
    "wrong-ca": (
        lambda kafka: kafka.tls() | {"ssl.truststore.location": str(kafka.other_authority.path)},
        SslAuthenticationError,
        "is not signed by a trusted certificate authority; set ssl.truststore.location",
    ),
    "wrong-host-name": (lambda kafka: kafka.tls("OTHER"), SslAuthenticationError, "is not for this host name"),
    "expired": (lambda kafka: kafka.tls("EXPIRED"), SslAuthenticationError, "has expired"),
    "not-yet-valid": (lambda kafka: kafka.tls("FUTURE"), SslAuthenticationError, "is not valid yet; check the clock"),
    "no-certificate": (lambda kafka: kafka.tls("MTLS"), SslAuthenticationError, "this client has none"),
    "no-certificate-tls-1.2": (
        lambda kafka: kafka.tls("MTLS") | {"ssl.enabled.protocols": "TLSv1.2"},
        SslAuthenticationError,
        "this client has none",
    ),
    "untrusted-certificate": (
        lambda kafka: (
            kafka.mtls() | {"ssl.keystore.location": str(kafka.other_authority.issue("client", "client").combined())}
        ),
        SslAuthenticationError,
        "rejected this client's certificate",
    ),
    "wrong-plain-password": (
        lambda kafka: kafka.sasl("PLAIN") | {"sasl.password": "canary"},
        SaslAuthenticationError,
        "rejected the PLAIN authentication as alice: .*Check the user name and the password",
    ),
    "wrong-scram-password": (
        lambda kafka: kafka.sasl("SCRAM-SHA-256") | {"sasl.password": "canary"},
        SaslAuthenticationError,
        "rejected the SCRAM-SHA-256 authentication as alice: .*Check the user name and the password",
    ),
    "expired-token": (
        lambda kafka: (
            kafka.sasl("OAUTHBEARER") | {"sasl.oauthbearer.token.provider": lambda: unsigned_token("alice", -100)}
        ),
        SaslAuthenticationError,
        "rejected the OAUTHBEARER authentication: invalid_token. Check the expiry",
    ),
    "unknown-mechanism": (
        lambda kafka: kafka.sasl("PLAIN", listener="SCRAM"),
        UnsupportedSaslMechanismError,
        "does not offer sasl.mechanism = PLAIN; it offers SCRAM-SHA-256, SCRAM-SHA-512",
    ),
    "tls-to-a-plaintext-port": (lambda kafka: kafka.tls("OPEN"), SslAuthenticationError, "does not answer with TLS"),
    "plaintext-to-a-tls-port": (lambda kafka: kafka.servers("TLS"), SslAuthenticationError, "expects TLS; set"),
    "no-sasl-to-a-sasl-port": (
        lambda kafka: kafka.servers("SCRAM"),
        IllegalSaslStateError,
        "needs SASL; set security.protocol .* one of SCRAM-SHA-256, SCRAM-SHA-512",
    ),
    "tls-without-sasl-to-a-sasl-port": (
        lambda kafka: kafka.tls("SASL"),
        IllegalSaslStateError,
        "needs SASL; set security.protocol .* one of OAUTHBEARER, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    ),
    "sasl-to-a-port-without": (
        lambda kafka: kafka.sasl("PLAIN") | kafka.servers("OPEN") | {"security.protocol": "SASL_PLAINTEXT"},
        IllegalSaslStateError,
        "is a port without SASL",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_has_its_sentence(secured: SecuredKafka, mistake: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    settings, error, sentence = MISTAKES[mistake]
    with Admin(settings(secured)) as admin, pytest.raises(error, match=sentence) as raised:
        admin.brokers()
    chain: list[BaseException] = [raised.value]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    shown = [caplog.text, *(f"{error!r} {vars(error)}" for error in chain)]
    assert "canary" not in "".join(shown)


@pytest.mark.parametrize("mistake", ["wrong-ca", "wrong-scram-password", "plaintext-to-a-tls-port"])
def test_consumer_and_producer_raise_the_error(secured: SecuredKafka, mistake: str) -> None:
    make, error, sentence = MISTAKES[mistake]
    settings = dict(make(secured))
    with closing(Consumer(settings, group_id="g")) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(error, match=sentence):
            consumer.poll(SECONDS)
        with pytest.raises(error, match=sentence):  # the next call tries again
            consumer.poll(SECONDS)
    with closing(Producer(settings)) as producer, pytest.raises(error, match=sentence):
        producer.send("t", b"value").result(SECONDS)


def test_consumer_without_sasl_names_the_mechanisms(secured: SecuredKafka) -> None:
    with closing(Consumer(secured.servers("SCRAM"), group_id="g")) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(IllegalSaslStateError, match=r"needs SASL; .* one of SCRAM-SHA-256, SCRAM-SHA-512"):
            consumer.poll(SECONDS)


def test_session_is_renewed_before_it_ends(secured: SecuredKafka, caplog: pytest.LogCaptureFixture) -> None:
    topic = "sessions"
    settings = secured.sasl("PLAIN", listener="SHORT")
    with Admin(settings) as admin, Producer(settings) as producer:
        admin.create_topic(topic, 1)
        first = producer.send(topic, b"").result(SECONDS).timestamp
        last = first
        while last - first < 3 * SESSION_MS:
            last = producer.send(topic, b"").result(SECONDS).timestamp
            admin.brokers()
    assert "could not be established" not in caplog.text
