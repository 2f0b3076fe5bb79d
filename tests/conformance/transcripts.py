"""Transcripts: the responses of one broker to a scenario, in a form that allows comparison.

Invariants:
- A scenario is a list of steps: requests on named connections, and pauses. A connection has one pending request at a
  time, as Kafka requires; `a'` is a second connection of the client `a`.
- Every request takes STEP_MS, on a real and on a virtual clock, so that both reach a timer's deadline between the same
  steps. Scenarios keep deadlines at least a hundred milliseconds away from steps.
- `$a` in a request is the last member id that client `a` received, `$a#1` the first one.
- `@t` in a request or a response is the id of topic `t`, and a fixed unknown id if topic `t` does not exist.
- Generated parts of ids are renamed in order of appearance: `a-<1>` is client a's id with the first uuid.
- `%a` in a request is the last producer id that client `a` received, `%a#1` the first one. In responses, producer ids
  are named in order of appearance, and the start of a transaction is `<time>`.
- Lists that Kafka keeps in a hash map are sorted. All other lists are compared in their order.
- A response has the step during which it arrived, or None if it never arrived. Responses of one step have no order:
  they use different connections.
- The records of a Produce request are the fields of one batch (`records_in_transcripts`), which may contain `%a`.
  Fetched records are stored as the fields of their batches. Times that a broker chose are `<time>`.
- Throttle times are omitted. ListGroups and ListTransactions contain only the scenario's groups and transactional
  ids, which begin with its name.
- Bytes are stored as text, one character for each byte.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from .records_in_transcripts import describe_batches, is_chosen_by_broker, with_records

DIRECTORY: Final = Path(__file__).parent / "transcripts"
STEP_MS: Final = 50
HOST: Final = "/127.0.0.1"
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REFERENCE: Final = re.compile(r"\$([a-z]+)(?:#(\d+))?")
_PRODUCER: Final = re.compile(r"%([a-z]+)(?:#(\d+))?")
_BYTES_FIELDS: Final = {"assignment", "member_metadata", "member_assignment"}
_TRANSACTION_APIS: Final = frozenset(
    {
        "InitProducerId",
        "AddPartitionsToTxn",
        "EndTxn",
        "DescribeTransactions",
        "ListTransactions",
        "Fetch",
        "ListOffsets",
        "WriteTxnMarkers",
        "DescribeProducers",
    }
)
_TIMES: Final = frozenset({"last_timestamp", "timestamp"})
_CODES_WITH_MEMBER_ID: Final = (0, 79)  # NONE, MEMBER_ID_REQUIRED

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
class StepResponse:
    """The response to a request, and the step during which it arrived."""

    during: int
    fields: Fields


@dataclass(frozen=True)
class Difference:
    """A step whose response differs from Kafka's on purpose: the reason and our response (None: no response)."""

    reason: str
    ours: StepResponse | None


class Peer(Protocol):
    """A broker that a scenario runs against: a running Kafka, or our broker on a virtual clock."""

    def send(self, number: int, on: str, client_id: str, api: str, version: int, fields: Fields) -> None:
        """Send a request; the step number identifies its response."""

    def wait(self, ms: int, until_step: int | None) -> dict[int, Fields]:
        """Wait `ms`, and longer until this step has its response; return the responses that arrived, by step."""


# --- running ----------------------------------------------------------------------------------------------------------


