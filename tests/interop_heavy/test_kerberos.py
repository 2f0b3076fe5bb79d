"""Kerberos: our clients, the commands and Spark on Apache Kafka with SASL GSSAPI and Debian's KDC."""

import importlib.util
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from scripts.apache_kafka import KAFKA, LIGHT, ROOT, formatted_nodes, free_ports, missing

from slackwater import Admin, Consumer, Producer, SaslAuthenticationError
from tests.interop_heavy.kerberos import REALM, Realm, kerberos_realm, missing_kdc

SECONDS: Final = 60.0
SESSION_MS: Final = 2_000
PROGRAM: Final = Path(sys.executable).with_name("slackwater")


@dataclass(frozen=True, slots=True)
class KerberosKafka:
    """The realm, and the address of the broker."""

    realm: Realm
    servers: str

    def settings(self, principal: str = "alice") -> dict[str, object]:
        """The settings of a client with a keytab."""
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.principal": principal,
            "sasl.kerberos.keytab": str(self.realm.directory / f"{principal}.keytab"),
        }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosKafka]:
    reason = missing(KAFKA) or missing_kdc()
    if importlib.util.find_spec("gssapi") is None:
        reason = "the package gssapi is missing: make peers"
    if reason:
        pytest.skip(reason)
    with kerberos_realm(tmp_path_factory.mktemp("realm")) as realm, pytest.MonkeyPatch.context() as patch:
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        for principal in ("alice", "bob"):
            realm.add(principal)
        keytab = realm.add("kafka/localhost")
        module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        port, controller, sasl = free_ports(3)
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SASL://127.0.0.1:{sasl}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SASL://localhost:{sasl}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.sasl.gssapi.sasl.jaas.config": f'{module} keyTab="{keytab}" principal="kafka/localhost";',
            "listener.name.sasl.connections.max.reauth.ms": SESSION_MS,
            "group.initial.rebalance.delay.ms": 0,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
        }
        jvm = (*LIGHT, f"-Djava.security.krb5.conf={realm.config}")
        with formatted_nodes(settings=settings, jvm=jvm) as (node,):
            node.port = port
            node.start()
            node.wait_until_up()
            yield KerberosKafka(realm, f"localhost:{sasl}")


def read_all(settings: Mapping[str, object], topic: str, count: int) -> list[bytes | None]:
    with closing(Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([topic])
        values: list[bytes | None] = []
        while len(values) < count:
            values += [record.value for record in consumer.poll(SECONDS)]
        return values


def of_librdkafka(kafka: KerberosKafka) -> dict[str, object]:
    return kafka.settings()


def of_java(kafka: KerberosKafka) -> dict[str, object]:
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    keytab = kafka.realm.directory / "alice.keytab"
    return {
        "bootstrap.servers": kafka.servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f'{module} keyTab="{keytab}" principal="alice@{REALM}";',
    }


def of_kinit(kafka: KerberosKafka) -> dict[str, object]:
    kafka.realm.run("kinit", "-kt", str(kafka.realm.directory / "alice.keytab"), "alice")
    return {"bootstrap.servers": kafka.servers, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}


@pytest.mark.parametrize("way", [of_librdkafka, of_java, of_kinit], ids=["librdkafka", "java", "kinit"])
def test_producer_consumer_and_admin_use_a_ticket(
    kafka: KerberosKafka, way: Callable[[KerberosKafka], dict[str, object]]
) -> None:
    settings = way(kafka)
    topic = f"kerberos-{uuid.uuid4().hex[:8]}"
    with Admin(settings) as admin, Producer(settings) as producer:
        admin.create_topic(topic, 1)
        producer.send(topic, "value").result(SECONDS)
    assert read_all(settings, topic, 1) == [b"value"]


def test_session_is_renewed_with_a_ticket(kafka: KerberosKafka, caplog: pytest.LogCaptureFixture) -> None:
    with Admin(kafka.settings()) as admin, Producer(kafka.settings()) as producer:
        admin.create_topic("sessions", 1)
        first = last = producer.send("sessions", b"").result(SECONDS).timestamp
        while last - first < 2 * SESSION_MS:
            last = producer.send("sessions", b"").result(SECONDS).timestamp
    assert "could not be established" not in caplog.text


def test_mistakes_are_one_sentence(kafka: KerberosKafka) -> None:
    keytab = kafka.realm.directory / "alice.keytab"
    kafka.realm.run("kinit", "-l", "1s", "-kt", str(keytab), "alice")
    right = kafka.settings()
    expired = {name: value for name, value in right.items() if not name.startswith("sasl.kerberos")}
    for settings, sentence in (
        (right | {"sasl.kerberos.principal": "bob"}, "alice.keytab has no key of sasl.kerberos.principal = bob"),
        (right | {"sasl.kerberos.service.name": "other"}, "Server other/localhost.* not found in Kerberos database"),
        (
            right | {"bootstrap.servers": kafka.servers.replace("localhost", "127.0.0.1")},
            "service.name = kafka and the host name 127.0.0.1",
        ),
        (right | {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"}, "PLAIN; it offers GSSAPI"),
        (expired | {"sasl.kerberos.principal": "nobody"}, r"Can't find client principal .* Run kinit, or set"),
    ):
        with Admin(settings) as admin, pytest.raises(SaslAuthenticationError, match=sentence) as raised:
            admin.brokers()
        assert "\n" not in str(raised.value)


def test_missing_acl_names_the_principal(kafka: KerberosKafka) -> None:
    with Admin(kafka.settings("bob")) as admin, pytest.raises(Exception, match="Kerberos principal bob"):
        admin.create_topic("forbidden", 1)


def test_commands_and_spark_use_a_keytab(kafka: KerberosKafka, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in kafka.settings().items()))

    def run(*words: str, text: str = "") -> str:
        command = [str(PROGRAM), *words, "--config", str(config)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("topics", "create", "commands")
    run("produce", "commands", text="hello\n")
    assert run("consume", "commands", "--from-beginning", "--max", "1") == "hello\n"
    assert "commands" in run("topics", "list")
    program = """
import sys
import uuid
from pyspark.sql import SparkSession
import slackwater.spark
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
slackwater.spark.register(spark)
options = dict(line.split("=", 1) for line in open(sys.argv[1]).read().splitlines())
options = {f"kafka.{name}": value for name, value in options.items()}
print("read:", spark.read.format("slackwater").options(subscribe="commands", **options).load().count())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(config)],
        capture_output=True,
        text=True,
        timeout=5 * SECONDS,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
    )
    assert "read: 1\n" in done.stdout, done.stderr[-3000:]
