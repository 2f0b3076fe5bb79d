"""The environment of an incident: an Apache Kafka broker and its log, client processes, and the incident's folder.

Invariants:
- An incident's folder has the layout of the labelled corpus: broker.log (the broker's log during the incident),
  clients/NAME.log (a client's output; a restarted client appends to the same file), consumer_offsets.jsonl, truth.json.
- The label comes from the injected fault; the number of rebalances comes from the broker's log.
- Several incidents may run on one broker: each has its own topics, groups and names, and the broker's log contains all.
- Names are random. No process outlives its incident.
"""

import base64
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from scripts.apache_kafka import KAFKA, LIGHT, Node, apache_kafka, jars

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
SECONDS: Final = 90.0
_POLL_S: Final = 0.2
_FEED_S: Final = 0.5
_PATTERN: Final = "[%d] %p %m (%c)%n"
_LOG4J2: Final = f"""<Configuration status="ERROR"><Appenders><Console name="out"><PatternLayout pattern="{_PATTERN}"/>
</Console></Appenders><Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers></Configuration>"""
_LOG4J: Final = f"""log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern={_PATTERN}
"""
_JAVA_ASSIGNORS: Final = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
_SYLLABLES: Final = (
    "ba",
    "do",
    "ke",
    "lu",
    "mi",
    "no",
    "pra",
    "qui",
    "ro",
    "sta",
    "tu",
    "ve",
    "wim",
    "xo",
    "yel",
    "zen",
)


class IncidentFailed(Exception):
    """The injected fault did not have the intended effect."""


def logging_flags(version: str, home: Path) -> tuple[str, ...]:
    """JVM options that make a process of this version log to standard output in the format of Kafka's brokers."""
    if version.startswith("3."):
        (home / "log4j.properties").write_text(_LOG4J)
        return (f"-Dlog4j.configuration=file:{home / 'log4j.properties'}",)
    (home / "log4j2.xml").write_text(_LOG4J2)
    return (f"-Dlog4j2.configurationFile={home / 'log4j2.xml'}",)


class Broker:
    """A single broker and its log."""

    def __init__(self, version: str, node: Node, bootstrap: str) -> None:
        self.version = version
        self.node = node
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._log = node.home / "output.txt"

    def log_size(self) -> int:
        """The size of the log in bytes."""
        return self._log.stat().st_size

    def log_text(self, start: int = 0) -> str:
        """The log from this position on."""
        with self._log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def stop(self) -> None:
        """Stop it cleanly."""
        assert self.node.process is not None
        self.node.process.send_signal(signal.SIGTERM)
        self.node.process.wait(SECONDS)
        self.node.process = None

    def start(self) -> None:
        """Start it again and wait until it responds."""
        self.node.start()
        self.node.wait_until_up()


@contextmanager
def broker(version: str, home: Path, initial_delay_ms: int = 300) -> Iterator[Broker]:
    """A running broker."""
    settings = {
        "offsets.topic.num.partitions": 6,
        "group.min.session.timeout.ms": 500,
        "group.consumer.min.session.timeout.ms": 500,
        "group.consumer.min.heartbeat.interval.ms": 200,
        "group.consumer.session.timeout.ms": 6000,
        "group.consumer.heartbeat.interval.ms": 1000,
        "group.initial.rebalance.delay.ms": initial_delay_ms,
        "auto.create.topics.enable": "false",
    }
    if version.startswith("3."):
        settings = {name: value for name, value in settings.items() if ".consumer." not in name}
        settings["group.coordinator.new.enable"] = "false"
    with apache_kafka(version, settings=settings, jvm=(*LIGHT, *logging_flags(version, home))) as cluster:
        (node,) = cluster.brokers.values()
        running = Broker(version, node, cluster.bootstrap_servers)
        _create_offsets_topic(running)
        yield running


