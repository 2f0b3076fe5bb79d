"""The consumer logs the Java client's lines and one line per event."""

import logging
import re

import pytest

from slackwater.group.errors import BrokerError
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.clusters import Side
from tests.client.helpers import consumer, poll_until, wait_for


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "slackwater.client.consumer.consumer"]


def in_order(results: list[str], patterns: list[str]) -> None:
    """Each pattern matches a line behind the one before."""
    at = 0
    for pattern in patterns:
        while at < len(results) and not re.fullmatch(pattern, results[at]):
            at += 1
        assert at < len(results), f"no line, in its place, is {pattern!r}; there are:\n" + "\n".join(results)


@pytest.mark.old_kafka
def test_join_and_leave_log_java_lines(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = side.topic(2), side.name("g")
    with caplog.at_level(logging.INFO, "slackwater.client"), consumer(side, group, client_id="c") as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
    p = rf"\[Consumer clientId=c, groupId={group}\] "
    both = f"{topic}-0, {topic}-1"
    generation = r"Generation\{generationId=1, memberId='c-[-0-9a-f]+', protocol='range'\}"
    in_order(
        lines(caplog),
        [
            p + r"Discovered group coordinator 127\.0\.0\.1:\d+ \(id: 2147483646 rack: null\)",
            p + r"\(Re-\)joining group",
            p + r"Request joining group due to: need to re-join with the given member-id: c-.+",
            p + r"\(Re-\)joining group",
            p + rf"Successfully joined group with generation {generation}",
            p + rf"Finished assignment for group at generation 1: \{{c-.+=Assignment\(partitions=\[{both}\]\)\}}",
            p + rf"Successfully synced group in generation {generation}",
            p + rf"Adding newly assigned partitions: {both}",
            p + rf"partitions_assigned: c-.+ of group {group} in generation 1: 2 partitions \[{both}\], the .+",
            p + rf"Revoke previously assigned partitions {both}",
            p + r"Member c-.+ sending LeaveGroup request to coordinator .+ due to the consumer is being closed",
            p + r"Resetting generation and member id due to: consumer pro-actively leaving the group",
            p + r"Request joining group due to: consumer pro-actively leaving the group",
        ],
    )


def test_poll_overrun_is_logged_with_its_duration(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = side.topic(), side.name("g")
    with (
        caplog.at_level(logging.INFO, "slackwater.client"),
        consumer(side, group, client_id="c", max_poll_interval_ms=1_000) as client,
    ):
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        wait_for(lambda: side.group_state(group) == "Empty")
        poll_until(client, lambda: "Lost previously" in caplog.text)
    results = lines(caplog)
    warning = next(line for line in results if "consumer poll timeout has expired. This means" in line)
    level = next(record.levelname for record in caplog.records if record.getMessage() == warning)
    assert level == "WARNING"
    in_order(
        results,
        [
            r".*\] consumer poll timeout has expired\. This means .*",
            r".*\] poll_overrun: c-.+ in generation 1: no poll for \d+ ms, max.poll.interval.ms is 1000; .+",
            r".*\] Member .+ due to consumer poll timeout has expired\.",
            rf".*\] Lost previously assigned partitions {topic}-0",
        ],
    )


@pytest.mark.old_kafka
def test_expired_member_rejoins(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = side.topic(), side.name("g")
    with (
        caplog.at_level(logging.INFO, "slackwater.client"),
        consumer(side, group, client_id="c", group_instance_id="i") as client,
    ):
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        side.evict(group, client)
        poll_until(client, lambda: "Lost previously" in caplog.text)
        poll_until(client, lambda: client.assignment)
    refused = "} and group instance id Optional[i] failed due to UNKNOWN_MEMBER_ID, resetting generation"
    assert any(line.endswith(refused) for line in lines(caplog))
    in_order(
        lines(caplog),
        [
            rf"\[Consumer instanceId=i, clientId=c, groupId={group}\] Attempt to heartbeat with Generation\{{gen.+=1.+",
            r".*\] Resetting generation and member id due to: encountered UNKNOWN_MEMBER_ID from HEARTBEAT response",
            rf".*\] Lost previously assigned partitions {topic}-0",
        ],
    )


def test_fatal_join_error_is_raised(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = side.topic(), side.name("g")
    with consumer(side, group, client_id="a", partition_assignment_strategy="range") as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        with (
            caplog.at_level(logging.INFO, "slackwater.client"),
            consumer(side, group, client_id="b", partition_assignment_strategy="roundrobin") as other,
        ):
            other.subscribe([topic])
            with pytest.raises(BrokerError, match="incompatible"):
                poll_until(other, lambda: other.assignment)
    message = (
        rf"[Consumer clientId=b, groupId={group}] JoinGroup failed due to fatal error: The group member's supported"
    )
    calls = [record.levelname for record in caplog.records if record.getMessage().startswith(message)]
    assert calls == ["ERROR"]


def test_coordinator_loss_emits_event(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.create_topic("t", 1)
    with caplog.at_level(logging.INFO, "slackwater.client"), consumer(kafka, "g", client_id="c") as client:
        client.subscribe(["t"])
        poll_until(client, lambda: client.assignment)
        kafka.drop("Heartbeat")
        poll_until(client, lambda: caplog.text.count("Discovered group coordinator") >= 2)
    in_order(
        lines(caplog),
        [
            r".*\] Group coordinator .+ is unavailable or invalid due to cause: null\. isDisconnected: true\..+",
            r".*\] Discovered group coordinator .+",
        ],
    )


def test_no_lines_are_rendered_below_info(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = side.topic(), side.name("g")
    with caplog.at_level(logging.ERROR, "slackwater.client"), consumer(side, group) as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment == {TopicPartition(topic, 0)})
    assert not lines(caplog)
