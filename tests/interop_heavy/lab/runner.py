"""Several incidents at once on brokers that are up, and what the doctor makes of the folders they leave.

Rules kept here
- An incident is its kind, its version of Kafka and its parameters; names and timings follow from a seed.
- Incidents of one wave are played side by side: they mostly wait. Those that restart a broker have it to themselves.
- What is compared is the whole label from all files; from one source alone, only what is said for sure.
"""

import json
import subprocess
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.apache_kafka import jars

from slackwater.doctor.causes.finding import SURE
from slackwater.doctor.timeline.cluster_history import ClusterHistory
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import Verdict, judge
from tests.doctor.corpus import read_incident
from tests.interop_heavy.lab.environment import HERE, ROOT, Broker, staged
from tests.interop_heavy.lab.incidents import KINDS, beside

SOURCES: Final = {
    "all files": ("broker", "clients", "offsets"),
    "the broker's log": ("broker",),
    "the clients' logs": ("clients",),
    "__consumer_offsets": ("offsets",),
}


@dataclass(frozen=True)
class Incident:
    """What is played."""

    id: str
    version: str
    kind: str
    library: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    company: bool = False
    """A healthy group is on the broker too."""


def make_tools(folder: Path, java: bool = True, go: bool = False) -> Path:
    """Make the members that have to be compiled."""
    folder.mkdir(parents=True, exist_ok=True)
    if java:
        subprocess.run(
            ["javac", "-cp", f"{jars()}/*", "-d", str(folder), str(HERE / "Member.java")], check=True, timeout=120
        )
    if go:
        command = ["go", "build", "-o", str(folder / "sarama-member"), str(HERE / "member.go")]
        subprocess.run(command, check=True, timeout=300, cwd=ROOT / "interop" / "go-sarama")
    return folder


def play(incident: Incident, on: Broker, out: Path, tools: Path, seed: int) -> Path:
    """Play one incident; the folder that it leaves."""
    folder = out / incident.id
    with staged(incident.id, on, folder, tools, zlib.crc32(f"{seed} {incident.id}".encode())) as stage:
        if incident.company:
            beside(stage)
        KINDS[incident.kind](stage, incident.library, **incident.parameters)
    return folder


def play_all(
    waves: Sequence[Sequence[Incident]], brokers: Mapping[str, Broker], out: Path, tools: Path, seed: int
) -> dict[str, BaseException]:
    """Play waves one after another; what went wrong, by incident."""
    failed: dict[str, BaseException] = {}

    def run(incident: Incident) -> None:
        try:
            play(incident, brokers[incident.version], out, tools, seed)
        except BaseException as error:
            failed[incident.id] = error

    for wave in waves:
        threads = [threading.Thread(target=run, args=(incident,)) for incident in wave]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return failed


def verdicts(folder: Path, sources: Sequence[str]) -> Iterator[tuple[str, dict[str, Any], Verdict | None]]:
    """Every labelled group with its label and what the doctor says of it; None where nothing tells of it."""
    rows = read_incident(str(folder), sources)
    ended_ms = max((row.time_ms for row in rows), default=0)
    cluster = ClusterHistory.of((row for row in rows if not row.group), ended_ms)
    for group, label in json.loads((folder / "truth.json").read_text())["groups"].items():
        own = [row for row in rows if row.group == group]
        yield group, label, judge(GroupHistory(group, own, cluster)) if own else None


def faults(folder: Path) -> list[str]:
    """What the doctor says that is not so, in sentences."""
    found = []
    for name, sources in SOURCES.items():
        for group, label, verdict in verdicts(folder, sources):
            if name == "all files":
                found += [f"{folder.name}: {group}, from {name}: {text}" for text in _differences(label, verdict)]
            elif verdict is not None and verdict.confidence >= SURE and verdict.cause != label["cause"]:
                said = f"{verdict.cause} for sure ({verdict.confidence}), but it was {label['cause']}"
                found.append(f"{folder.name}: {group}, from {name}: {said}")
    return found


def _differences(label: Mapping[str, Any], verdict: Verdict | None) -> Iterator[str]:
    if verdict is None:
        yield "nothing tells of it"
        return
    said = {
        "cause": verdict.cause,
        "culprits": sorted(verdict.culprits),
        "rebalances": verdict.rebalances,
        "storm": verdict.storm,
    }
    for name, value in said.items():
        true = sorted(label[name]) if name == "culprits" else label[name]
        if value != true:
            yield f"{name} is {true}, and not {value} ({verdict.cause}, {verdict.confidence})"
