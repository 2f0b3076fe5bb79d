"""Runs incidents concurrently on running brokers, and compares the doctor's verdicts with the labels.

Invariants:
- An incident is its kind, its version of Kafka and its parameters. Names and timings follow from a seed.
- The incidents of a wave run concurrently, because they mostly wait. An incident that restarts a broker runs alone.
- With all files the whole label is compared. With a single source only confident verdicts are compared.
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
from slackwater.doctor.verdict import Verdict, diagnose_group
from tests.doctor.corpus import read_incident
from tests.interop_heavy.lab.environment import HERE, ROOT, Broker, running_incident
from tests.interop_heavy.lab.incidents import KINDS, add_healthy_group

SOURCES: Final = {
    "all files": ("broker", "clients", "offsets"),
    "the broker's log": ("broker",),
    "the clients' logs": ("clients",),
    "__consumer_offsets": ("offsets",),
}


@dataclass(frozen=True)
class Incident:
    """The parameters of an incident."""

    id: str
    version: str
    kind: str
    library: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    with_healthy_group: bool = False
    """Whether a healthy group runs on the broker too."""


def make_tools(folder: Path, java: bool = True, go: bool = False) -> Path:
    """Compile the members that are not Python or JavaScript."""
    folder.mkdir(parents=True, exist_ok=True)
    if java:
        subprocess.run(
            ["javac", "-cp", f"{jars()}/*", "-d", str(folder), str(HERE / "Member.java")], check=True, timeout=120
        )
    if go:
        command = ["go", "build", "-o", str(folder / "sarama-member"), str(HERE / "member.go")]
        subprocess.run(command, check=True, timeout=300, cwd=ROOT / "interop" / "go-sarama")
    return folder


def run_incident(incident: Incident, on: Broker, out: Path, tools: Path, seed: int) -> Path:
    """Run one incident and return its folder."""
    folder = out / incident.id
    incident_seed = zlib.crc32(f"{seed} {incident.id}".encode())
    with running_incident(incident.id, on, folder, tools, incident_seed) as run:
        if incident.with_healthy_group:
            add_healthy_group(run)
        KINDS[incident.kind](run, incident.library, **incident.parameters)
    return folder


def run_waves(
    waves: Sequence[Sequence[Incident]], brokers: Mapping[str, Broker], out: Path, tools: Path, seed: int
) -> dict[str, BaseException]:
    """Run waves one after another; return the errors by incident."""
    failed: dict[str, BaseException] = {}

    def run(incident: Incident) -> None:
        try:
            run_incident(incident, brokers[incident.version], out, tools, seed)
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
    """Each labelled group with its label and the doctor's verdict; None if no row belongs to the group."""
    rows = read_incident(str(folder), sources)
    ended_ms = max((row.time_ms for row in rows), default=0)
    cluster = ClusterHistory.of((row for row in rows if not row.group), ended_ms)
    for group, label in json.loads((folder / "truth.json").read_text())["groups"].items():
        own = [row for row in rows if row.group == group]
        yield group, label, diagnose_group(GroupHistory(group, own, cluster)) if own else None


def wrong_verdicts(folder: Path) -> list[str]:
    """The differences between the verdicts and the labels, as text."""
    problems = []
    for name, sources in SOURCES.items():
        for group, label, verdict in verdicts(folder, sources):
            if name == "all files":
                problems += [f"{folder.name}: {group}, from {name}: {text}" for text in _differences(label, verdict)]
            elif verdict is not None and verdict.confidence >= SURE and verdict.cause != label["cause"]:
                text = f"confident verdict {verdict.cause} ({verdict.confidence}), but the cause was {label['cause']}"
                problems.append(f"{folder.name}: {group}, from {name}: {text}")
    return problems


def _differences(label: Mapping[str, Any], verdict: Verdict | None) -> Iterator[str]:
    if verdict is None:
        yield "the group is in none of the files"
        return
    fields = {
        "cause": verdict.cause,
        "culprits": sorted(verdict.culprits),
        "rebalances": verdict.rebalances,
        "storm": verdict.is_storm,
    }
    for name, value in fields.items():
        expected = sorted(label[name]) if name == "culprits" else label[name]
        if value != expected:
            yield f"{name} is {expected}, not {value} ({verdict.cause}, {verdict.confidence})"
