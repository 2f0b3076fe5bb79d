"""`Broker(security=...)`: a secured broker in one line."""

import contextlib
import socket
import ssl
import stat
import sys

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from slackwater import Broker, UsageError
from slackwater.broker.embedded import certificates
from slackwater.testing.kafka import Kafka
from tests.waiting import wait_until

DEADLINE_S = 30.0
SECURED = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
@pytest.mark.parametrize("protocol", SECURED)
def test_client_of_a_secured_broker(protocol: str, process: bool) -> None:
    with Broker(security=protocol, process=process) as broker:
        broker.create_topic("orders")
        producer = Producer(broker.client_config("alice"))
        producer.produce("orders", b"one")
        assert producer.flush(DEADLINE_S) == 0
        assert broker.describe_group("readers").state == "Dead"
        broker.restart()
        producer.produce("orders", b"two")
        assert producer.flush(DEADLINE_S) == 0


@pytest.mark.parametrize("clean", [True, False], ids=["stop", "kill"])
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_stop_closes_clients_that_do_not_answer(protocol: str, clean: bool) -> None:
    with Kafka(security=protocol) as broker:
        config = broker.client_config("alice")
        context = ssl.create_default_context(cafile=config["ssl.ca.location"])
        if protocol == "SSL":
            context.load_cert_chain(config["ssl.certificate.location"], config["ssl.key.location"])
        with (
            socket.create_connection(("127.0.0.1", broker.port), DEADLINE_S) as silent,
            context.wrap_socket(silent, server_hostname="127.0.0.1") as connected,
            socket.create_connection(("127.0.0.1", broker.port), DEADLINE_S),  # its handshake never starts
        ):

            def connections() -> int:
                return broker.call(lambda server: server.connections + server.unauthenticated_connections)

            wait_until(lambda: connections() == 2, connections, DEADLINE_S)
            if clean:
                broker.stop()
            else:
                broker.kill()
            with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError):
                assert connected.recv(1) == b""


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_user_has_one_password_for_every_mechanism(mechanism: str) -> None:
    with Broker(security="SASL_PLAINTEXT") as broker:
        config = broker.client_config("alice", mechanism=mechanism)
        assert config["sasl.password"] == broker.client_config("alice", mechanism="PLAIN")["sasl.password"]
        assert AdminClient({**config}).list_topics(timeout=DEADLINE_S).brokers
        with pytest.raises(KafkaException):
            AdminClient({**config, "sasl.password": "wrong", "log_level": 0}).list_topics(timeout=0.5)


def test_broker_without_security_needs_only_its_address() -> None:
    with Broker() as broker:
        assert broker.client_config("alice") == {"bootstrap.servers": broker.bootstrap_servers}


def test_settings_under_javas_names() -> None:
    with Broker(security="SASL_SSL") as broker:
        config = broker.client_config("alice", mechanism="PLAIN", java=True)
        assert config["ssl.truststore.type"] == "PEM"
        assert config["sasl.jaas.config"].startswith(
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="'
        )


def test_secrets_are_readable_by_this_user_only() -> None:
    with Broker(security="SASL_SSL") as broker:
        broker.client_config("alice")
        directory = broker.data.parent
        secret_files = [directory / "broker.pem", directory / "users.properties", broker.data / "credentials.json"]
        assert [stat.S_IMODE(path.stat().st_mode) for path in secret_files] == [0o600] * 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda broker: broker.client_config("a=b"), "'a=b' is not a user name for tests"),
        (lambda broker: broker.client_config("a", mechanism="GSSAPI"), "GSSAPI is not a mechanism for tests"),
    ],
)
def test_wrong_argument_of_client_config_is_one_sentence(call: object, message: str) -> None:
    with Broker(security="SASL_PLAINTEXT") as broker, pytest.raises(UsageError, match=message):
        call(broker)  # type: ignore[operator]


def test_unknown_protocol_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="security='TLS' is not a protocol; use one of PLAINTEXT, SSL, "):
        Broker(security="TLS")


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(UsageError) as raised:
        Broker(security="SASL_SSL").start()
    assert str(raised.value) == certificates.NO_CRYPTOGRAPHY


def test_address_of_other_machines_needs_authentication() -> None:
    with pytest.raises(UsageError, match=r"0.0.0.0:0 is reachable from other machines"):
        Broker(host="0.0.0.0").start()
    with Broker(host="0.0.0.0", allow_anonymous=True) as broker:
        assert AdminClient({**broker.client_config()}).list_topics(timeout=DEADLINE_S).brokers
    with Broker(host="0.0.0.0", security="SASL_SSL") as broker:
        assert AdminClient({**broker.client_config()}).list_topics(timeout=DEADLINE_S).brokers
