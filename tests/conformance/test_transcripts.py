"""The broker responds to every recorded scenario as Apache Kafka 4.3.1 did.

Rules kept here
- Each step is the bytes of a request on a connection of our broker, in virtual time; what comes back is bytes. They are
  written and read by `scripts/kafka_wire.py`, as they were for Kafka, so that a mistake of our codec cannot hide.
- Every field of every answer is compared, and the step during which it came.
- Where we differ on purpose, the scenario says for that step why, and what we answer; a difference that is no longer
  one fails as well.
- A transcript that does not belong to its scenario any more fails: record it anew (`scripts/record_transcripts.py`).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from scripts.kafka_wire import decode_response, encode_request

from tests.broker.quiet_broker import QuietBroker, QuietClient

from .scenarios import SCENARIOS, TOPICS
from .transcripts import (
    DIRECTORY,
    Answered,
    Fields,
    Request,
    Scenario,
    as_stored,
    play,
    read,
    steps_of,
    with_topic_ids,
    without_topic_ids,
)


class BrokerPeer:
    """The broker, in virtual time."""

    def __init__(self, broker: QuietBroker) -> None:
        self._broker = broker
        self._ids = {topic.name: topic.topic_id for topic in broker.broker.topics}
        self._clients: dict[str, QuietClient] = {}
        self._waiting: dict[int, tuple[QuietClient, str, int]] = {}

    def send(self, number: int, on: str, client_id: str, api: str, version: int, fields: Fields) -> None:
        """Send a request; the step number identifies its response."""
        client = self._clients.get(on)
        if client is None:
            client = self._clients[on] = self._broker.connect(client_id)
        self._waiting[number] = (client, api, version)
        client.send_bytes(encode_request(api, version, number, client_id, with_topic_ids(fields, self._ids)))

    def wait(self, ms: int, until_answered: int | None) -> dict[int, Fields]:
        """Advance virtual time and return the responses so far."""
        self._broker.pass_ms(ms)
        answers: dict[int, Fields] = {}
        for number, (client, api, version) in list(self._waiting.items()):
            for frame in client.frames():
                found, fields = decode_response(api, version, frame)
                assert found == number
                answers[number] = without_topic_ids(fields, self._ids)
                del self._waiting[number]
        return answers


def _expected(scenario: Scenario, recorded: list[Answered | None]) -> list[Answered | None]:
    expected = list(recorded)
    for number, difference in scenario.differences.items():
        assert expected[number] != difference.ours, f"step {number} does not differ any more: {difference.why}"
        expected[number] = difference.ours
    return expected


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Scenario], QuietBroker]]:
    """One broker for each combination of settings."""
    with ExitStack() as stack:

        @cache
        def with_settings(settings: frozenset[tuple[str, int]]) -> QuietBroker:
            return stack.enter_context(QuietBroker(tmp_path_factory.mktemp("broker"), dict(settings), **TOPICS))

        yield lambda scenario: with_settings(frozenset(scenario.settings.items()))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_broker_responses_equal_kafka_transcript(
    scenario: Scenario, brokers: Callable[[Scenario], QuietBroker]
) -> None:
    stored, recorded = read(scenario.name)
    assert steps_of(stored) == [as_stored(step) for step in scenario.steps], "record this scenario anew"
    assert stored["settings"] == scenario.settings, "record this scenario anew"
    ours = play(scenario, BrokerPeer(brokers(scenario)))
    for number, (mine, theirs) in enumerate(zip(ours, _expected(scenario, recorded), strict=True)):
        step = scenario.steps[number]
        if isinstance(step, Request):
            assert mine == theirs, f"step {number}, {step.api} v{step.version} on {step.on}"


def test_there_is_a_transcript_for_every_scenario_and_no_other() -> None:
    assert {path.stem for path in DIRECTORY.glob("*.json")} == {scenario.name for scenario in SCENARIOS}


def test_names_are_used_once() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
