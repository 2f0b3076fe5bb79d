"""Where an incident is played: a real Apache Kafka whose log is kept, client processes, and the folder they leave.

Rules kept here
- An incident's folder is laid out like the labelled corpus: broker.log (what the broker wrote meanwhile),
  clients/NAME.log (a process's own words; a restarted one goes on in the same file), consumer_offsets.jsonl, and
  truth.json.
- The label comes from what was injected; the number of rebalances from the broker's log.
- Several incidents may be played on one broker at once: each has topics, groups and names of its own, and every log
  tells of all of them.
- Names are random. No process outlives its stage.
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
_LOOK_AGAIN_S: Final = 0.2
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


class NotPlayed(Exception):
    """An incident did not come about as it was meant to."""


def logging_flags(version: str, home: Path) -> tuple[str, ...]:
    """JVM options that make a process of this version log as a broker of Kafka does, to standard output."""
    if version.startswith("3."):
        (home / "log4j.properties").write_text(_LOG4J)
        return (f"-Dlog4j.configuration=file:{home / 'log4j.properties'}",)
    (home / "log4j2.xml").write_text(_LOG4J2)
    return (f"-Dlog4j2.configurationFile={home / 'log4j2.xml'}",)


class Broker:
    """A single node, and its log."""

    def __init__(self, version: str, node: Node, bootstrap: str) -> None:
        self.version = version
        self.node = node
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._log = node.home / "output.txt"

    def size(self) -> int:
        """How much it has written."""
        return self._log.stat().st_size

    def words(self, begin: int = 0) -> str:
        """What it has written since."""
        with self._log.open("rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace")

    def stop(self) -> None:
        """A clean stop."""
        assert self.node.process is not None
        self.node.process.send_signal(signal.SIGTERM)
        self.node.process.wait(SECONDS)
        self.node.process = None

    def start(self) -> None:
        """Start it again, and wait until it answers."""
        self.node.start()
        self.node.wait_until_up()


@contextmanager
def broker(version: str, home: Path, initial_delay_ms: int = 300) -> Iterator[Broker]:
    """A broker that is up."""
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
        found = Broker(version, node, cluster.bootstrap_servers)
        _make_offsets_topic(found)
        yield found


@dataclass
class Service:
    """How the members of a group are run."""

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
    named: bool = True
    """Its members have client ids of their own; else they have the library's default."""


