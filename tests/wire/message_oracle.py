"""Apache Kafka's own message classes, asked through one JVM (`interop/java/MessageOracle.java`)."""

import base64
import json
import subprocess
from types import TracebackType
from typing import TypedDict

from slackwater.wire.schema import ARRAY, BYTES, RECORDS, STRUCT, UUID, Layout, Message, Request, Shape, layout
from tests.java import java


class Answer(TypedDict, total=False):
    """One line back; bytes in hex."""

    headerVersion: int
    left: int
    header: dict[str, object]
    body: dict[str, object]
    bytes: str
    error: str


class MessageOracle:
    """A JVM that answers questions; use it in a `with`."""

    def __init__(self) -> None:
        self._jvm = subprocess.Popen(
            java("MessageOracle", "-XX:TieredStopAtLevel=1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def read(self, message: type[Message], version: int, data: bytes) -> Answer:
        """What Kafka makes of a header and a body."""
        return self._ask(f"read {_direction(message)} {message.API.key} {version} {data.hex()}")

    def default(self, message: type[Message], version: int) -> Answer:
        """Kafka's own message with nothing set."""
        return self._ask(f"default {_direction(message)} {message.API.key} {version}")

    def rewrite(self, message: type[Message], version: int, other: int, data: bytes) -> Answer:
        """A body read in one version and written in another."""
        return self._ask(f"rewrite {_direction(message)} {message.API.key} {version} {other} {data.hex()}")

    def _ask(self, question: str) -> Answer:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write(question + "\n")
        self._jvm.stdin.flush()
        line = self._jvm.stdout.readline()
        if not line:
            raise RuntimeError(f"the oracle ended with exit code {self._jvm.wait()}")
        answer: Answer = json.loads(line)
        return answer

    def __enter__(self) -> "MessageOracle":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._jvm.communicate()


def kafka_json(message: Message, version: int) -> object:
    """The message as Kafka's own converters show it: camel case, and only what this version has and says."""
    return _structure(layout(type(message), version), message)


def _structure(plan: Layout, value: object) -> dict[str, object]:
    shown: dict[str, object] = {}
    for slot in plan.slots + plan.tagged:
        seen = getattr(value, slot.name)
        if slot.tag >= 0 and seen == slot.default_value():
            continue
        name = _camel(slot.name)
        if slot.shape.kind is RECORDS and seen is not None:
            shown[name + "SizeInBytes"] = len(seen)
        else:
            shown[name] = _value(slot.shape, seen)
    return shown


def _value(shape: Shape, value: object) -> object:
    if value is None:
        return None
    if shape.kind is ARRAY:
        assert isinstance(value, list)
        return [_value(shape.of, each) for each in value]
    if shape.kind is STRUCT:
        return _structure(shape.struct, value)
    if shape.kind is UUID:
        assert isinstance(value, bytes)
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if shape.kind is BYTES:
        assert isinstance(value, bytes)
        return base64.b64encode(value).decode()
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _direction(message: type[Message]) -> str:
    return "request" if issubclass(message, Request) else "response"
