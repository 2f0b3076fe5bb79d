"""The client libraries of the system tests: how each starts a verifiable consumer.

Java runs Kafka's own VerifiableConsumer; the programs of the other libraries are in `programs/`. Settings have Kafka's
names in every library.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.java import SMALL_JVM, jars

_JAVA_ASSIGNORS: Final = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
Settings = Mapping[str, str | int | bool]
Command = Callable[[str, Settings, Path], Sequence[str]]  # takes topic, settings, and the path of a settings file


@dataclass(frozen=True)
class Client:
    """A client library."""

    name: str
    command: Command
    has_sticky: bool = True  # the eager sticky assignor
    can_mix_protocols: bool = True  # one consumer may list eager and cooperative assignors


def _python(module: str) -> Command:
    def command(topic: str, settings: Settings, _path: Path) -> Sequence[str]:
        return [sys.executable, "-m", f"tests.system.programs.{module}", topic, json.dumps(settings)]

    return command


def _java(topic: str, settings: Settings, path: Path) -> Sequence[str]:
    """The options of VerifiableConsumer override its settings file, so settings that have an option are options.

    A Java client that reaches none of its brokers forgets all topics (KIP-899). With one broker that is every restart;
    a leader whose coordinator answers before the metadata then rejoins, because its topics seem to have changed.
    """
    values = {name: str(value).lower() if isinstance(value, bool) else value for name, value in settings.items()}
    values["metadata.recovery.strategy"] = "none"
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    assignors = str(settings["partition.assignment.strategy"]).split(",")
    options = {
        "--bootstrap-server": settings["bootstrap.servers"],
        "--topic": topic,
        "--group-id": settings["group.id"],
        "--session-timeout": settings["session.timeout.ms"],
        "--assignment-strategy": ",".join(
            f"org.apache.kafka.clients.consumer.{_JAVA_ASSIGNORS[assignor]}" for assignor in assignors
        ),
        "--command-config": path,
    }
    if "group.instance.id" in settings:
        options["--group-instance-id"] = settings["group.instance.id"]
    command = ["java", *SMALL_JVM, "-cp", f"{jars()}/*", "org.apache.kafka.tools.VerifiableConsumer"]
    command += [str(part) for option in options.items() for part in option]
    return [*command, "--enable-autocommit"] if settings["enable.auto.commit"] else command


OURS: Final = Client("ours", _python("ours"))
LIBRDKAFKA: Final = Client("librdkafka", _python("librdkafka"), has_sticky=False, can_mix_protocols=False)
JAVA: Final = Client("java", _java)
