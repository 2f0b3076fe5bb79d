"""An incident of the corpus as rows of the event table, read without Spark.

Invariants:
- This reader and Spark's use the same templates and columns; their rows are equal in all fields that rules use.
- Names that a line lacks are filled in from the rest of the file, then from the clients that the broker's log names.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from slackwater.doctor.events.rows import Row, read_row
from slackwater.doctor.events.table import DETAIL, FLAG, LIST, LONG, OtherEventKind
from slackwater.doctor.templates.reasons import CLIENT_REASONS, REASONS
from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import TemplateSet
from slackwater.group.assignors.consumer_protocol import decode_assignment, decode_subscription
from slackwater.group.events import EventKind, EventSource
from slackwater.wire.fields import FieldReader
from slackwater.wire.internal_topics.consumer_offsets import GroupKey, decode_group_value, decode_key
from tests.incidents import incidents_directory

CORPUS: Final = incidents_directory()
Damage = Callable[[list[str]], list[str]]
_TIMESTAMPS: Final = (
    re.compile(r"^\[?(?P<day>\d{4}[-/]\d\d[-/]\d\d)[ T](?P<time>\d\d:\d\d:\d\d)[,.](?P<part>\d{3})"),
    re.compile(r"^\[sarama\] (?P<day>\d{4}/\d\d/\d\d) (?P<time>\d\d:\d\d:\d\d)[,.](?P<part>\d{3})"),
    re.compile(r'"timestamp":"(?P<day>\d{4}-\d\d-\d\d)T(?P<time>\d\d:\d\d:\d\d)\.(?P<part>\d{3})Z"'),
)
_EPOCH: Final = re.compile(r"^%\d\|(?P<seconds>\d+)\.(?P<part>\d{3})\|")
_ID: Final = re.compile(r"^(?P<prefix>.+)-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$")
_COLUMNS: Final = frozenset(
    {"group", "trigger", "generation", "state_before", "member", "instance", "client", "host", "assignor", "members"}
)
_NONE: Final = frozenset({"None", "null", "Optional.empty", "", "(not-set)"})


@cache
def _lines() -> TemplateSet:
    return TemplateSet(FAMILIES)


@cache
def _reasons() -> TemplateSet:
    return TemplateSet((REASONS,))


def truth(incident: str) -> dict[str, Any]:
    """An incident's label."""
    label: dict[str, Any] = json.loads((CORPUS / incident / "truth.json").read_text())
    return label


def incidents() -> list[str]:
    """The names of all incidents."""
    return sorted(path.name for path in CORPUS.iterdir() if (path / "truth.json").exists())


def read_incident(
    incident: str, sources: Iterable[str] = ("broker", "clients", "offsets"), damage: Damage | None = None
) -> list[Row]:
    """An incident's rows, from some of its files; `damage` returns the lines that are left of a file."""
    folder, selected = CORPUS / incident, set(sources)
    rows: list[dict[str, Any]] = []
    if "broker" in selected:
        rows += _file_rows(folder / "broker.log", damage)
    if "clients" in selected:
        for path in sorted((folder / "clients").iterdir()):
            rows += _fill_names(_file_rows(path, damage))
    if "offsets" in selected:
        rows += _records(folder / "consumer_offsets.jsonl", damage)
    return [read_row(row | {"cluster": incident}) for row in _fill_groups(rows)]


def read_log(name: str, lines: Iterable[str]) -> list[Row]:
    """The rows of one log."""
    return [read_row(row) for row in _line_rows(name, lines)]


def _file_rows(path: Path, damage: Damage | None = None) -> list[dict[str, Any]]:
    return _line_rows(path.name, _lines_of(path, damage))


def _lines_of(path: Path, damage: Damage | None) -> list[str]:
    lines = path.read_text(errors="replace").splitlines()
    return lines if damage is None else damage(lines)


