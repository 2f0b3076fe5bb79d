"""Kafka's command-line tools on our broker, with the arguments that people use.

The tools run inside the Java driver's JVM: it calls their main() with arguments and standard input. The tests check the
exit code and the output.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.cli.app import app
from tests.interop.clients import JAVA, Driver, partitions, wait_for_assignment, wait_for_records, wait_until
from tests.interop.conftest import Start

pytestmark = pytest.mark.java
Name = Callable[[str], str]
TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
}


class Tools:
    """Runs a tool by the name of its script."""

    def __init__(self, driver: Driver, bootstrap: str) -> None:
        self.driver, self.bootstrap = driver, bootstrap

    def __call__(self, tool: str, *arguments: object, stdin: str = "", fails: bool = False) -> str:
        """Run the tool and return its standard output; if it must fail, also standard error."""
        arguments_list = list(map(str, arguments))
        if "--bootstrap-server" not in arguments_list and "--command-property" not in arguments_list:
            arguments_list = ["--bootstrap-server", self.bootstrap, *arguments_list]
        result = self.driver.call("tool", main=TOOLS[tool], arguments=arguments_list, input=stdin)
        assert (result["code"] != 0) == fails, (tool, arguments_list, result)
        return str(result["out"]) + (str(result["err"]) if fails else "")

    def rows(self, tool: str, *arguments: object) -> list[list[str]]:
        """The tool's lines as words, without empty ones."""
        return [line.split() for line in self(tool, *arguments).splitlines() if line.strip()]


@pytest.fixture
def java(running: Start) -> Driver:
    return running(JAVA)


@pytest.fixture
def tools(java: Driver, bootstrap: str) -> Tools:
    return Tools(java, bootstrap)


def test_kafka_topics(tools: Tools, name: Name) -> None:
    topic = name("tool-topic")
    created = tools("kafka-topics", "--create", "--topic", topic, "--partitions", 3, "--config", "retention.ms=7200000")
    assert created.strip().endswith(f"Created topic {topic}.")
    assert "already exists" in tools("kafka-topics", "--create", "--topic", topic, fails=True)
    tools("kafka-topics", "--create", "--if-not-exists", "--topic", topic)

    description = tools("kafka-topics", "--describe", "--topic", topic)
    header, *lines = description.strip().splitlines()
    assert "PartitionCount: 3" in header
    assert "ReplicationFactor: 1" in header
    assert "retention.ms=7200000" in header
    assert [line.split()[:4] for line in lines] == [["Topic:", topic, "Partition:", str(number)] for number in range(3)]
    assert all("Leader: none" not in line for line in lines)
    assert tools("kafka-topics", "--describe", "--unavailable-partitions").strip() == ""
    assert tools("kafka-topics", "--describe", "--under-replicated-partitions").strip() == ""

    tools("kafka-topics", "--alter", "--topic", topic, "--partitions", 5)
    assert "PartitionCount: 5" in tools("kafka-topics", "--describe", "--topic", topic)
    tools("kafka-topics", "--alter", "--topic", topic, "--partitions", 2, fails=True)
    assert topic in tools("kafka-topics", "--list").split()
    tools("kafka-topics", "--delete", "--topic", topic)
    wait_until(lambda: topic not in tools("kafka-topics", "--list").split(), lambda: tools("kafka-topics", "--list"))
    assert "does not exist" in tools("kafka-topics", "--describe", "--topic", topic, fails=True)