class Member:
    """One process."""

    def __init__(self, stage: "Stage", service: Service, name: str, instance: str | None = None) -> None:
        self.stage = stage
        self.service = service
        self.name = name
        self.instance = instance
        self.process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None

    def start(self) -> "Member":
        """Start it; it has not joined yet."""
        path = self.stage.folder / "clients" / f"{self.name}.log"
        self._log = path.open("a")
        self.process = subprocess.Popen(
            self._command(), stdin=subprocess.PIPE, stdout=self._log, stderr=subprocess.STDOUT, text=True, env=_env()
        )
        return self

    def tell(self, order: str) -> None:
        """Give it a command."""
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(order + "\n")
            self.process.stdin.flush()

    def stop(self) -> None:
        """A clean close."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def freeze(self, seconds: float) -> None:
        """Hold it still."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def ended(self) -> bool:
        """Whether the process is over."""
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
        """Free what an ended process held."""
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
            return _java_command(self.stage, service, self.name if service.named else "", self.instance)
        wanted = json.dumps(
            {
                "bootstrap": self.stage.broker.bootstrap,
                "library": service.library,
                "group": service.group,
                "topics": service.topics,
                "pattern": service.pattern,
                "client": self.name if service.named else "",
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
            return ["node", str(HERE / "member.js"), wanted]
        if service.library == "sarama":
            return [str(self.stage.tools / "sarama-member"), wanted]
        return [sys.executable, str(HERE / "member.py"), wanted]


def _env() -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(ROOT / ".cache" / "peers" / "kafkajs" / "node_modules"), "TZ": "UTC"}


def _java_command(stage: "Stage", service: Service, name: str, instance: str | None) -> list[str]:
    version = service.library.partition("-")[2] or KAFKA
    settings = {
        "bootstrap.servers": stage.broker.bootstrap,
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
        classes = (f"org.apache.kafka.clients.consumer.{_JAVA_ASSIGNORS[a]}" for a in service.assignor.split(","))
        settings["partition.assignment.strategy"] = ",".join(classes)
    topics = f"~{service.pattern}" if service.pattern else ",".join(service.topics)
    flags = ("-Xmx96m", *LIGHT[1:], *logging_flags(version, stage.tools))
    pairs = (f"{key}={value}" for key, value in settings.items())
    return ["java", *flags, "-cp", f"{stage.tools}:{jars(version)}/*", "Member", topics, *pairs]


@dataclass
class Stage:
    """One incident being played."""

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
    fed: dict[str, int] = field(default_factory=dict)
    begin: int = 0
    over: bool = False

    def word(self) -> str:
        """A name that means nothing."""
        return "".join(self.rng.choice(_SYLLABLES) for _ in range(3)) + str(self.rng.randrange(10, 99))

    def topic(self, partitions: int, name: str | None = None) -> str:
        """A new topic, with records coming in."""
        name = name or self.word()
        self.broker.admin.create_topics([NewTopic(name, num_partitions=partitions)])[name].result(SECONDS)
        self.fed[name] = partitions
        return name

    def grow(self, topic: str, partitions: int) -> None:
        """More partitions."""
        self.broker.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(SECONDS)
        self.fed[topic] = partitions

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        del self.fed[topic]
        self.broker.admin.delete_topics([topic])[topic].result(SECONDS)

    def member(self, service: Service, instance: str | None = None, name: str | None = None) -> Member:
        """A member that is not started yet."""
        name = name or f"{service.group.replace('.', '-')}-{self.rng.randrange(16**4):04x}-{len(self.members)}"
        self.members.append(Member(self, service, name, instance))
        return self.members[-1]

    def label(self, group: str, cause: str, culprits: Sequence[str] = (), storm: bool = False, **more: object) -> None:
        """What is true of a group."""
        self.groups[group] = {"cause": cause, "culprits": list(culprits), "storm": storm, **more}

    def note(self, what: str, *who: str) -> None:
        """Something was done."""
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        self.timeline.append({"t": stamp, "what": what, "who": ",".join(who)})

    def words(self) -> str:
        """What the broker has said since this began."""
        return self.broker.words(self.begin)

    def count(self, pattern: str) -> int:
        """How often the broker has said something since this began."""
        return len(re.findall(pattern, self.words()))

    def wait(self, what: str, condition: Callable[[], object], seconds: float = SECONDS) -> None:
        """Until it is so."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise NotPlayed(f"{self.id}: waited {seconds:g} s in vain for {what}")
            time.sleep(_LOOK_AGAIN_S)

    def wait_stable(self, group: str, members: int, seconds: float = SECONDS) -> None:
        """Until all members are in a generation that stands."""
        self.wait(f"{members} members in {group}", lambda: self._stable(group, members), seconds)

    def _stable(self, group: str, members: int) -> bool:
        name = re.escape(group)
        said = self.words()
        moves = re.findall(
            rf"\[GroupId {name}\] (?:Static member|Member)(?: (\S+))??(?: with instance id (\S+))? "
            r"(joins|re-joins|left|temporarily left|fenced)",
            said,
        )
        if moves:
            last = {instance or member: how for member, instance, how in moves}
            return bool(sum(how.endswith("joins") for how in last.values()) == members)
        moments = re.findall(
            rf"(Preparing to rebalance group {name} |Stabilized group {name} generation \d+ .*with (\d+) members"
            rf"|Assignment received from leader \S+ for group {name} )",
            said,
        )
        if not moments:
            return False
        sizes = [int(size) for _, size in moments if size]
        return bool(moments[-1][0].startswith("Assignment") and sizes[-1] == members)

    def generations(self, group: str) -> int:
        """How many the broker has formed."""
        name = re.escape(group)
        bumped = rf"\[GroupId {name}\] Bumped group epoch to|Stabilized group {name} generation"
        return self.count(bumped)

    def feed(self) -> None:
        """Produce until the incident is over: two records a second for each partition."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5, "log_level": 0})
        while not self.over:
            for topic, partitions in list(self.fed.items()):
                for partition in range(partitions):
                    with suppress(BufferError, KafkaException):  # a topic that changes right now
                        producer.produce(topic, value=b"x", partition=partition)
            producer.poll(0)
            time.sleep(_FEED_S)
        producer.purge()
        producer.flush(1)

    def finish(self, started: float, offsets: Mapping[int, int]) -> None:
        """Write what this incident leaves; its members are still there."""
        log = self.words()
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
        """End everything that was started."""
        self.over = True
        for member in self.members:
            if member.process is not None:
                member.process.kill()
                member.process.wait()
            member.reap()


@contextmanager
def staged(name: str, on: Broker, folder: Path, tools: Path, seed: int) -> Iterator[Stage]:
    """A stage that is fed; when the block ends without an error, the incident's folder is written."""
    (folder / "clients").mkdir(parents=True, exist_ok=True)
    stage = Stage(name, on, folder, tools, random.Random(seed), begin=on.size())
    feeder = threading.Thread(target=stage.feed, daemon=True)
    offsets = _ends(on.bootstrap)
    started = time.time()
    feeder.start()
    try:
        yield stage
        stage.finish(started, offsets)
    finally:
        stage.tear_down()
        feeder.join(SECONDS)


def _reader(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",  # librdkafka wants a name; no group is joined, nothing is committed
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )


def _make_offsets_topic(on: Broker) -> None:
    """Whoever asks for a coordinator first has `__consumer_offsets` made; every partition of it must have a leader."""
    consumer = _reader(on.bootstrap)
    deadline = time.monotonic() + SECONDS
    try:
        while True:
            with suppress(KafkaException):
                consumer.committed([TopicPartition("nothing", 0)], timeout=5)
                _ends(on.bootstrap)
                return
            if time.monotonic() > deadline:
                raise NotPlayed("__consumer_offsets was not made")
            time.sleep(_LOOK_AGAIN_S)
    finally:
        consumer.close()


def _ends(bootstrap: str) -> dict[int, int]:
    """Where the partitions of `__consumer_offsets` end."""
    consumer = _reader(bootstrap)
    try:
        topic = consumer.list_topics("__consumer_offsets", timeout=SECONDS).topics["__consumer_offsets"]
        found = {}
        for partition in topic.partitions:
            bounds = consumer.get_watermark_offsets(TopicPartition("__consumer_offsets", partition), timeout=SECONDS)
            found[partition] = bounds[1] if bounds is not None else 0
        return found
    finally:
        consumer.close()


def _dump_offsets(bootstrap: str, begin: Mapping[int, int], path: Path) -> None:
    ends = _ends(bootstrap)
    left = {partition: end for partition, end in ends.items() if end > begin.get(partition, 0)}
    lines = []
    consumer = _reader(bootstrap)
    try:
        consumer.assign([TopicPartition("__consumer_offsets", p, begin.get(p, 0)) for p in left])
        deadline = time.monotonic() + SECONDS
        while left and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                break
            if message.error():
                continue
            lines.append(json.dumps(_record(message)))
            partition, offset = message.partition(), message.offset()
            if partition is not None and offset is not None and offset + 1 >= left.get(partition, 0):
                left.pop(partition, None)
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
