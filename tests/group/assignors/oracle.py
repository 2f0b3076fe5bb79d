"""Apache Kafka's assignors, called in one JVM (`interop/java/AssignorOracle.java`)."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TypedDict

from slackwater.group.assignors import MemberSubscription, TopicInfo
from slackwater.group.assignors.consumer_protocol import encode_subscription
from tests.java import java


class Scenario(TypedDict, total=False):
    """One request line."""

    assignor: str
    repeat: int
    repeat_whole: int
    topics: dict[str, dict[str, object]]
    members: list[dict[str, str | None]]


class OracleResponse(TypedDict, total=False):
    """One response line: bytes in hex, or times."""

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
    """Return the arguments of `Assignor.assign` as a request, with the members sorted by id."""
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
    """A JVM that runs scenarios; use it in a `with`."""

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

    def run(self, scenarios: Iterable[Scenario]) -> list[OracleResponse]:
        """Return one response per scenario."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        responses: list[OracleResponse] = []
        for request in scenarios:
            self._jvm.stdin.write(json.dumps(request) + "\n")
            self._jvm.stdin.flush()
            line = self._jvm.stdout.readline()
            if not line:
                raise RuntimeError(f"the oracle exited with code {self._jvm.wait()}")
            responses.append(json.loads(line))
        return responses

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._jvm.communicate()
