"""Apache Kafka's message classes, called in one JVM (`interop/java/MessageOracle.java`)."""

import base64
import json
import subprocess
from types import TracebackType
from typing import TypedDict

from slackwater.wire.schema import ARRAY, BYTES, RECORDS, STRUCT, UUID, FieldType, Layout, Message, Request, layout
from tests.java import java


class MessageOracleResponse(TypedDict, total=False):
    """One response line; bytes in hex."""

    headerVersion: int
    left: int
    header: dict[str, object]
    body: dict[str, object]
    bytes: str
    error: str


class MessageOracle:
    """A JVM that runs commands; use it in a `with`."""

    def __init__(self) -> None:
        self._jvm = subprocess.Popen(
            java("MessageOracle", "-XX:TieredStopAtLevel=1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def read(self, message: type[Message], version: int, data: bytes) -> MessageOracleResponse:
        """Decode a header and a body with Kafka."""
        return self._run(f"read {_direction(message)} {message.API.key} {version} {data.hex()}")

    def default(self, message: type[Message], version: int) -> MessageOracleResponse:
        """Return Kafka's message with default values."""
        return self._run(f"default {_direction(message)} {message.API.key} {version}")

    def rewrite(self, message: type[Message], version: int, other: int, data: bytes) -> MessageOracleResponse:
        """Decode a body in one version and encode it in another."""
        return self._run(f"rewrite {_direction(message)} {message.API.key} {version} {other} {data.hex()}")

    def _run(self, command: str) -> MessageOracleResponse:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write(command + "\n")
        self._jvm.stdin.flush()
        line = self._jvm.stdout.readline()
        if not line:
            raise RuntimeError(f"the oracle exited with code {self._jvm.wait()}")
        response: MessageOracleResponse = json.loads(line)
        return response

    def __enter__(self) -> "MessageOracle":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._jvm.communicate()


def kafka_json(message: Message, version: int) -> object:
    """Return the JSON of Kafka's converters: camel case, and only fields that are in this version and not default."""
    return _structure(layout(type(message), version), message)


def _structure(struct_layout: Layout, value: object) -> dict[str, object]:
    fields: dict[str, object] = {}
    for field in struct_layout.fields + struct_layout.tagged:
        field_value = getattr(value, field.name)
        if field.tag >= 0 and field_value == field.default_value():
            continue
        name = _camel(field.name)
        if field.field_type.kind is RECORDS and field_value is not None:
            fields[name + "SizeInBytes"] = len(field_value)
        else:
            fields[name] = _value(field.field_type, field_value)
    return fields


def _value(field_type: FieldType, value: object) -> object:
    if value is None:
        return None
    if field_type.kind is ARRAY:
        assert isinstance(value, list)
        return [_value(field_type.element_type, item) for item in value]
    if field_type.kind is STRUCT:
        return _structure(field_type.struct_layout, value)
    if field_type.kind is UUID:
        assert isinstance(value, bytes)
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if field_type.kind is BYTES:
        assert isinstance(value, bytes)
        return base64.b64encode(value).decode()
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _direction(message: type[Message]) -> str:
    return "request" if issubclass(message, Request) else "response"