def _line_rows(name: str, lines: Iterable[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    time_ms = 0
    for position, line in enumerate(lines, start=1):
        time_ms = _timestamp_ms(line) or time_ms
        values = _lines().read(line)
        if values and values.get("kind"):
            rows += _rows(values, time_ms, f"{name}:{position}", line)
    return rows


def _timestamp_ms(line: str) -> int | None:
    if match := _EPOCH.match(line):
        return int(match["seconds"]) * 1000 + int(match["part"])
    for pattern in _TIMESTAMPS:
        if match := pattern.search(line[:200]):
            text = f"{match['day'].replace('/', '-')}T{match['time']}.{match['part']}"
            return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    return None


def _rows(values: dict[str, str], time_ms: int, evidence: str, line: str) -> Iterator[dict[str, Any]]:
    if values["kind"] == EventKind.REBALANCE_STARTED and values.get("reason"):
        reason = _reasons().read(values["reason"]) or {}
        values = values | {name: value for name, value in reason.items() if name in _REASON_FIELDS}
        for text, trigger in CLIENT_REASONS:
            if text in values.get("client_reason", ""):
                values["trigger"] = trigger
                break
    row: dict[str, Any] = {
        "time_ms": time_ms,
        "kind": values["kind"],
        "source": values["source"],
        "evidence": evidence,
        "text": line,
        "template": values["template"],
        "file": evidence.rpartition(":")[0],
        "position": int(evidence.rpartition(":")[2]),
    }
    for name in _COLUMNS:
        value = values.get(name)
        row[name] = int(value) if value and name in ("generation", "members") else _name(value)
    row["detail"] = {name: _typed(name, values[name]) for name in DETAIL if values.get(name)}
    if values.get("client_reason") and values["kind"] == EventKind.MEMBER_LEFT:
        row["detail"]["reason"] = values["client_reason"]
    if row["kind"] in (EventKind.MEMBER_DROPPED, EventKind.MEMBER_UNSYNCED) and row["member"] is None:
        for member in row["detail"].get("member_ids", ()):
            yield row | {"member": member}
        return
    yield row


_REASON_FIELDS: Final = frozenset({"trigger", "culprit", "member_ids", "client_reason", "instance"})


def _name(value: str | None) -> str | None:
    if value is None or value in _NONE:
        return None
    if match := re.fullmatch(r"(?:Some|Optional)[(\[](.*)[)\]]", value):
        return match[1]
    return value


def _typed(name: str, value: str) -> object:
    kind = DETAIL[name]
    if kind == LONG:
        return int(value)
    if kind == FLAG:
        return value == "true"
    if kind == LIST:
        if "TopicPartition(" in value:
            return [f"{topic}-{number}" for topic, number in re.findall(r"topic='([^']+)', partition=(\d+)", value)]
        inner = re.sub(r"^(?:frozenset|Set|List|HashSet)?[({\[]*|[)}\]]*$", "", value)
        return [item.strip(" '\"") for item in inner.split(",") if item.strip(" '\"")]
    return value


def _fill_names(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fill in client, group and instance from the rest of one client's file."""
    settings: dict[str, str] = {}
    for row in rows:
        if row["kind"] == OtherEventKind.CLIENT_SETTING:
            value = _name(row["detail"].get("value"))
            if value:
                settings.setdefault(row["detail"]["setting"], value)
    instances = {row["instance"] for row in rows if row["instance"]} or {settings.get("group.instance.id")} - {None}
    prefixes = {match["prefix"] for row in rows if row["member"] and (match := _ID.match(row["member"]))}
    clients = {row["client"] for row in rows if row["client"]} or (prefixes - instances)
    groups = {row["group"] for row in rows if row["group"]}
    client = settings.get("client.id") or (clients.pop() if len(clients) == 1 else None)
    group = settings.get("group.id") or (groups.pop() if len(groups) == 1 else None)
    instance = instances.pop() if len(instances) == 1 else None
    for row in rows:
        row["client"] = row["client"] or client
        row["group"] = row["group"] or group
        row["instance"] = row["instance"] or instance
    return rows


def _fill_groups(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fill in the group of a client that is a member of only one group."""
    groups: dict[str, set[str]] = {}
    for row in rows:
        client = row.get("client")
        if client is None and row.get("member") and (match := _ID.match(row["member"])):
            client = match["prefix"]
        if client and row.get("group"):
            groups.setdefault(client, set()).add(row["group"])
    members = {
        row[name]: row["group"] for row in rows for name in ("member", "instance") if row.get(name) and row.get("group")
    }
    for row in rows:
        if not row.get("group"):
            row["group"] = members.get(row.get("member") or "") or members.get(row.get("instance") or "")
        candidates = groups.get(row.get("client") or "", set())
        if not row.get("group") and len(candidates) == 1:
            row["group"] = next(iter(candidates))
    return rows


def _records(path: Path, damage: Damage | None = None) -> Iterator[dict[str, Any]]:
    for position, line in enumerate(_lines_of(path, damage), start=1):
        record = json.loads(line)
        if record["key"] is None:
            continue
        key = base64.b64decode(record["key"])
        value = None if record["value"] is None else base64.b64decode(record["value"])
        common = {
            "time_ms": record["timestamp"],
            "source": EventSource.OFFSETS_TOPIC,
            "evidence": f"__consumer_offsets-{record['partition']}@{record['offset']}",
            "text": f"{path.name}:{position}",
        }
        decoded = decode_key(key)
        if isinstance(decoded, GroupKey):
            yield from _generation(decoded.group, value, common)
        else:
            yield from _consumer_group(key, value, common)


def _generation(group: str, value: bytes | None, common: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if value is None:
        return
    decoded = decode_group_value(value)
    yield common | {
        "kind": EventKind.GENERATION_RECORDED,
        "group": group,
        "generation": decoded.generation,
        "members": len(decoded.members),
        "assignor": decoded.protocol,
        "detail": {
            "member_ids": [member.member_id for member in decoded.members],
            "leader": decoded.leader,
            "group_protocol": "classic",
        },
    }
    for member in decoded.members:
        yield common | {
            "kind": OtherEventKind.MEMBER_RECORDED,
            "group": group,
            "generation": decoded.generation,
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.client_host,
            "detail": {
                "session_timeout_ms": member.session_timeout_ms,
                "rebalance_timeout_ms": member.rebalance_timeout_ms,
                "topics": list(decode_subscription(member.subscription).topics) if member.subscription else [],
                "partitions": _partitions(member.assignment),
                "group_protocol": "classic",
            },
        }


def _partitions(assignment: bytes) -> list[str]:
    if not assignment:
        return []
    return [f"{topic}-{number}" for topic, number in decode_assignment(assignment).partitions]


def _consumer_group(key: bytes, value: bytes | None, common: dict[str, Any]) -> Iterator[dict[str, Any]]:
    reader = FieldReader(key, "key")
    version = reader.int16()
    if version not in (3, 5):
        return
    group = reader.string("group")
    if version == 3 and value is not None:
        body = FieldReader(value, "value")
        body.int16()
        yield common | {
            "kind": EventKind.GENERATION_RECORDED,
            "group": group,
            "generation": body.int32(),
            "detail": {"group_protocol": "consumer"},
        }
    if version == 5:
        member = reader.string("member")
        if value is None:
            yield common | {
                "kind": OtherEventKind.MEMBER_GONE,
                "group": group,
                "member": member,
                "detail": {"group_protocol": "consumer"},
            }
            return
        body = FieldReader(value, "value")
        body.int16()
        body.flexible = True
        instance, _rack = body.nullable_string("instance"), body.nullable_string("rack")
        client, host = body.string("client"), body.string("host")
        topics = [body.string("topic") for _ in range(body.array("topics"))]
        body.nullable_string("regex")
        yield common | {
            "kind": OtherEventKind.MEMBER_RECORDED,
            "group": group,
            "member": member,
            "instance": instance,
            "client": client,
            "host": host,
            "detail": {"topics": topics, "rebalance_timeout_ms": body.int32(), "group_protocol": "consumer"},
        }
