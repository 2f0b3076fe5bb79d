"""The consumer's log is the Java client's, and a line more."""

import logging
import re

import pytest

from slackwater.group.topic_partition import TopicPartition
from slackwater.testing.kafka import Kafka
from tests.client.room import consumer, poll_until, wait_for

pytestmark = pytest.mark.kafka(settings={"group.min.session.timeout.ms": 100})


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "slackwater.client.consumer"]


def in_order(found: list[str], patterns: list[str]) -> None:
    """Each pattern matches a line behind the one before."""
    at = 0
    for pattern in patterns:
        while at < len(found) and not re.fullmatch(pattern, found[at]):
            at += 1
        assert at < len(found), f"no line, in its place, is {pattern!r}; there are:\n" + "\n".join(found)


def test_a_member_that_joins_and_leaves_says_what_java_says(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.create_topic("t", 2)
    with caplog.at_level(logging.INFO, "slackwater.client"), consumer(kafka, "g", client_id="c") as one:
        one.subscribe(["t"])
        poll_until(one, lambda: one.assignment)
    p = r"\[Consumer clientId=c, groupId=g\] "
    generation = r"Generation\{generationId=1, memberId='c-[-0-9a-f]+', protocol='range'\}"
    in_order(
        lines(caplog),
        [
            p + r"Discovered group coordinator 127\.0\.0\.1:\d+ \(id: 2147483646 rack: null\)",
            p + r"\(Re-\)joining group",
            p + r"Request joining group due to: need to re-join with the given member-id: c-.+",
            p + r"\(Re-\)joining group",
            p + rf"Successfully joined group with generation {generation}",
            p + r"Finished assignment for group at generation 1: \{c-.+=Assignment\(partitions=\[t-0, t-1\]\)\}",
            p + rf"Successfully synced group in generation {generation}",
            p + r"Adding newly assigned partitions: t-0, t-1",
            p + r"partitions_assigned: c-.+ of group g in generation 1: 2 partitions \[t-0, t-1\], the .+",
            p + r"Revoke previously assigned partitions t-0, t-1",
            p + r"Member c-.+ sending LeaveGroup request to coordinator .+ due to the consumer is being closed",
            p + r"Resetting generation and member id due to: consumer pro-actively leaving the group",
            p + r"Request joining group due to: consumer pro-actively leaving the group",
        ],
    )


def test_an_overrun_is_a_warning_and_the_next_line_says_by_how_much(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic("t", 1)
    with (
        caplog.at_level(logging.INFO, "slackwater.client"),
        consumer(kafka, "g", client_id="c", max_poll_interval_ms=100) as one,
    ):
        one.subscribe(["t"])
        poll_until(one, lambda: one.assignment)
        wait_for(lambda: kafka.describe_group("g").state == "Empty")
        poll_until(one, lambda: "Lost previously" in caplog.text)
    found = lines(caplog)
    warning = next(line for line in found if "consumer poll timeout has expired. This means" in line)
    level = next(record.levelname for record in caplog.records if record.getMessage() == warning)
    assert level == "WARNING"
    in_order(
        found,
        [
            r".*\] consumer poll timeout has expired\. This means .*",
            r".*\] poll_overrun: c-.+ in generation 1: no poll for \d+ ms, where .+ allows 100; .+",
            r".*\] Member .+ due to consumer poll timeout has expired\.",
            r".*\] Lost previously assigned partitions t-0",
        ],
    )


def test_an_expired_member_and_a_lost_coordinator_are_told(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.create_topic("t", 1)
    with (
        caplog.at_level(logging.INFO, "slackwater.client"),
        consumer(kafka, "g", client_id="c", group_instance_id="i") as one,
    ):
        one.subscribe(["t"])
        poll_until(one, lambda: one.assignment)
        kafka.expire_member("g", "i")
        poll_until(one, lambda: "Lost previously" in caplog.text)
        poll_until(one, lambda: one.assignment)
        kafka.drop("Heartbeat")
        poll_until(one, lambda: caplog.text.count("Discovered group coordinator") >= 2)
    refused = "} and group instance id Optional[i] failed due to UNKNOWN_MEMBER_ID, resetting generation"
    assert any(line.endswith(refused) for line in lines(caplog))
    in_order(
        lines(caplog),
        [
            r"\[Consumer instanceId=i, clientId=c, groupId=g\] Attempt to heartbeat with Generation\{generationId=1.+",
            r".*\] Resetting generation and member id due to: encountered UNKNOWN_MEMBER_ID from HEARTBEAT response",
            r".*\] Lost previously assigned partitions t-0",
            r".*\] Group coordinator .+ is unavailable or invalid due to cause: null\. isDisconnected: true\..+",
            r".*\] Discovered group coordinator .+",
        ],
    )


def test_without_info_nothing_is_rendered(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.create_topic("t", 1)
    with caplog.at_level(logging.ERROR, "slackwater.client"), consumer(kafka, "g") as one:
        one.subscribe(["t"])
        poll_until(one, lambda: one.assignment == {TopicPartition("t", 0)})
    assert not lines(caplog)
