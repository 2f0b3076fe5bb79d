"""Prescriptions: numbers from what was measured, in every library's words."""

import pytest

from slackwater.doctor.causes.rules import CAUSES
from slackwater.doctor.prescriptions import prescribe
from slackwater.doctor.prescriptions.libraries import PROPERTIES, library_of
from slackwater.doctor.prescriptions.numbers import fewer_records, heartbeat, round_up, seconds, with_margin
from slackwater.doctor.prescriptions.remedies import REMEDIES

LIBRARIES = ("java", "librdkafka", "kafka-python", "aiokafka", "sarama", "kafkajs", "slackwater")


def test_the_poll_limit_is_set_above_the_longest_batch() -> None:
    found = prescribe("poll_delay", {"limit_ms": 300_000, "longest_ms": 400_000, "poll_records": 500})
    settings = {name: value for one in found for name, value in one.settings.items()}
    assert int(settings["max.poll.interval.ms"]) >= 600_000
    assert int(settings["max.poll.records"]) < 500 * 300 / 400


def test_a_prescription_can_be_pasted_in_every_library() -> None:
    found = prescribe("session_expiry", {"session_ms": 10_000, "pause_ms": 22_000})
    first = found[0]
    assert set(first.properties) == set(LIBRARIES)
    assert first.properties["java"] == ("session.timeout.ms=40000", "heartbeat.interval.ms=13333")
    assert first.properties["kafka-python"] == ("session_timeout_ms=40000", "heartbeat_interval_ms=13333")


def test_price_has_the_numbers_of_the_group() -> None:
    found = prescribe("session_expiry", {"session_ms": 45_000, "pause_ms": 70_000})
    assert found[0].price == "a crashed member is detected after 150 s instead of 45 s"


def test_a_number_that_was_not_measured_is_not_made_up() -> None:
    found = prescribe("poll_delay", {})
    assert all(not one.settings for one in found)
    assert "measure it first" in found[0].what
    assert "{" not in "".join(one.what + one.price for one in found)


def test_no_session_is_longer_than_a_broker_allows() -> None:
    found = prescribe("session_expiry", {"session_ms": 45_000, "pause_ms": 7_200_000})
    assert found[0].settings["session.timeout.ms"] == "1800000"


def test_two_remedies_that_fight_say_so() -> None:
    assert any("rebalance timeout" in text for one in prescribe("poll_delay", {}) for text in one.caution)


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_every_cause_has_its_remedies(cause: str) -> None:
    assert cause in REMEDIES
    for one in prescribe(cause, {"limit_ms": 1000, "longest_ms": 2000, "session_ms": 1000, "pause_ms": 3000}):
        assert one.what
        assert one.price


def test_every_client_setting_has_all_libraries() -> None:
    for name, lines in PROPERTIES.items():
        assert set(lines) in (set(LIBRARIES), {"broker"}), name


@pytest.mark.parametrize(("value", "rounded"), [(1001, 1500), (10_500, 15_000), (44_000, 45_000), (61_000, 75_000)])
def test_numbers_are_rounded_up_to_what_people_write(value: int, rounded: int) -> None:
    assert round_up(value) == rounded


def test_numbers() -> None:
    assert with_margin(None) is None
    assert with_margin(40_000) == 60_000
    assert heartbeat(45_000) == 15_000
    assert fewer_records(None, 1) is None
    assert fewer_records(10_000, 1_000_000) == 3
    assert [seconds(value) for value in (500, 45_000, 600_000)] == ["500 ms", "45 s", "10 min"]


COMMENTS = {"sarama": "//", "kafkajs": "//"}


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_what_is_no_setting_is_a_comment(name: str) -> None:
    for library, text in PROPERTIES[name].items():
        for line in text.split("\n"):
            words = line.split("//")[0].split("#")[0]
            assert line.startswith(COMMENTS.get(library, "#")) or "=" in words or ": " in words or "(" in words, line