@dataclass
class Service:
    """The settings of a group's members."""

    library: str
    group: str
    topics: list[str]
    session: int = 6000
    interval: int = 300_000
    assignor: str = ""
    pattern: str | None = None
    protocol: str = "classic"
    debug: bool = False
    metadata: int = 3000
    has_client_ids: bool = True
    """Whether each member has its own client id; otherwise they use the library's default."""


class Member:
    """One client process."""

    def __init__(self, run: "IncidentRun", service: Service, name: str, instance: str | None = None) -> None:
        self.run = run
        self.service = service
        self.name = name
        self.instance = instance
        self.process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None

    def start(self) -> "Member":
        """Start the process; it joins later."""
        path = self.run.folder / "clients" / f"{self.name}.log"
        self._log = path.open("a")
        self.process = subprocess.Popen(
            self._command(), stdin=subprocess.PIPE, stdout=self._log, stderr=subprocess.STDOUT, text=True, env=_env()
        )
        return self

    def send(self, command: str) -> None:
        """Send a command (see member.py)."""
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()

    def stop(self) -> None:
        """Close it cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._end(signal.SIGKILL)

    def freeze(self, seconds: float) -> None:
        """Stop the process with SIGSTOP for this long."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self.process is None or self.process.poll() is not None

    def _end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reap()

    def reap(self) -> None:
        """Release the resources of an ended process."""
        if self.process is not None:
            with suppress(BrokenPipeError):
                assert self.process.stdin is not None
                self.process.stdin.close()
            self.process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _command(self) -> list[str]:
        service = self.service
        if service.library.startswith("java"):
            return _java_command(self.run, service, self.name if service.has_client_ids else "", self.instance)
        settings = json.dumps(
            {
                "bootstrap": self.run.broker.bootstrap,
                "library": service.library,
                "group": service.group,
                "topics": service.topics,
                "pattern": service.pattern,
                "client": self.name if service.has_client_ids else "",
                "instance": self.instance,
                "session": service.session,
                "interval": service.interval,
                "assignor": service.assignor,
                "protocol": service.protocol,
                "debug": service.debug,
                "metadata": service.metadata,
            }
        )
        if service.library == "kafkajs":
            return ["node", str(HERE / "member.js"), settings]
        if service.library == "sarama":
            return [str(self.run.tools / "sarama-member"), settings]
        return [sys.executable, str(HERE / "member.py"), settings]


def _env() -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(ROOT / ".cache" / "peers" / "kafkajs" / "node_modules"), "TZ": "UTC"}


