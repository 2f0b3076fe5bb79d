"""Our clients, commands and Spark source on a secured Apache Kafka, in every way to authenticate, and with ACLs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from scripts.apache_kafka import KAFKA, ROOT, missing

from slackwater import Admin, Consumer, Producer
from tests.client.security.secured_kafka import SecuredKafka, grant, secured_kafka
from tests.client.security.test_changing_credentials import token_endpoint

SECONDS: Final = 60.0
SPARK_SECONDS: Final = 600.0
PROGRAM: Final = Path(sys.executable).with_name("slackwater")
COUNT: Final = 10
Settings = Mapping[str, object]
WAYS: Final[dict[str, Callable[[SecuredKafka, str], Settings]]] = {
    "SSL": lambda kafka, _: kafka.tls(),
    "mutual-TLS": lambda kafka, _: kafka.mtls(),  # with ACLs
    "PLAIN": lambda kafka, _: kafka.sasl("PLAIN"),
    "SCRAM-SHA-256": lambda kafka, _: kafka.sasl("SCRAM-SHA-256"),
    "SCRAM-SHA-512": lambda kafka, _: kafka.sasl("SCRAM-SHA-512"),
    "OAUTHBEARER": lambda kafka, url: (
        kafka.tls("SASL")
        | {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.oauthbearer.client.credentials.client.id": "orders",
            "sasl.oauthbearer.client.credentials.client.secret": "client-secret",
            "sasl.oauthbearer.scope": "kafka",
        }
    ),
    "ACLs": lambda kafka, _: kafka.sasl("SCRAM-SHA-512", "bob"),
}


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Settings]]:
    """The settings of each way; each has a topic of its name with records."""
    if reason := missing(KAFKA):
        pytest.skip(reason)
    with secured_kafka(tmp_path_factory.mktemp("kafka")) as kafka, token_endpoint() as url:
        with Admin(kafka.servers("OPEN")) as admin, Producer(kafka.servers("OPEN")) as producer:
            for name in WAYS:
                admin.create_topic(name, 2)
                for number in range(COUNT):
                    producer.send(name, str(number)).result(SECONDS)
            admin.committed("first")  # creates __consumer_offsets
        for principal, topic in (("User:bob", "ACLs"), ("User:CN=client", "mutual-TLS")):
            grant(kafka, principal, ["Read", "Write", "Describe"], topic=topic)
            grant(kafka, principal, ["Read", "Describe"], topic="__consumer_offsets")
            groups = [f"readers-{topic}", f"shell-{topic}", *(f"spark-{topic}-{master}" for master in MASTERS)]
            for group in groups:
                grant(kafka, principal, ["Read", "Describe"], group=group)
        yield {name: way(kafka, url) for name, way in WAYS.items()}


MASTERS: Final = {"local": "local[2]", "local-cluster": "local-cluster[2,1,1024]"}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """Each way in turn."""
    return str(request.param)


def test_producer_consumer_and_admin(ways: dict[str, Settings], way: str) -> None:
    with Producer(ways[way]) as producer:
        producer.send(way, "last").result(SECONDS)
    group = f"readers-{way}"
    with Consumer({**ways[way], "group.id": group, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([way])
        values: list[bytes | None] = []
        while len(values) <= COUNT:
            values += [record.value for record in consumer.poll(SECONDS)]
    assert b"last" in values
    with Admin(ways[way]) as admin:
        (described,) = admin.describe_groups([group])
        assert described.group_id == group
        assert admin.committed(group)


def test_commands(ways: dict[str, Settings], way: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in ways[way].items()))

    def run(*words: str, text: str = "", codes: tuple[int, ...] = (0,)) -> str:
        command = [str(PROGRAM), *words, "--config", str(config)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode in codes, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    group = f"shell-{way}"
    assert way in run("topics", "list")
    run("produce", way, text="from the shell\n")
    read = run("consume", way, "--group", group, "--from-beginning", "--max", str(COUNT + 1))
    assert read.count("\n") == COUNT + 1
    assert group in run("groups", "list")
    assert group in run("groups", "describe", group)
    assert "no alert" in run("watch", "--once", "--group", group)
    verdicts = json.loads(run("doctor", "--group", group, "--json", codes=(0, 1, 2)))
    assert group in json.dumps(verdicts)


@pytest.mark.parametrize("master", MASTERS)
def test_spark_reads_in_every_way(ways: dict[str, Settings], master: str, tmp_path: Path) -> None:
    options = {
        name: {f"kafka.{setting}": str(value) for setting, value in settings.items()} | {"subscribe": name}
        for name, settings in ways.items()
    }
    (tmp_path / "ways.json").write_text(json.dumps(options))
    program = str(Path(__file__).with_name("secured_ways_application.py"))
    done = subprocess.run(
        [sys.executable, program, MASTERS[master], str(tmp_path), str(tmp_path / "ways.json")],
        capture_output=True,
        text=True,
        timeout=SPARK_SECONDS,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert list(counts) == list(WAYS)
    for name, count in counts.items():
        batch, stream = (int(part.split()[1]) for part in count.split(", "))
        assert batch == stream >= COUNT, (name, count)