def test_console_producer_and_consumer(tools: Tools, name: Name) -> None:
    topic = name("tool-console")
    tools("kafka-topics", "--create", "--topic", topic, "--partitions", 1)
    lines = [f"k{number}:line {number}" for number in range(20)]
    tools(
        "kafka-console-producer",
        *("--topic", topic, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
        stdin="\n".join(lines) + "\n",
    )
    arguments = ["--topic", topic, "--max-messages", 20, "--timeout-ms", 30_000]
    keys = ["--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"]
    assert tools("kafka-console-consumer", *arguments, "--from-beginning", *keys).splitlines() == lines
    # In a group, with commits: the second consumer resumes after the records of the first.
    group = name("tool-console-group")
    first = tools(
        "kafka-console-consumer",
        *("--topic", topic, "--max-messages", 8, "--timeout-ms", 30_000, "--from-beginning", "--group", group),
    )
    assert first.splitlines() == [f"line {number}" for number in range(8)]
    rest = tools(
        "kafka-console-consumer", "--topic", topic, "--max-messages", 12, "--timeout-ms", 30_000, "--group", group
    )
    assert rest.splitlines() == [f"line {number}" for number in range(8, 20)]


def test_kafka_consumer_groups_describes_a_group(tools: Tools, java: Driver, name: Name) -> None:
    topic, group = java.create_topic(name("tool-group"), 4), name("tool-group")
    a = java.join("tool-a", group, [topic])
    b = java.join("tool-b", group, [topic])
    snapshots = dict(zip(("tool-a", "tool-b"), wait_for_assignment([a, b], partitions(topic, 4)), strict=True))
    java.produce(topic, [{"partition": number % 4, "value": "v"} for number in range(12)])
    wait_for_records([a, b], 12)
    a.commit()
    b.commit()
    java.produce(topic, [{"partition": 0, "value": "later"}])

    assert group in tools("kafka-consumer-groups", "--list").split()
    assert [group, "Stable"] in tools.rows("kafka-consumer-groups", "--list", "--state")
    assert [group, "Classic", "consumer"] in tools.rows("kafka-groups", "--list")
    header, state = tools.rows("kafka-consumer-groups", "--describe", "--group", group, "--state")
    assert header[0] == "GROUP"
    assert state[0] == group
    assert state[-3:] == ["range", "Stable", "2"]

    header, *offsets = tools.rows("kafka-consumer-groups", "--describe", "--group", group)
    assert header == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]
    owner = {partition: client for client, snapshot in snapshots.items() for partition in snapshot.assignment}
    assert sorted((row[1], int(row[2]), row[3], row[4], row[5], row[7], row[8]) for row in offsets) == [
        (
            topic,
            number,
            "3",
            "4" if number == 0 else "3",
            "1" if number == 0 else "0",
            "/127.0.0.1",
            owner[f"{topic}-{number}"],
        )
        for number in range(4)
    ]
    header, *members = tools.rows("kafka-consumer-groups", "--describe", "--group", group, "--members")
    assert sorted((row[3], row[4]) for row in members) == [("tool-a", "2"), ("tool-b", "2")]

    assert "GroupNotEmptyException" in tools("kafka-consumer-groups", "--delete", "--group", group)
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert "inactive" in tools("kafka-consumer-groups", *reset)
    a.close()
    b.close()