def _java_command(run: "IncidentRun", service: Service, name: str, instance: str | None) -> list[str]:
    version = service.library.partition("-")[2] or KAFKA
    settings = {
        "bootstrap.servers": run.broker.bootstrap,
        "group.id": service.group,
        "max.poll.interval.ms": service.interval,
        "metadata.max.age.ms": service.metadata,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 2000,
        **({"client.id": name} if name else {}),
        **({"group.instance.id": instance} if instance else {}),
    }
    if service.protocol == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        settings |= {"session.timeout.ms": service.session, "heartbeat.interval.ms": max(300, service.session // 4)}
    if service.assignor:
        classes = (f"org.apache.kafka.clients.consumer.{_JAVA_ASSIGNORS[name]}" for name in service.assignor.split(","))
        settings["partition.assignment.strategy"] = ",".join(classes)
    topics = f"~{service.pattern}" if service.pattern else ",".join(service.topics)
    flags = ("-Xmx96m", *LIGHT[1:], *logging_flags(version, run.tools))
    pairs = (f"{key}={value}" for key, value in settings.items())
    return ["java", *flags, "-cp", f"{run.tools}:{jars(version)}/*", "Member", topics, *pairs]


@dataclass
class IncidentRun:
    """One running incident."""

    id: str
    broker: Broker
    folder: Path
    tools: Path
    rng: random.Random
    library: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    timeline: list[dict[str, str]] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    fed_topics: dict[str, int] = field(default_factory=dict)
    log_start: int = 0
    is_over: bool = False

    def random_name(self) -> str:
        """A random name without meaning."""
        return "".join(self.rng.choice(_SYLLABLES) for _ in range(3)) + str(self.rng.randrange(10, 99))

    def topic(self, partitions: int, name: str | None = None) -> str:
        """Create a topic that receives records."""
        name = name or self.random_name()
        self.broker.admin.create_topics([NewTopic(name, num_partitions=partitions)])[name].result(SECONDS)
        self.fed_topics[name] = partitions
        return name

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic."""
        self.broker.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(SECONDS)
        self.fed_topics[topic] = partitions

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        del self.fed_topics[topic]
        self.broker.admin.delete_topics([topic])[topic].result(SECONDS)

    def member(self, service: Service, instance: str | None = None, name: str | None = None) -> Member:
        """Create a member that is not started yet."""
        name = name or f"{service.group.replace('.', '-')}-{self.rng.randrange(16**4):04x}-{len(self.members)}"
        self.members.append(Member(self, service, name, instance))
        return self.members[-1]

    def label(
        self, group: str, cause: str, culprits: Sequence[str] = (), storm: bool = False, **details: object
    ) -> None:
        """Set the label of a group."""
        self.groups[group] = {"cause": cause, "culprits": list(culprits), "storm": storm, **details}

    def note(self, what: str, *who: str) -> None:
        """Add an action to the timeline."""
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        self.timeline.append({"t": stamp, "what": what, "who": ",".join(who)})

    def log_text(self) -> str:
        """The broker's log since the start of the incident."""
        return self.broker.log_text(self.log_start)

    def count(self, pattern: str) -> int:
        """The number of matches in the broker's log since the start of the incident."""
        return len(re.findall(pattern, self.log_text()))

    def wait(self, what: str, condition: Callable[[], object], seconds: float = SECONDS) -> None:
        """Wait until the condition is true."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise IncidentFailed(f"{self.id}: {what} did not happen within {seconds:g} s")
            time.sleep(_POLL_S)

    def wait_stable(self, group: str, members: int, seconds: float = SECONDS) -> None:
        """Wait until the group is stable with this many members."""
        self.wait(f"{members} members in {group}", lambda: self.is_stable(group, members), seconds)

    def is_stable(self, group: str, members: int) -> bool:
        """Whether the group is stable with this many members, by the broker's log."""
        name = re.escape(group)
        log = self.log_text()
        changes = re.findall(
            rf"\[GroupId {name}\] (?:Static member|Member)(?: (\S+))??(?: with instance id (\S+))? "
            r"(joins|re-joins|left|temporarily left|fenced)",
            log,
        )
        if changes:
            last = {instance or member: how for member, instance, how in changes}
            return bool(sum(how.endswith("joins") for how in last.values()) == members)
        states = re.findall(
            rf"(Preparing to rebalance group {name} |Stabilized group {name} generation \d+ .*with (\d+) members"
            rf"|Assignment received from leader \S+ for group {name} )",
            log,
        )
        if not states:
            return False
        sizes = [int(size) for _, size in states if size]
        return bool(states[-1][0].startswith("Assignment") and sizes[-1] == members)

    def generations(self, group: str) -> int:
        """The number of generations in the broker's log."""
        name = re.escape(group)
        bumped = rf"\[GroupId {name}\] Bumped group epoch to|Stabilized group {name} generation"
        return self.count(bumped)

    def feed(self) -> None:
        """Produce until the incident is over: two records a second for each partition."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5, "log_level": 0})
        while not self.is_over:
            for topic, partitions in list(self.fed_topics.items()):
                for partition in range(partitions):
                    with suppress(BufferError, KafkaException):  # the topic is changing
                        producer.produce(topic, value=b"x", partition=partition)
            producer.poll(0)
            time.sleep(_FEED_S)
        producer.purge()
        producer.flush(1)

    def finish(self, started: float, offsets: Mapping[int, int]) -> None:
        """Write the incident's folder, while its members are still running."""
        log = self.log_text()
        (self.folder / "broker.log").write_text(log)
        for group, truth in self.groups.items():
            truth["rebalances"] = self.generations(group)
        _dump_offsets(self.broker.bootstrap, offsets, self.folder / "consumer_offsets.jsonl")
        truth = {
            "id": self.id,
            "broker_version": self.broker.version,
            "library": self.library,
            "started": started,
            "ended": time.time(),
            "parameters": self.parameters,
            "groups": self.groups,
            "timeline": self.timeline,
        }
        (self.folder / "truth.json").write_text(json.dumps(truth, indent=1))

    def tear_down(self) -> None:
        """End all processes."""
        self.is_over = True
        for member in self.members:
            if member.process is not None:
                member.process.kill()
                member.process.wait()
            member.reap()


@contextmanager
def running_incident(name: str, on: Broker, folder: Path, tools: Path, seed: int) -> Iterator[IncidentRun]:
    """A running incident with a feeder; if the block ends without an error, its folder is written."""
    (folder / "clients").mkdir(parents=True, exist_ok=True)
    run = IncidentRun(name, on, folder, tools, random.Random(seed), log_start=on.log_size())
    feeder = threading.Thread(target=run.feed, daemon=True)
    offsets = _end_offsets(on.bootstrap)
    started = time.time()
    feeder.start()
    try:
        yield run
        run.finish(started, offsets)
    finally:
        run.tear_down()
        feeder.join(SECONDS)


def _reader(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",  # required by librdkafka; no group is joined and nothing is committed
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )


def _create_offsets_topic(on: Broker) -> None:
    """Make the broker create `__consumer_offsets` by a coordinator lookup, and wait for a leader of each partition."""
    consumer = _reader(on.bootstrap)
    deadline = time.monotonic() + SECONDS
    try:
        while True:
            with suppress(KafkaException):
                consumer.committed([TopicPartition("nothing", 0)], timeout=5)
                _end_offsets(on.bootstrap)
                return
            if time.monotonic() > deadline:
                raise IncidentFailed("__consumer_offsets was not created")
            time.sleep(_POLL_S)
    finally:
        consumer.close()


def _end_offsets(bootstrap: str) -> dict[int, int]:
    """The end offsets of the partitions of `__consumer_offsets`."""
    consumer = _reader(bootstrap)
    try:
        topic = consumer.list_topics("__consumer_offsets", timeout=SECONDS).topics["__consumer_offsets"]
        ends = {}
        for partition in topic.partitions:
            bounds = consumer.get_watermark_offsets(TopicPartition("__consumer_offsets", partition), timeout=SECONDS)
            ends[partition] = bounds[1] if bounds is not None else 0
        return ends
    finally:
        consumer.close()


def _dump_offsets(bootstrap: str, start: Mapping[int, int], path: Path) -> None:
    ends = _end_offsets(bootstrap)
    pending = {partition: end for partition, end in ends.items() if end > start.get(partition, 0)}
    lines = []
    consumer = _reader(bootstrap)
    try:
        consumer.assign([TopicPartition("__consumer_offsets", p, start.get(p, 0)) for p in pending])
        deadline = time.monotonic() + SECONDS
        while pending and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                break
            if message.error():
                continue
            lines.append(json.dumps(_record(message)))
            partition, offset = message.partition(), message.offset()
            if partition is not None and offset is not None and offset + 1 >= pending.get(partition, 0):
                pending.pop(partition, None)
    finally:
        consumer.close()
    path.write_text("".join(line + "\n" for line in lines))


def _record(message: Any) -> dict[str, Any]:
    key, value = message.key(), message.value()
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": None if key is None else base64.b64encode(key).decode(),
        "value": None if value is None else base64.b64encode(value).decode(),
    }
