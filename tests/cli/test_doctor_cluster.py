"""`slackwater doctor --bootstrap` on a small cluster, in this process."""

import json
import time
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from slackwater import Broker, ConsumerGroupMetadata, OffsetAndMetadata, Producer, TopicPartition
from slackwater.cli import doctor_cluster
from slackwater.cli.app import app
from slackwater.cli.doctor import run_diagnosis
from slackwater.cli.doctor_cluster import read_cluster
from slackwater.doctor.diagnosis import DiagnosisRequest
from tests.client.helpers import consumer, poll_until

GROUP = "diagnosed"


@pytest.fixture(scope="module")
def group(broker: Broker) -> str:
    """A group that has formed two generations."""
    for _ in range(2):
        with consumer(broker, GROUP) as member:
            member.subscribe(["payments"])
            poll_until(member, lambda member=member: member.assignment)  # type: ignore[misc]
    return GROUP


def _doctor(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert result.exit_code in (0, 1, 2), result.stderr
    return result.exit_code, result.stdout


def test_small_cluster_is_diagnosed_without_spark(broker: Broker, group: str) -> None:
    _, out = _doctor("--bootstrap", broker.bootstrap_servers, "--json", "--group", group)
    ((cluster, groups),) = json.loads(out)["clusters"].items()
    assert cluster != broker.bootstrap_servers
    assert groups["groups"][group]["rebalances"] >= 2
    assert set(groups["groups"][group]["sources"]) >= {"coordinator", "offsets_topic"}


def test_topic_that_matches_a_pattern_is_the_cause(broker: Broker) -> None:
    group = "patterns"
    with consumer(broker, group, metadata_max_age_ms=100) as member:
        member.subscribe(pattern="pattern-.*")
        broker.create_topic("pattern-old", 1)
        poll_until(member, lambda: ("pattern-old", 0) in member.assignment)
        started_ms = broker.events(group)[-1].time_ms
        poll_until(member, lambda: time.time() * 1000 > started_ms + 3_500)  # the start of a group takes 3 s
        broker.create_topic("pattern-new", 1)
        poll_until(member, lambda: ("pattern-new", 0) in member.assignment)
    _, out = _doctor("--bootstrap", broker.bootstrap_servers, "--json", "--group", group)
    ((_, groups),) = json.loads(out)["clusters"].items()
    verdict = groups["groups"][group]
    assert (verdict["cause"], verdict["culprits"]) == ("new_topic_matched", ["pattern-new"])


def test_offsets_of_aborted_transactions_are_no_commits(broker: Broker) -> None:
    group, partition = "copier", TopicPartition("payments", 0)
    with Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": group}) as producer:
        producer.init_transactions()
        for offset, is_committed in ((5, True), (90, False), (7, True)):
            producer.begin_transaction()
            producer.send_offsets_to_transaction({partition: OffsetAndMetadata(offset)}, ConsumerGroupMetadata(group))
            (producer.commit_transaction if is_committed else producer.abort_transaction)()
    rows = read_cluster(DiagnosisRequest(bootstrap=broker.bootstrap_servers))
    assert rows is not None
    details = [json.loads(row["detail"]) for row in rows if row["group"] == group and row["kind"] == "progress"]
    assert sum(detail["offsets_advanced"] for detail in details) == 2


def test_large_cluster_is_left_to_spark(broker: Broker, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[object] = []
    record: Callable[..., None] = lambda *arguments: reasons.append(arguments[-1])  # noqa: E731
    monkeypatch.setattr(doctor_cluster, "MAX_RECORDS", 1)
    monkeypatch.setattr("slackwater.cli.doctor.diagnose_on_spark", record)
    run_diagnosis(DiagnosisRequest(bootstrap=broker.bootstrap_servers), None, {})
    assert reasons == [f"the cluster at {broker.bootstrap_servers} has many records"]