def test_kafka_consumer_groups_resets_and_deletes_offsets(tools: Tools, java: Driver, name: Name) -> None:
    topic, group = java.create_topic(name("tool-reset"), 2), name("tool-reset")
    java.produce(topic, [{"partition": number % 2, "value": "v"} for number in range(20)])
    java.call("set_group_offsets", group=group, offsets={f"{topic}-0": 10, f"{topic}-1": 10})

    def reset(*target: object, on: str = topic) -> dict[str, int]:
        tools("kafka-consumer-groups", "--reset-offsets", "--group", group, "--topic", on, *target, "--execute")
        offsets: dict[str, int] = java.call("group_offsets", group=group)
        return offsets

    assert reset("--to-earliest") == {f"{topic}-0": 0, f"{topic}-1": 0}
    assert reset("--to-latest") == {f"{topic}-0": 10, f"{topic}-1": 10}
    assert reset("--shift-by", -4) == {f"{topic}-0": 6, f"{topic}-1": 6}
    assert reset("--to-offset", 3, on=f"{topic}:1") == {f"{topic}-0": 6, f"{topic}-1": 3}
    assert reset("--to-datetime", "2020-01-01T00:00:00.000") == {f"{topic}-0": 0, f"{topic}-1": 0}
    tools("kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert java.call("group_offsets", group=group) == {f"{topic}-1": 0}
    tools("kafka-consumer-groups", "--delete", "--group", group)
    assert group not in tools("kafka-consumer-groups", "--list").split()


def test_offset_files_of_both_tools(
    tools: Tools, java: Driver, name: Name, tmp_path: Path, bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, group, file = java.create_topic(name("tool-file"), 2), name("tool-file"), tmp_path / "offsets.csv"
    java.produce(topic, [{"partition": number % 2, "value": "v"} for number in range(20)])
    of_group = ("--reset-offsets", "--group", group)

    def ours(*arguments: object) -> str:
        capsys.readouterr()
        app(["groups", "reset-offsets", group, "-b", bootstrap, *map(str, arguments)], standalone_mode=False)
        return capsys.readouterr().out

    exported = tools(
        "kafka-consumer-groups", *of_group, "--topic", f"{topic}:0", "--to-offset", 4, "--dry-run", "--export"
    )
    file.write_text(
        exported
        + tools("kafka-consumer-groups", *of_group, "--topic", f"{topic}:1", "--to-offset", 6, "--dry-run", "--export")
    )
    ours("--from-file", file, "--yes")
    assert java.call("group_offsets", group=group) == {f"{topic}-0": 4, f"{topic}-1": 6}

    current = ("--all-topics", "--to-current", "--dry-run", "--export")
    file.write_text(ours(*current))
    theirs = tools("kafka-consumer-groups", *of_group, *current)
    assert sorted(file.read_text().splitlines()) == sorted(theirs.split())  # they print an empty line, too
    tools("kafka-consumer-groups", *of_group, "--all-topics", "--to-earliest", "--execute")
    tools("kafka-consumer-groups", *of_group, "--from-file", file, "--execute")
    assert java.call("group_offsets", group=group) == {f"{topic}-0": 4, f"{topic}-1": 6}

    file.write_text(tools("kafka-consumer-groups", "--reset-offsets", "--all-groups", *current))
    ours("--all-topics", "--to-earliest", "--yes")
    ours("--from-file", file, "--yes")
    assert java.call("group_offsets", group=group) == {f"{topic}-0": 4, f"{topic}-1": 6}


def test_kafka_configs_of_a_topic(tools: Tools, java: Driver, name: Name) -> None:
    topic = java.create_topic(name("tool-config"), 1)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    tools("kafka-configs", "--alter", *of_topic, "--add-config", "retention.ms=60000,cleanup.policy=[compact,delete]")
    wait_until(lambda: java.call("config", topic=topic, name="retention.ms") == "60000", lambda: "retention.ms")
    description = tools("kafka-configs", "--describe", *of_topic)
    assert f"Dynamic configs for topic {topic} are:" in description
    assert "retention.ms=60000" in description
    assert "cleanup.policy=compact,delete" in description
    assert "segment.bytes=" not in description
    assert "segment.bytes=1073741824" in tools("kafka-configs", "--describe", "--all", *of_topic)
    tools("kafka-configs", "--alter", *of_topic, "--delete-config", "retention.ms")
    wait_until(lambda: java.call("config", topic=topic, name="retention.ms") == "604800000", lambda: "retention.ms")
    tools("kafka-configs", "--alter", *of_topic, "--add-config", "no.such.setting=1", fails=True)


def test_kafka_configs_of_a_broker(tools: Tools, java: Driver, name: Name) -> None:
    topic = java.create_topic(name("tool-broker-config"), 1)
    broker = java.call("cluster")["controller"]
    of_broker = ("--entity-type", "brokers", "--entity-name", broker)
    assert "group.min.session.timeout.ms=500" in tools("kafka-configs", "--describe", "--all", *of_broker)

    def limit() -> str:
        return str(java.call("config", topic=topic, name="max.message.bytes"))

    default = limit()
    for entity in (of_broker, ("--entity-type", "brokers", "--entity-default")):
        tools("kafka-configs", "--alter", *entity, "--add-config", "message.max.bytes=2000000")
        wait_until(lambda: limit() == "2000000", limit)  # a topic without its own setting has the broker's
        assert "message.max.bytes=2000000" in tools("kafka-configs", "--describe", *entity)
        tools("kafka-configs", "--alter", *entity, "--delete-config", "message.max.bytes")
        wait_until(lambda: limit() == default, limit)
        assert "message.max.bytes=2000000" not in tools("kafka-configs", "--describe", *entity)


def test_kafka_get_offsets_and_kafka_delete_records(tools: Tools, java: Driver, name: Name, tmp_path: Path) -> None:
    topic = java.create_topic(name("tool-offsets"), 2)
    java.produce(topic, [{"partition": number % 2, "value": "v"} for number in range(10)])

    def offsets(*arguments: object) -> list[str]:
        return sorted(tools("kafka-get-offsets", "--topic", topic, *arguments).split())

    assert offsets() == [f"{topic}:0:5", f"{topic}:1:5"]
    deletions = {"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}
    file = tmp_path / "delete.json"
    file.write_text(json.dumps(deletions))
    assert "low_watermark: 3" in tools("kafka-delete-records", "--offset-json-file", file)
    assert offsets("--time", "earliest") == [f"{topic}:0:3", f"{topic}:1:0"]
    assert offsets("--time", "latest", "--partitions", 1) == [f"{topic}:1:5"]
    assert offsets("--time", "max-timestamp", "--partitions", 1)[0].startswith(f"{topic}:1:")


def test_cluster_and_broker_tools(tools: Tools, java: Driver, bootstrap: str, name: Name) -> None:
    topic = java.create_topic(name("tool-dirs"), 2)
    java.produce(topic, [{"partition": 0, "value": "v" * 1000}])
    output = tools("kafka-log-dirs", "--describe", "--topic-list", topic)
    dirs = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    sizes = {
        partition["partition"]: partition["size"]
        for broker in dirs["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }
    assert set(sizes) == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-0"] > 1000
    assert sizes[f"{topic}-1"] == 0

    versions = tools("kafka-broker-api-versions")
    assert versions.startswith(f"{bootstrap} (id: ")
    assert "JoinGroup(11):" in versions
    assert f"Cluster ID: {java.call('cluster')['id']}" in tools(
        "kafka-cluster", "cluster-id", "--bootstrap-server", bootstrap
    )


def test_performance_tools(tools: Tools, java: Driver, bootstrap: str, name: Name) -> None:
    topic = java.create_topic(name("tool-perf"), 2)
    output = tools(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", 5000, "--record-size", 100, "--throughput", -1),
        *("--command-property", f"bootstrap.servers={bootstrap}"),
    )
    assert "5000 records sent" in output
    assert sum(end for _, end in java.offsets(topic, 0, 1).values()) == 5000
    output = tools(
        "kafka-consumer-perf-test", "--topic", topic, "--num-records", 5000, "--group", name("tool-perf-group")
    )
    header, figures = ([word.strip() for word in line.split(",")] for line in output.strip().splitlines()[-2:])
    assert int(float(figures[header.index("data.consumed.in.nMsg")])) >= 5000