@dataclass
class ScenarioRun:
    """A running scenario: the member ids of each client, and the names of the generated ids so far."""

    scenario: str
    member_ids: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    producer_ids: dict[str, list[int]] = field(default_factory=dict)
    producer_names: dict[int, str] = field(default_factory=dict)

    def resolve(self, value: Any) -> Any:
        """Return the fields of a request with member ids in place of `$a`."""
        if isinstance(value, str):
            if (producer := _PRODUCER.fullmatch(value)) is not None:
                ids = self.producer_ids[producer[1]]
                return ids[int(producer[2]) - 1] if producer[2] else ids[-1]
            return _REFERENCE.sub(self._member_id, value)
        if isinstance(value, dict):
            return {key: self.resolve(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.resolve(item) for item in value]
        return value

    def _member_id(self, match: re.Match[str]) -> str:
        ids = self.member_ids.get(match[1], [])
        index = int(match[2]) - 1 if match[2] else len(ids) - 1
        if not 0 <= index < len(ids):
            raise LookupError(f"{self.scenario}: {match[0]} is used, but client {match[1]} has {len(ids)} member ids")
        return ids[index]

    def store_member_id(self, request: Request, response: Fields) -> None:
        """Store the member id that a client receives."""
        if request.api == "JoinGroup" and response["error_code"] in _CODES_WITH_MEMBER_ID:
            ids = self.member_ids.setdefault(client_of(request.on), [])
            if response["member_id"] not in ids:
                ids.append(response["member_id"])

    def store_producer_id(self, request: Request, response: Fields) -> None:
        """Store the producer id that a client receives."""
        if request.api in ("InitProducerId", "EndTxn") and response.get("producer_id", -1) >= 0:
            ids = self.producer_ids.setdefault(client_of(request.on), [])
            if response["producer_id"] not in ids:
                ids.append(response["producer_id"])

    def _without_producer_ids(self, value: Any, name: str = "") -> Any:
        """Return the fields of a response with names in place of producer ids and times."""
        if isinstance(value, dict):
            return {key: self._without_producer_ids(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self._without_producer_ids(item, name) for item in value]
        if name == "producer_id" and value > 0:
            return self.producer_names.setdefault(value, f"<producer {len(self.producer_names) + 1}>")
        if name == "transaction_start_time_ms" and value > 0:
            return "<time>"
        return "<time>" if name in _TIMES and is_chosen_by_broker(value) else value

    def name_ids(self, responses: Mapping[int, Fields]) -> None:
        """Name the ids of responses that arrived together: the members' own ids first, in the order of requests."""
        for number in sorted(responses):
            self._name(responses[number].get("member_id"))
        for number in sorted(responses):
            for text in _leaf_values(responses[number]):
                self._name(text)

    def _name(self, text: object) -> None:
        if isinstance(text, str):
            for uuid in _UUID.findall(text):
                self.names.setdefault(uuid, f"<{len(self.names) + 1}>")

    def renamed(self, value: Any) -> Any:
        """Return the value with names in place of generated ids."""
        if isinstance(value, str):
            return _UUID.sub(lambda match: self.names.get(match[0], match[0]), value)
        if isinstance(value, bytes):
            return self.renamed(value.decode("latin-1"))
        if isinstance(value, Mapping):
            return {key: self.renamed(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.renamed(item) for item in value]
        return value

    def normalized(self, request: Request, response: Fields) -> Fields:
        """Return a response in the form in which it is stored and compared."""
        fields: Fields = {key: value for key, value in response.items() if key != "throttle_time_ms"}
        fields = self.renamed(describe_batches(fields))
        if request.api == "JoinGroup":
            fields["members"].sort(key=lambda member: str(member["member_id"]))
        if request.api == "DescribeGroups":
            for group in fields["groups"]:
                group["members"].sort(key=lambda member: str(member["member_id"]))
        if request.api == "ListGroups":
            own = [group for group in fields["groups"] if is_own(self.scenario, group["group_id"])]
            fields["groups"] = sorted(own, key=lambda group: str(group["group_id"]))
        if request.api in _TRANSACTION_APIS:
            _sort_producers(request.api, fields)
            fields = self._without_producer_ids(fields)
            _sort_transactions(fields, self.scenario)
        if request.api == "DeleteGroups":
            fields["results"].sort(key=lambda result: str(result["group_id"]))
        if request.api == "OffsetFetch":
            for group in fields.get("groups", [fields]):
                if _fetches_all_topics(request, group.get("group_id")):
                    group["topics"].sort(key=lambda topic: str(topic.get("name", topic.get("topic_id"))))
                    for topic in group["topics"]:
                        topic["partitions"].sort(key=lambda partition: int(partition["partition_index"]))
        return fields


def _sort_producers(api: str, fields: Fields) -> None:
    if api == "WriteTxnMarkers":
        fields["markers"].sort(key=lambda marker: int(marker["producer_id"]))
        for marker in fields["markers"]:
            marker["topics"].sort(key=lambda topic: str(topic["name"]))
            for topic in marker["topics"]:
                topic["partitions"].sort(key=lambda row: int(row["partition_index"]))
    if api == "DescribeProducers":
        for topic in fields["topics"]:
            for row in topic["partitions"]:
                row["active_producers"].sort(key=lambda producer: int(producer["producer_id"]))


def _sort_transactions(fields: Fields, scenario: str) -> None:
    for row in fields.get("transaction_states", ()):
        for topic in row.get("topics", ()):
            topic["partitions"].sort()
        if "topics" in row:
            row["topics"].sort(key=lambda topic: str(topic["topic"]))
    if "unknown_state_filters" in fields:
        own = [row for row in fields["transaction_states"] if is_own(scenario, row["transactional_id"])]
        fields["transaction_states"] = sorted(own, key=lambda row: str(row["transactional_id"]))
    results = fields.get("results_by_transaction", [])
    results.sort(key=lambda result: str(result["transactional_id"]))
    for topics in [fields.get("results_by_topic_v3_and_below", []), *(result["topic_results"] for result in results)]:
        topics.sort(key=lambda topic: str(topic["name"]))
        for topic in topics:
            topic["results_by_partition"].sort(key=lambda row: int(row["partition_index"]))


def is_own(scenario: str, group_id: str) -> bool:
    """Return whether a group belongs to a scenario."""
    return group_id == scenario or group_id.startswith(scenario + "/")


def client_of(connection: str) -> str:
    """Return the client of a connection; it is also the client id."""
    return connection.rstrip("'")


def run_scenario(scenario: Scenario, peer: Peer) -> list[StepResponse | None]:
    """Run all steps; return one entry for each, None for pauses and for requests without a response."""
    run = ScenarioRun(scenario.name)
    responses: list[StepResponse | None] = [None] * len(scenario.steps)
    for number, step in enumerate(scenario.steps):
        until_step = None
        if isinstance(step, Request):
            fields = with_records(run.resolve(with_bytes(step.api, step.fields)))
            peer.send(number, step.on, client_of(step.on), step.api, step.version, fields)
            until_step = None if step.parks else number
        arrived = peer.wait(STEP_MS if isinstance(step, Request) else step.ms, until_step)
        run.name_ids(arrived)
        for request_number in sorted(arrived):
            request = scenario.steps[request_number]
            assert isinstance(request, Request)
            run.store_member_id(request, arrived[request_number])
            run.store_producer_id(request, arrived[request_number])
            responses[request_number] = StepResponse(number, run.normalized(request, arrived[request_number]))
    return responses


def with_bytes(api: str, value: Any, name: str = "") -> Any:
    """Return the fields of a request with bytes where the wire format has bytes."""
    if isinstance(value, dict):
        return {key: with_bytes(api, item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_bytes(api, item, name) for item in value]
    if isinstance(value, str) and (name in _BYTES_FIELDS or (name == "metadata" and api == "JoinGroup")):
        return value.encode("latin-1")
    return value


def with_topic_ids(value: Any, ids: TopicIds) -> Any:
    """Return the fields of a request with the peer's topic ids in place of `@t`."""
    if isinstance(value, str) and value.startswith("@"):
        return ids.get(value[1:]) or value.encode().ljust(16)
    if isinstance(value, dict):
        return {key: with_topic_ids(item, ids) for key, item in value.items()}
    if isinstance(value, list):
        return [with_topic_ids(item, ids) for item in value]
    return value


def without_topic_ids(value: Any, ids: TopicIds, name: str = "") -> Any:
    """Return the fields of a response with `@t` in place of the peer's topic ids."""
    if isinstance(value, dict):
        return {key: without_topic_ids(item, ids, key) for key, item in value.items()}
    if isinstance(value, list):
        return [without_topic_ids(item, ids, name) for item in value]
    if name == "topic_id":
        return next(
            (f"@{topic}" for topic, topic_id in ids.items() if topic_id == value), value.decode("latin-1").rstrip()
        )
    return value


def _leaf_values(value: Any) -> Iterator[object]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaf_values(item)
    elif isinstance(value, list):
        # Sorted without the generated parts of ids, because some of Kafka's lists have no order.
        for item in sorted(value, key=lambda item: _UUID.sub("", str(item))):
            yield from _leaf_values(item)
    else:
        yield value


def _fetches_all_topics(request: Request, group_id: str | None) -> bool:
    if "groups" not in request.fields:
        return request.fields.get("topics") is None
    return any(group["topics"] is None for group in request.fields["groups"] if group["group_id"] == group_id)


# --- files ------------------------------------------------------------------------------------------------------------


def to_json(scenario: Scenario, responses: Sequence[StepResponse | None]) -> str:
    """Return the transcript as text, with one line for each step and each response to keep diffs readable."""
    lines = []
    for step, response in zip(scenario.steps, responses, strict=True):
        if isinstance(step, Pause):
            lines.append(f'  {{"pause": {step.ms}}}')
            continue
        received = {"during": response.during, "answer": response.fields} if response else {"during": None}
        sent = f'"on": {_line(step.on)}, "api": {_line(step.api)}, "version": {step.version}'
        lines.append(f'  {{{sent},\n   "fields": {_line(step.fields)},\n   {_line(received)[1:]}')
    head = {"name": scenario.name, "about": scenario.about, "settings": dict(scenario.settings)}
    return _line(head)[:-1] + ', "steps": [\n' + ",\n".join(lines) + "\n]}\n"


def read(name: str) -> tuple[dict[str, Any], list[StepResponse | None]]:
    """Return a stored transcript: all its content, and the responses by step."""
    stored: dict[str, Any] = json.loads((DIRECTORY / f"{name}.json").read_text())
    responses = [
        None if step.get("during") is None else StepResponse(step["during"], step["answer"]) for step in stored["steps"]
    ]
    return stored, responses


def steps_of(stored: Mapping[str, Any]) -> list[Fields]:
    """Return the steps of a stored transcript without responses, to compare them with the scenario."""
    return [{key: step[key] for key in step if key not in ("during", "answer")} for step in stored["steps"]]


def as_stored(step: Step) -> Fields:
    """Return a step in the form of a stored transcript, without its response."""
    if isinstance(step, Pause):
        return {"pause": step.ms}
    fields: Fields = json.loads(_line(step.fields))
    return {"on": step.on, "api": step.api, "version": step.version, "fields": fields}


def same_recording(stored: str, recorded: str) -> bool:
    """Return whether two transcripts are equal; the description is not compared."""
    return _without_description(stored) == _without_description(recorded)


def _without_description(text: str) -> Fields:
    return {key: value for key, value in json.loads(text).items() if key != "about"}


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)
