"""The consumer logs the Java client's lines and one line per event."""

import logging
import re

import pytest

from slackwater.group.errors import BrokerError
from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.clusters import ClusterUnderTest
from tests.client.helpers import consumer, poll_until, wait_for


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "slackwater.client.consumer.consumer"]


def assert_in_order(found_lines: list[str], patterns: list[str]) -> None:
    """Assert that the patterns match lines in this order."""
    position = 0
    for pattern in patterns:
        while position < len(found_lines) and not re.fullmatch(pattern, found_lines[position]):
            position += 1
        assert position < len(found_lines), f"no line in order matches {pattern!r}:\n" + "\n".join(found_lines)


@pytest.mark.old_kafka
def test_join_and_leave_log_java_lines(cluster: ClusterUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = cluster.topic(2), cluster.name("g")
    with caplog.at_level(logging.INFO, "slackwater.client"), consumer(cluster, group, client_id="c") as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
    p = rf"\[Consumer clientId=c, groupId={group}\] "
    both = f"{topic}-0, {topic}-1"
    generation = r"Generation\{generationId=1, memberId='c-[-0-9a-f]+', protocol='range'\}"
    assert_in_order(
        lines(caplog),
        [
            p + r"Starting the Slackwater consumer, version .+",
            p + r"Configured with client\.id = c",
            p + r"Configured with session\.timeout\.ms = \d+",
            p + rf"Subscribed to topic\(s\): {topic}",
            p + r"Discovered group coordinator 127\.0\.0\.1:\d+ \(id: 2147483646 rack: null\)",
            p + r"\(Re-\)joining group",
            p + r"Request joining group due to: need to re-join with the given member-id: c-.+",
            p + r"\(Re-\)joining group",
            p + rf"Successfully joined group with generation {generation}",
            p + rf"Finished assignment for group at generation 1: \{{c-.+=Assignment\(partitions=\[{both}\]\)\}}",
            p + rf"Successfully synced group in generation {generation}",
            p + rf"Adding newly assigned partitions: {both}",
            p + rf"Revoke previously assigned partitions {both}",
            p + r"Member c-.+ sending LeaveGroup request to coordinator .+ due to the consumer is being closed",
            p + r"Resetting generation and member id due to: consumer pro-actively leaving the group",
            p + r"Request joining group due to: consumer pro-actively leaving the group",
            p + r"The consumer is closed",
        ],
    )


def test_poll_overrun_is_logged_with_its_duration(cluster: ClusterUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    with (
        caplog.at_level(logging.INFO, "slackwater.client"),
        consumer(cluster, group, client_id="c", max_poll_interval_ms=1_000) as client,
    ):
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        wait_for(lambda: cluster.group_state(group) == "Empty")
        poll_until(client, lambda: "Lost previously" in caplog.text)
    found_lines = lines(caplog)
    warning = next(line for line in found_lines if "consumer poll timeout has expired. This means" in line)
    level = next(record.levelname for record in caplog.records if record.getMessage() == warning)
    assert level == "WARNING"
    assert_in_order(
        found_lines,
        [
            r".*\] consumer poll timeout has expired\. This means .*",
            r".*\] No poll\(\) for \d+ ms, \d+ ms longer than max\.poll\.interval\.ms = 1000\. .+",
            r".*\] Member .+ due to consumer poll timeout has expired\.",
            rf".*\] Lost previously assigned partitions {topic}-0",
        ],
    )


@pytest.mark.old_kafka
def test_expired_member_rejoins(cluster: ClusterUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    with (
        caplog.at_level(logging.INFO, "slackwater.client"),
        consumer(cluster, group, client_id="c", group_instance_id="i") as client,
    ):
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        cluster.evict(group, client)
        poll_until(client, lambda: "Lost previously" in caplog.text)
        poll_until(client, lambda: client.assignment)
    failure = "} and group instance id Optional[i] failed due to UNKNOWN_MEMBER_ID, resetting generation"
    assert any(line.endswith(failure) for line in lines(caplog))
    assert_in_order(
        lines(caplog),
        [
            rf"\[Consumer instanceId=i, clientId=c, groupId={group}\] Attempt to heartbeat with Generation\{{gen.+=1.+",
            r".*\] Resetting generation and member id due to: encountered UNKNOWN_MEMBER_ID from HEARTBEAT response",
            rf".*\] Lost previously assigned partitions {topic}-0",
        ],
    )


def test_fatal_join_error_is_raised(cluster: ClusterUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    with consumer(cluster, group, client_id="a", partition_assignment_strategy="range") as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment)
        with (
            caplog.at_level(logging.INFO, "slackwater.client"),
            consumer(cluster, group, client_id="b", partition_assignment_strategy="roundrobin") as other,
        ):
            other.subscribe([topic])
            with pytest.raises(BrokerError, match="incompatible"):
                poll_until(other, lambda: other.assignment)
    message = (
        rf"[Consumer clientId=b, groupId={group}] JoinGroup failed due to fatal error: The group member's supported"
    )
    levels = [record.levelname for record in caplog.records if record.getMessage().startswith(message)]
    assert levels == ["ERROR"]


def test_coordinator_loss_emits_event(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.create_topic("t", 1)
    with caplog.at_level(logging.INFO, "slackwater.client"), consumer(kafka, "g", client_id="c") as client:
        client.subscribe(["t"])
        poll_until(client, lambda: client.assignment)
        kafka.drop("Heartbeat")
        poll_until(client, lambda: caplog.text.count("Discovered group coordinator") >= 2)
    assert_in_order(
        lines(caplog),
        [
            r".*\] Group coordinator .+ is unavailable or invalid due to cause: null\. isDisconnected: true\..+",
            r".*\] Discovered group coordinator .+",
        ],
    )


def test_no_lines_are_rendered_below_info(cluster: ClusterUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = cluster.topic(), cluster.name("g")
    with caplog.at_level(logging.ERROR, "slackwater.client"), consumer(cluster, group) as client:
        client.subscribe([topic])
        poll_until(client, lambda: client.assignment == {TopicPartition(topic, 0)})
    assert not lines(caplog)