def test_the_cooperative_assignor_comes_in_two_deploys() -> None:
    found = prescribe("scale_out", {})[0].properties
    first, second = (line for line in found["java"] if not line.startswith("#"))
    assert "CooperativeStickyAssignor,org.apache.kafka.clients.consumer.RangeAssignor" in first
    assert second.endswith("=org.apache.kafka.clients.consumer.CooperativeStickyAssignor")
    both = confluent_kafka_refuses("cooperative-sticky,range")
    assert "not supported" in both
    assert found["librdkafka"] == (found["librdkafka"][0], "partition.assignment.strategy=cooperative-sticky")
    assert "stop all" in found["librdkafka"][0]


def confluent_kafka_refuses(strategy: str) -> str:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "partition.assignment.strategy": strategy}
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        confluent_kafka.Consumer(settings)
    return str(refused.value)


def test_kip848_session_is_set_on_the_broker() -> None:
    first = prescribe("kip848_session_expiry", {"session_ms": 45_000, "pause_ms": 30_000})[0]
    assert first.settings == {"consumer.session.timeout.ms": "45000"}
    assert first.properties["broker"][0].endswith("--add-config consumer.session.timeout.ms=45000")


@pytest.mark.parametrize(
    ("line", "library"),
    [
        (
            "[2026-11-15 19:16:07,440] WARN [Consumer clientId=o-1, groupId=o] consumer poll timeout has expired.",
            "java",
        ),
        ("%4|1794770162.741|MAXPOLL|o-1#consumer-1| [thrd:main]: Application maximum poll interval", "librdkafka"),
        ("2026-11-15 19:15:58,706 WARNING kafka.coordinator.base Consumer poll timeout has expired.", "kafka-python"),
        ("2026-11-15 19:15:58,706 INFO aiokafka.consumer.group_coordinator LeaveGroup request succeeded", "aiokafka"),
        ('{"level":"ERROR","logger":"kafkajs","message":"[Consumer] Crash"}', "kafkajs"),
        ("[sarama] 2026/11/15 19:25:20 client/coordinator coordinator for consumergroup g is #1", "sarama"),
        ("something else", None),
    ],
)
def test_a_library_is_known_by_the_lines_that_it_writes(line: str, library: str | None) -> None:
    assert library_of([line, "a line that tells nothing"]) == library


def test_no_library_is_named_where_members_have_several() -> None:
    assert library_of(["[Consumer clientId=a, groupId=g] x", "%4|1.741|MAXPOLL|a#consumer-1| [thrd:main]: x"]) is None
    assert library_of([], heartbeats_between_messages=True) == "kafkajs"


def test_start_in_one_rebalance_needs_nothing() -> None:
    covered = prescribe("startup_herd", {"spread_ms": 5_304, "rounds": 1})
    assert not covered[0].settings
    assert covered[0].what.startswith("nothing")
    late = prescribe("startup_herd", {"spread_ms": 3_861, "rounds": 4})
    assert late[0].settings == {"group.initial.rebalance.delay.ms": "6000"}


def test_default_poll_records_are_mentioned() -> None:
    figures = {"limit_ms": 4_000, "longest_ms": 8_000}
    assert (
        "computed from the default of 500; if yours differs, use 33% of it" in prescribe("poll_delay", figures)[0].what
    )
    assert "computed" not in prescribe("poll_delay", figures | {"poll_records": 100})[0].what


def test_no_remedy_duplicates_an_instance_id() -> None:
    found = prescribe("static_restart_too_late", {"restart_ms": 4_416, "session_ms": 3_000})
    assert any("fence each other" in text for one in found for text in one.caution)
    assert not any("before the old one stops" in one.what for one in found)


def test_static_membership_names_its_cost() -> None:
    first = prescribe("rolling_restart", {"restart_ms": 10_843, "session_ms": 6_000})[0]
    assert first.price.endswith("a crashed member is detected after 20 s instead of 6 s")
    assert prescribe("rolling_restart", {})[0].price.endswith("a crashed member is detected later")


def test_members_are_removed_with_a_command_that_exists() -> None:
    told = [one.what for one in prescribe("stuck_rebalance", {})]
    assert any("slackwater groups remove-members" in text for text in told)
    assert not any("--delete-members" in text for text in told)
