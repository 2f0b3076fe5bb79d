"""Transcripts: the responses of one broker to a scenario, in a form that allows comparison.

Invariants:
- A scenario is a list of steps: requests on named connections, and pauses. A connection has one pending request at a
  time, as Kafka requires; `a'` is a second connection of the client `a`.
- Every request takes BEAT_MS, on a real and on a virtual clock, so that both reach a timer's deadline between the same
  steps. Scenarios keep deadlines at least a hundred milliseconds away from steps.
- `$a` in a request is the last member id that client `a` received, `$a#1` the first one.
- `@t` in a request or a response is the id of topic `t`; the id of no topic has a separate name.
- Generated parts of ids are renamed in order of appearance: `a-<1>` is client a's id with the first uuid.
- Lists that Kafka keeps in a hash map are sorted. All other lists are compared in their order.
- A response has the step during which it arrived, or None if it never arrived. Responses of one step have no order:
  they use different connections.
- Throttle times are omitted. ListGroups contains only the scenario's groups, whose ids begin with its name.
- Bytes are stored as text, one character for each byte.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

DIRECTORY: Final = Path(__file__).parent / "transcripts"
BEAT_MS: Final = 50
HOST: Final = "/127.0.0.1"
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REFERENCE: Final = re.compile(r"\$([a-z]+)(?:#(\d+))?")
_BYTES: Final = {"assignment", "member_metadata", "member_assignment"}
_LEARNED_FROM: Final = (0, 79)  # NONE, MEMBER_ID_REQUIRED

Fields = dict[str, Any]
TopicIds = Mapping[str, bytes]


@dataclass(frozen=True)
class Request:
    """One request on a connection; with `parks` the response may arrive after the next step."""

    on: str
    api: str
    version: int
    fields: Fields
    parks: bool = False


@dataclass(frozen=True)
class Pause:
    """A pause without requests."""

    ms: int


Step = Request | Pause


@dataclass(frozen=True)
class Scenario:
    """A sequence of steps to run against any broker, and the broker settings it needs."""

    name: str
    about: str
    settings: Mapping[str, int]
    steps: Sequence[Step]
    differences: "Mapping[int, Difference]"


@dataclass(frozen=True)
class Answered:
    """What a request was answered, and during which step the answer came."""

    during: int
    fields: Fields


@dataclass(frozen=True)
class Difference:
    """A step to which we answer otherwise than Kafka, on purpose: why, and what; None is no answer at all."""

    why: str
    ours: Answered | None


class Peer(Protocol):
    """Somebody who can be asked: a running Kafka, or our coordinator on a virtual clock."""

    def send(self, number: int, on: str, client_id: str, api: str, version: int, fields: Fields) -> None:
        """Send a request; its answer is known by the step's number."""

    def wait(self, ms: int, until_answered: int | None) -> dict[int, Fields]:
        """Let time pass, at least until this step is answered; the answers that came, by step."""


# --- playing --------------------------------------------------------------------------------------------------------


