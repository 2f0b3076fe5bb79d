"""Apache Kafka's own assignors, called through one JVM (`interop/java/AssignorOracle.java`)."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TypedDict

from slackwater.group.assignors import MemberSubscription, TopicInfo
from slackwater.group.assignors.consumer_protocol import encode_subscription
from tests.java import java


class Scenario(TypedDict, total=False):
    """One line to the oracle."""

    assignor: str
    repeat: int
    repeat_whole: int
    topics: dict[str, dict[str, object]]
    members: list[dict[str, str | None]]


class Answer(TypedDict, total=False):
    """One line back: bytes in hex, or times."""

    assignments: dict[str, str]
    subscriptions: dict[str, list[str]]
    error: str
    assign_ns: list[int]
    bytes_to_bytes_ns: list[int]


def scenario(
    assignor_name: str,
    cluster: Mapping[str, TopicInfo],
    members: Mapping[str, MemberSubscription],
    repeat: int = 0,
    repeat_whole: int = 0,
) -> Scenario:
    """The same question that `Assignor.assign` is asked, with the members listed by id."""
    return {
        "assignor": assignor_name,
        "repeat": repeat,
        "repeat_whole": repeat_whole,
        "topics": {
            name: {"partitions": info.partitions, "racks": [sorted(racks) for racks in info.racks or ()]}
            for name, info in cluster.items()
        },
        "members": [
            {
                "id": member_id,
                "instance": members[member_id].group_instance_id,
                "subscription": encode_subscription(members[member_id].subscription).hex(),
            }
            for member_id in sorted(members)
        ],
    }


class Oracle:
    """A JVM that answers scenarios; use it in a `with`."""

    def __init__(self) -> None:
        self._jvm = subprocess.Popen(
            java(
                "AssignorOracle",
                "-Dorg.apache.logging.log4j.level=OFF",
                "-Dorg.apache.logging.log4j.simplelog.StatusLogger.level=OFF",
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def ask(self, scenarios: Iterable[Scenario]) -> list[Answer]:
        """One answer per scenario."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        answers: list[Answer] = []
        for one in scenarios:
            self._jvm.stdin.write(json.dumps(one) + "\n")
            self._jvm.stdin.flush()
            line = self._jvm.stdout.readline()
            if not line:
                raise RuntimeError(f"the oracle ended with exit code {self._jvm.wait()}")
            answers.append(json.loads(line))
        return answers

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._jvm.communicate()
