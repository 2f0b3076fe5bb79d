"""The broker responds to every recorded scenario as Apache Kafka 4.3.1 did.

Invariants:
- Each step sends the bytes of a request to our broker in virtual time and reads the bytes of the response.
  `scripts/kafka_wire.py` encodes and decodes them, as for Kafka, so that an error in our codec is detected.
- Every field of every response is compared, and the step during which it arrived.
- For a deliberate difference the scenario gives the reason and our response. A difference that no longer exists fails.
- A transcript whose steps differ from its scenario fails: record it again (`scripts/record_transcripts.py`).
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
from scripts.kafka_wire import decode_response, encode_request

from tests.broker.quiet_broker import QuietBroker, QuietClient

from .scenarios import TOPICS
from .transaction_log_scenarios import SCENARIOS, STATE_PARTITIONS
from .transcripts import (
    DIRECTORY,
    Fields,
    Request,
    Scenario,
    StepResponse,
    as_stored,
    read,
    run_scenario,
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

    def wait(self, ms: int, until_step: int | None) -> dict[int, Fields]:
        """Advance virtual time and return the responses so far."""
        self._broker.pass_ms(ms)
        responses: dict[int, Fields] = {}
        for number, (client, api, version) in list(self._waiting.items()):
            for frame in client.frames():
                correlation_id, fields = decode_response(api, version, frame)
                assert correlation_id == number
                responses[number] = without_topic_ids(fields, self._ids)
                del self._waiting[number]
        return responses


def _expected(scenario: Scenario, recorded: list[StepResponse | None]) -> list[StepResponse | None]:
    expected = list(recorded)
    for number, difference in scenario.differences.items():
        assert expected[number] != difference.ours, f"step {number} no longer differs: {difference.reason}"
        expected[number] = difference.ours
    return expected


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Scenario], QuietBroker]]:
    """One broker for each combination of settings."""
    with ExitStack() as stack:

        @cache
        def with_settings(settings: frozenset[tuple[str, int]]) -> QuietBroker:
            broker = stack.enter_context(QuietBroker(tmp_path_factory.mktemp("broker"), dict(settings), **TOPICS))
            if STATE_PARTITIONS in dict(settings):
                broker.broker.create_transactions_topic()
                broker.broker.producer_ids.allocate()  # 0: responses have it also for "no producer"
            return broker

        yield lambda scenario: with_settings(frozenset(scenario.settings.items()))


def _param(scenario: Scenario) -> Any:
    facts = re.findall(r"TX-\d\d", scenario.about)
    return pytest.param(scenario, id=scenario.name, marks=pytest.mark.proves(*facts) if facts else ())


@pytest.mark.parametrize("scenario", [_param(scenario) for scenario in SCENARIOS])
def test_broker_responses_equal_kafka_transcript(
    scenario: Scenario, brokers: Callable[[Scenario], QuietBroker]
) -> None:
    stored, recorded = read(scenario.name)
    assert steps_of(stored) == [as_stored(step) for step in scenario.steps], "record this scenario again"
    assert stored["settings"] == scenario.settings, "record this scenario again"
    ours = run_scenario(scenario, BrokerPeer(brokers(scenario)))
    for number, (actual, expected) in enumerate(zip(ours, _expected(scenario, recorded), strict=True)):
        step = scenario.steps[number]
        if isinstance(step, Request):
            assert actual == expected, f"step {number}, {step.api} v{step.version} on {step.on}"


def test_scenarios_and_transcript_files_match() -> None:
    assert {path.stem for path in DIRECTORY.glob("*.json")} == {scenario.name for scenario in SCENARIOS}


def test_scenario_names_are_unique() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