@dataclass
class Play:
    """One scenario under way: what the clients were told, and the names of the ids seen so far."""

    scenario: str
    told: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def resolve(self, value: Any) -> Any:
        """A request's fields with real ids for `$a`."""
        if isinstance(value, str):
            return _REFERENCE.sub(self._id, value)
        if isinstance(value, dict):
            return {key: self.resolve(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.resolve(one) for one in value]
        return value

    def _id(self, match: re.Match[str]) -> str:
        ids = self.told.get(match[1], [])
        place = int(match[2]) - 1 if match[2] else len(ids) - 1
        if not 0 <= place < len(ids):
            raise LookupError(f"{self.scenario}: {match[0]} is used before client {match[1]} was told so many ids")
        return ids[place]

    def learn(self, request: Request, answer: Fields) -> None:
        """Remember the id a client is told."""
        if request.api == "JoinGroup" and answer["error_code"] in _LEARNED_FROM:
            ids = self.told.setdefault(client_of(request.on), [])
            if answer["member_id"] not in ids:
                ids.append(answer["member_id"])

    def rename(self, answers: Mapping[int, Fields]) -> None:
        """Name the ids of answers that arrived together: first everybody's own, in the order of asking."""
        for number in sorted(answers):
            self._name(answers[number].get("member_id"))
        for number in sorted(answers):
            for text in _texts(answers[number]):
                self._name(text)

    def _name(self, text: object) -> None:
        if isinstance(text, str):
            for uuid in _UUID.findall(text):
                self.names.setdefault(uuid, f"<{len(self.names) + 1}>")

    def renamed(self, value: Any) -> Any:
        """The same with names for ids."""
        if isinstance(value, str):
            return _UUID.sub(lambda match: self.names.get(match[0], match[0]), value)
        if isinstance(value, bytes):
            return self.renamed(value.decode("latin-1"))
        if isinstance(value, Mapping):
            return {key: self.renamed(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.renamed(one) for one in value]
        return value

    def plain(self, request: Request, answer: Fields) -> Fields:
        """An answer in the form in which it is kept and compared."""
        fields: Fields = self.renamed({key: value for key, value in answer.items() if key != "throttle_time_ms"})
        if request.api == "JoinGroup":
            fields["members"].sort(key=lambda member: str(member["member_id"]))
        if request.api == "DescribeGroups":
            for group in fields["groups"]:
                group["members"].sort(key=lambda member: str(member["member_id"]))
        if request.api == "ListGroups":
            own = [group for group in fields["groups"] if is_own(self.scenario, group["group_id"])]
            fields["groups"] = sorted(own, key=lambda group: str(group["group_id"]))
        if request.api == "DeleteGroups":
            fields["results"].sort(key=lambda result: str(result["group_id"]))
        if request.api == "OffsetFetch":
            for one in fields.get("groups", [fields]):
                if _all_topics(request, one.get("group_id")):
                    one["topics"].sort(key=lambda topic: str(topic.get("name", topic.get("topic_id"))))
                    for topic in one["topics"]:
                        topic["partitions"].sort(key=lambda partition: int(partition["partition_index"]))
        return fields


def is_own(scenario: str, group_id: str) -> bool:
    """Whether a group belongs to a scenario."""
    return group_id == scenario or group_id.startswith(scenario + "/")


def client_of(connection: str) -> str:
    """The client a connection belongs to, which is also its client id."""
    return connection.rstrip("'")


def play(scenario: Scenario, peer: Peer) -> list[Answered | None]:
    """Play all steps; one entry for each, None for pauses and for requests never answered."""
    going = Play(scenario.name)
    answered: list[Answered | None] = [None] * len(scenario.steps)
    for number, step in enumerate(scenario.steps):
        must = None
        if isinstance(step, Request):
            fields = going.resolve(with_bytes(step.api, step.fields))
            peer.send(number, step.on, client_of(step.on), step.api, step.version, fields)
            must = None if step.parks else number
        came = peer.wait(BEAT_MS if isinstance(step, Request) else step.ms, must)
        going.rename(came)
        for at in sorted(came):
            request = scenario.steps[at]
            assert isinstance(request, Request)
            going.learn(request, came[at])
            answered[at] = Answered(number, going.plain(request, came[at]))
    return answered


def with_bytes(api: str, value: Any, name: str = "") -> Any:
    """A request's fields with bytes where the wire has bytes."""
    if isinstance(value, dict):
        return {key: with_bytes(api, one, key) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_bytes(api, one, name) for one in value]
    if isinstance(value, str) and (name in _BYTES or (name == "metadata" and api == "JoinGroup")):
        return value.encode("latin-1")
    return value


def with_topic_ids(value: Any, ids: TopicIds) -> Any:
    """A request's fields with the peer's ids for `@t`."""
    if isinstance(value, str) and value.startswith("@"):
        return ids.get(value[1:]) or value.encode().ljust(16)
    if isinstance(value, dict):
        return {key: with_topic_ids(one, ids) for key, one in value.items()}
    if isinstance(value, list):
        return [with_topic_ids(one, ids) for one in value]
    return value


def without_topic_ids(value: Any, ids: TopicIds, name: str = "") -> Any:
    """An answer's fields with `@t` for the peer's ids."""
    if isinstance(value, dict):
        return {key: without_topic_ids(one, ids, key) for key, one in value.items()}
    if isinstance(value, list):
        return [without_topic_ids(one, ids, name) for one in value]
    if name == "topic_id":
        return next((f"@{topic}" for topic, one in ids.items() if one == value), value.decode("latin-1").rstrip())
    return value


def _texts(value: Any) -> Iterator[object]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        # By the part of the id that is not generated, because the list itself may have no order.
        for one in sorted(value, key=lambda one: _UUID.sub("", str(one))):
            yield from _texts(one)
    else:
        yield value


def _all_topics(request: Request, group_id: str | None) -> bool:
    if "groups" not in request.fields:
        return request.fields.get("topics") is None
    return any(one["topics"] is None for one in request.fields["groups"] if one["group_id"] == group_id)


# --- files ----------------------------------------------------------------------------------------------------------


def to_json(scenario: Scenario, answered: Sequence[Answered | None]) -> str:
    """The transcript as text: one line for each step and each answer, so that changes read well."""
    lines = []
    for step, answer in zip(scenario.steps, answered, strict=True):
        if isinstance(step, Pause):
            lines.append(f'  {{"pause": {step.ms}}}')
            continue
        told = {"during": answer.during, "answer": answer.fields} if answer else {"during": None}
        asked = f'"on": {_line(step.on)}, "api": {_line(step.api)}, "version": {step.version}'
        lines.append(f'  {{{asked},\n   "fields": {_line(step.fields)},\n   {_line(told)[1:]}')
    head = {"name": scenario.name, "about": scenario.about, "settings": dict(scenario.settings)}
    return _line(head)[:-1] + ', "steps": [\n' + ",\n".join(lines) + "\n]}\n"


def read(name: str) -> tuple[dict[str, Any], list[Answered | None]]:
    """A stored transcript: everything in it, and the answers by step."""
    stored: dict[str, Any] = json.loads((DIRECTORY / f"{name}.json").read_text())
    answers = [
        None if step.get("during") is None else Answered(step["during"], step["answer"]) for step in stored["steps"]
    ]
    return stored, answers


def steps_of(stored: Mapping[str, Any]) -> list[Fields]:
    """What was asked in a stored transcript, to compare with the scenario."""
    return [{key: step[key] for key in step if key not in ("during", "answer")} for step in stored["steps"]]


def as_stored(step: Step) -> Fields:
    """What a step looks like in a stored transcript."""
    if isinstance(step, Pause):
        return {"pause": step.ms}
    fields: Fields = json.loads(_line(step.fields))
    return {"on": step.on, "api": step.api, "version": step.version, "fields": fields}


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)
