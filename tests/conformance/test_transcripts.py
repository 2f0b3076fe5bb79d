"""Kafka is the referee: our coordinator answers every recorded scenario as Apache Kafka 4.3.1 answered it.

Rules kept here
- Each step goes through the API's handler file, in its version, to a coordinator on a virtual clock; writes succeed at
  once. Every field of every answer is compared, and the step during which it came.
- Where we differ on purpose, the scenario says for that step why, and what we answer; a difference that is no longer
  one fails as well.
- A transcript that does not belong to its scenario any more fails: record it anew (`scripts/record_transcripts.py`).
"""

from typing import Any
from uuid import UUID

import pytest

from slackwater.broker.handlers import (
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_fetch,
    sync_group,
)
from slackwater.group.messages import (
    DeleteGroups,
    DeleteGroupsResponse,
    OffsetDelete,
    OffsetDeleteResponse,
)

from .room import Call, Room
from .scenarios import SCENARIOS
from .transcripts import DIRECTORY, HOST, Answered, Fields, Request, Scenario, as_stored, play, read, steps_of

_HANDLERS: dict[str, Any] = {
    "DescribeGroups": describe_groups,
    "Heartbeat": heartbeat,
    "JoinGroup": join_group,
    "LeaveGroup": leave_group,
    "ListGroups": list_groups,
    "OffsetCommit": offset_commit,
    "OffsetFetch": offset_fetch,
    "SyncGroup": sync_group,
}


class CoordinatorPeer:
    """Our coordinator, behind its handlers, in virtual time."""

    def __init__(self, scenario: Scenario) -> None:
        self.room = Room(**{name.replace(".", "_"): value for name, value in scenario.settings.items()})
        self._uuids = 0
        self._waiting: dict[int, tuple[str, int, Call[Any]]] = {}

    def send(self, number: int, on: str, client_id: str, api: str, version: int, fields: Fields) -> None:
        """Ask the coordinator what the wire asks."""
        more: Fields = {}
        if api == "JoinGroup":
            self._uuids += 1
            more = {"client_id": client_id, "client_host": HOST, "uuid": str(UUID(int=self._uuids))}
        asked = _request(api, version, fields | more)
        self._waiting[number] = (api, version, self.room.ask(asked))

    def wait(self, ms: int, until_answered: int | None) -> dict[int, Fields]:
        """Let virtual time pass, and hand over what was answered until then."""
        self.room.pass_ms(ms)
        answers = {}
        for number, (api, version, call) in list(self._waiting.items()):
            if not call.parked:
                del self._waiting[number]
                answers[number] = _answer(api, version, call)
        return answers


def _request(api: str, version: int, fields: Fields) -> Any:
    # The two APIs without a handler file have no versions that differ in anything but encoding.
    if api == "DeleteGroups":
        return DeleteGroups(tuple(fields["groups_names"]))
    if api == "OffsetDelete":
        partitions = [
            (topic["name"], one["partition_index"]) for topic in fields["topics"] for one in topic["partitions"]
        ]
        return OffsetDelete(fields["group_id"], tuple(partitions))
    return _HANDLERS[api].request(version, **fields)


def _answer(api: str, version: int, call: Call[Any]) -> Fields:
    response = call.answer
    if isinstance(response, DeleteGroupsResponse):
        return {"results": [{"group_id": one.group_id, "error_code": int(one.error)} for one in response.groups]}
    if isinstance(response, OffsetDeleteResponse):
        topics: dict[str, list[Fields]] = {}
        for topic, partition, error in response.partitions:
            topics.setdefault(topic, []).append({"partition_index": partition, "error_code": int(error)})
        listed = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        return {"error_code": int(response.error), "topics": listed}
    answer: Fields
    if api == "OffsetFetch":
        answer = offset_fetch.answer(version, response, call.request)  # type: ignore[arg-type]
    else:
        answer = _HANDLERS[api].answer(version, response)
    return answer


def _expected(scenario: Scenario, recorded: list[Answered | None]) -> list[Answered | None]:
    expected = list(recorded)
    for number, difference in scenario.differences.items():
        assert expected[number] != difference.ours, f"step {number} does not differ any more: {difference.why}"
        expected[number] = difference.ours
    return expected


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_coordinator_answers_as_kafka_did(scenario: Scenario) -> None:
    stored, recorded = read(scenario.name)
    assert steps_of(stored) == [as_stored(step) for step in scenario.steps], "record this scenario anew"
    assert stored["settings"] == scenario.settings, "record this scenario anew"
    ours = play(scenario, CoordinatorPeer(scenario))
    for number, (mine, theirs) in enumerate(zip(ours, _expected(scenario, recorded), strict=True)):
        step = scenario.steps[number]
        if isinstance(step, Request):
            assert mine == theirs, f"step {number}, {step.api} v{step.version} on {step.on}"


def test_there_is_a_transcript_for_every_scenario_and_no_other() -> None:
    assert {path.stem for path in DIRECTORY.glob("*.json")} == {scenario.name for scenario in SCENARIOS}


def test_names_are_used_once() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
