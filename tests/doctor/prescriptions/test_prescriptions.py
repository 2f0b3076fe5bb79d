"""Prescriptions: values from measurements, under the setting names of every library."""

from collections.abc import Mapping

import pytest

from slackwater.doctor.causes.rules import CAUSES
from slackwater.doctor.prescriptions.choice import choose_remedies
from slackwater.doctor.prescriptions.libraries import PROPERTIES, library_of
from slackwater.doctor.prescriptions.numbers import fewer_records, heartbeat, measured, round_up, seconds, with_margin
from slackwater.doctor.prescriptions.pasting import lines_to_paste, place_to_paste, settings_note
from slackwater.doctor.prescriptions.prescription import Prescription
from slackwater.doctor.prescriptions.remedies import ABOVE_THE_POLL_INTERVAL, REMEDIES
from slackwater.doctor.prescriptions.rendering import render

CLIENTS = (
    "java",
    "librdkafka",
    "kafka-python",
    "aiokafka",
    "sarama",
    "kafkajs",
    "franz-go",
    "kafka-go",
    "ruby-kafka",
)
LIBRARIES = (*CLIENTS, "brod", "slackwater", "spark")


def prescribe(
    cause: str, figures: Mapping[str, int], library: str | None = None, *, is_cooperative: bool = False
) -> tuple[Prescription, ...]:
    return render(choose_remedies(cause, figures, is_cooperative=is_cooperative), library, figures)


def test_poll_limit_is_above_the_longest_batch() -> None:
    prescriptions = prescribe("poll_delay", {"limit_ms": 300_000, "longest_ms": 400_000, "poll_records": 500})
    settings = {name: value for prescription in prescriptions for name, value in prescription.settings.items()}
    assert int(settings["max.poll.interval.ms"]) >= 600_000
    assert int(settings["max.poll.records"]) < 500 * 300 / 400


def test_prescription_has_settings_of_every_library() -> None:
    prescriptions = prescribe("session_expiry", {"session_ms": 10_000, "pause_ms": 22_000})
    first = prescriptions[0]
    assert set(first.properties) == set(LIBRARIES)
    assert first.properties["java"] == ("session.timeout.ms=40000", "heartbeat.interval.ms=13333")
    assert first.properties["kafka-python"] == ("session_timeout_ms=40000,", "heartbeat_interval_ms=13333,")


def test_price_has_the_numbers_of_the_group() -> None:
    prescriptions = prescribe("session_expiry", {"session_ms": 45_000, "pause_ms": 70_000})
    assert prescriptions[0].cost == "a crashed member is detected after 150 s instead of 45 s"


def test_price_without_a_change_is_not_printed() -> None:
    for figures in ({"session_ms": 45_000, "restart_ms": 5_000}, {"restart_ms": 5_000}):
        cost = prescribe("rolling_restart", figures)[0].cost
        assert cost.startswith("a member that closes no longer leaves")
        assert "detected" not in cost
    changed = prescribe("rolling_restart", {"session_ms": 10_000, "restart_ms": 30_000})[0]
    assert "instead of 10 s" in changed.cost


def test_limit_is_based_on_the_percentile_of_many_batches() -> None:
    few = prescribe("poll_delay", {"limit_ms": 300_000, "longest_ms": 900_000, "late_batches": 7})
    assert few[1].what == "raise max.poll.interval.ms above the longest of 7 late batches (15 min)"
    many = prescribe("poll_delay", {"limit_ms": 300_000, "longest_ms": 900_000, "late_batches": 240, "p99_ms": 400_000})
    assert many[1].what == "raise max.poll.interval.ms above the 99th percentile of 240 late batches (400 s)"
    assert many[1].settings == {"max.poll.interval.ms": "600000"}


def test_measured_times_are_rounded() -> None:
    assert [measured(value) for value in (731, 3_004, 12_345, 900_000, 7_239_000)] == [
        "0.7 s",
        "3.0 s",
        "12 s",
        "15 min",
        "121 min",
    ]


def test_unmeasured_values_are_left_out() -> None:
    prescriptions = prescribe("poll_delay", {})
    assert all(not prescription.settings for prescription in prescriptions)
    assert "measure it: the input does not show its duration" in prescriptions[0].what
    late = prescribe("poll_delay", {"limit_ms": 300_000, "longest_ms": 300_000})
    assert all(not prescription.settings and not prescription.percent for prescription in late)
    assert "shows only that it takes more than 300 s" in late[1].what
    find, raise_timeout = prescribe("session_expiry", {})
    assert find.what.startswith("find the pause")
    assert "the logs do not show the longest pause: measure it" in raise_timeout.what
    assert prescribe("session_expiry", {"pause_ms": 9_000})[0].settings["session.timeout.ms"]
    assert "the longest restart: measure it, then set session.timeout.ms)" in prescribe("rolling_restart", {})[0].what
    assert "{" not in "".join(prescription.what + prescription.cost for prescription in prescriptions)


def test_session_timeout_is_within_the_broker_limit() -> None:
    prescriptions = prescribe("session_expiry", {"session_ms": 45_000, "pause_ms": 7_200_000})
    assert prescriptions[0].settings["session.timeout.ms"] == "1800000"


def test_brokers_accept_the_session_timeout_by_default() -> None:
    settings = prescribe("session_expiry", {"session_ms": 1_000, "pause_ms": 1_300})[0].settings
    assert settings["session.timeout.ms"] == "6000"


@pytest.mark.parametrize("library", ["slackwater", "kafka-python"])
def test_text_has_the_names_of_python_libraries(library: str) -> None:
    figures = {"limit_ms": 4_000, "longest_ms": 8_000, "session_ms": 10_000, "pause_ms": 12_000}
    for cause in ("poll_delay", "session_expiry", "rolling_restart"):
        for item in prescribe(cause, figures, library):
            text = f"{item.what} {item.cost} {item.caution}"
            assert "max.poll" not in text
            assert " session.timeout.ms" not in text
    broker_setting = prescribe("session_expiry", figures, library)[0].caution
    assert any("group.max.session.timeout.ms" in text for text in broker_setting)


@pytest.mark.parametrize("library", ["kafkajs", "sarama", "franz-go"])
def test_library_without_poll_timer_is_not_told_to_poll(library: str) -> None:
    figures = {"limit_ms": 4_000, "longest_ms": 8_000}
    for item in prescribe("poll_delay", figures, library):
        assert "max.poll.interval.ms" not in f"{item.what} {item.cost} {item.caution}"
        assert "poll()" not in item.what


def test_unknown_session_timeout_is_not_lowered() -> None:
    settings = prescribe("rolling_restart", {"restart_ms": 1_000})[0].settings
    assert settings["session.timeout.ms"] == "45000"


def test_conflicting_remedies_have_a_caution() -> None:
    assert any(
        "rebalance timeout" in text for prescription in prescribe("poll_delay", {}) for text in prescription.caution
    )


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_every_cause_has_its_remedies(cause: str) -> None:
    assert cause in REMEDIES
    for prescription in prescribe(cause, {"limit_ms": 1000, "longest_ms": 2000, "session_ms": 1000, "pause_ms": 3000}):
        assert prescription.what
        assert prescription.cost


def test_every_client_setting_has_all_libraries() -> None:
    for name, lines in PROPERTIES.items():
        assert set(lines) in (set(LIBRARIES), {"broker"}), name


@pytest.mark.parametrize(("value", "rounded"), [(1001, 1500), (10_500, 15_000), (44_000, 45_000), (61_000, 75_000)])
def test_numbers_are_rounded_up(value: int, rounded: int) -> None:
    assert round_up(value) == rounded


def test_numbers() -> None:
    assert with_margin(None) is None
    assert with_margin(40_000) == 60_000
    assert heartbeat(45_000) == 15_000
    assert fewer_records(None, 1) is None
    assert fewer_records(10_000, 1_000_000) == 3
    assert [seconds(value) for value in (500, 45_000, 600_000)] == ["500 ms", "45 s", "10 min"]


COMMENTS = {"sarama": "//", "kafkajs": "//", "franz-go": "//", "kafka-go": "//", "brod": "%%"}


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_other_lines_are_comments(name: str) -> None:
    for library, text in PROPERTIES[name].items():
        for line in text.split("\n"):
            code = line.split("//")[0].split("#")[0]
            is_setting = any(mark in code for mark in ("=", ": ", "(", "{{"))
            assert line.startswith(COMMENTS.get(library, "#")) or is_setting, line


def test_cooperative_assignor_needs_two_deploys() -> None:
    properties = prescribe("scale_out", {})[0].properties
    first, second = (line for line in properties["java"] if not line.startswith("#"))
    assert "CooperativeStickyAssignor,org.apache.kafka.clients.consumer.RangeAssignor" in first
    assert second.endswith("=org.apache.kafka.clients.consumer.CooperativeStickyAssignor")
    assert "not supported" in confluent_kafka_error("cooperative-sticky,range")
    assert properties["librdkafka"] == (properties["librdkafka"][0], "partition.assignment.strategy=cooperative-sticky")
    assert "stop all" in properties["librdkafka"][0]


def confluent_kafka_error(strategy: str) -> str:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "partition.assignment.strategy": strategy}
    with pytest.raises(confluent_kafka.KafkaException) as error:
        confluent_kafka.Consumer(settings)
    return str(error.value)


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
        ("2026-11-15 INFO [Worker clientId=c, groupId=g] Rebalance started", "java"),
        ("2026-11-15 INFO AbstractCoordinator:505 - (Re-)joining group g", "java"),
        ("2026/11/15 19:25:20 error: kafka server: The provided member is not known", "sarama"),
        ('{"level":"warn","message":"join group failed","group":"g"}', "franz-go"),
        ("2026-11-15 10:00:00 entering loop for consumer group, g", "kafka-go"),
        ("I, [x] [[g] {}:] Joined group `g` with member id `m-1`", "ruby-kafka"),
        ("Group member (g,coor=#PID<0.1.0>,cb=#PID<0.2.0>,generation=7): re-joining group", "brod"),
        ("[WARNING] Heartbeat failed for group g because it is rebalancing", "kafka-python"),
        ("2026-11-15 19:19:37,116 INFO kafka.net.selector IO loop starting (client_id=c)", "kafka-python"),
        ("something else", None),
    ],
)
def test_library_is_recognised_by_its_lines(line: str, library: str | None) -> None:
    assert library_of([line, "a line of no library"]) == library


def test_several_libraries_give_no_library() -> None:
    assert library_of(["[Consumer clientId=a, groupId=g] x", "%4|1.741|MAXPOLL|a#consumer-1| [thrd:main]: x"]) is None
    assert library_of([], heartbeats_between_messages=True) == "kafkajs"


def test_start_in_one_rebalance_needs_nothing() -> None:
    single_rebalance = prescribe("startup_herd", {"spread_ms": 5_304, "rounds": 1})
    assert not single_rebalance[0].settings
    assert single_rebalance[0].what.startswith("nothing")
    several_rebalances = prescribe("startup_herd", {"spread_ms": 3_861, "rounds": 4})
    assert several_rebalances[0].settings == {"group.initial.rebalance.delay.ms": "6000"}


def test_unknown_poll_records_are_a_part_of_the_present_value() -> None:
    figures = {"limit_ms": 4_000, "longest_ms": 8_000}
    first = prescribe("poll_delay", figures)[0]
    assert ": 33 % of the present value (" in first.what
    assert first.settings == {"max.poll.records": "33 % of the present value"}
    assert first.percent == {"max.poll.records": 33}
    assert first.properties["java"] == ("max.poll.records=<33 % of the present value>",)
    assert prescribe("poll_delay", figures | {"poll_records": 100})[0].settings == {"max.poll.records": "33"}


def test_percentage_of_the_records_is_explained() -> None:
    first = prescribe("poll_delay", {"limit_ms": 5_000, "longest_ms": 6_779})[0]
    assert first.what.endswith("49 % of the present value (6.8 s must fit into 5 s with a third of it as a margin)")


def test_librdkafka_gets_no_setting_for_records_per_poll() -> None:
    for figures in ({}, {"limit_ms": 4_000, "longest_ms": 8_000}):
        first = prescribe("poll_delay", figures, "librdkafka")[0]
        assert first.what.startswith("handle fewer messages per consume() call, so that")
        assert first.what.count("with poll(), which returns one message at a time, only") == 1
        assert "measure it first" not in first.what
        assert lines_to_paste(first, "librdkafka") == ()


def test_unknown_library_gets_both_deploys_of_java() -> None:
    first = prescribe("scale_out", {}, None)[0]
    assert lines_to_paste(first, None) == first.properties["java"]
    assert "deploy" in lines_to_paste(first, None)[0]
    assert settings_note(None) == "the client library is not known; settings as for Java"


@pytest.mark.parametrize(
    ("cause", "place"),
    [
        ("poll_delay", "set in the configuration of every consumer of the group; then restart them"),
        ("startup_herd", "set in the configuration of every broker; then restart them"),
        ("kip848_session_expiry", "run on any machine that reaches the broker; no restart is needed"),
        ("instance_id_conflict", "set in the configuration of each process, with a value of its own; then restart it"),
        ("crash", ""),
    ],
)
def test_place_to_paste_is_named(cause: str, place: str) -> None:
    figures = {"limit_ms": 4_000, "longest_ms": 8_000, "spread_ms": 4_000, "pause_ms": 8_000, "session_ms": 4_000}
    assert place_to_paste(prescribe(cause, figures)[0]) == place


def test_one_record_per_poll_is_not_lowered() -> None:
    prescriptions = prescribe("poll_delay", {"limit_ms": 4_000, "longest_ms": 8_000, "poll_records": 1})
    assert not any("max.poll.records" in item.settings for item in prescriptions)
    assert prescriptions[0].order == 1


def test_cooperative_group_is_not_told_to_use_it() -> None:
    for cause in ("rolling_restart", "autoscaler_flapping", "scale_out", "eager_stop_the_world"):
        prescriptions = prescribe(cause, {}, is_cooperative=True)
        assert not any("partition.assignment.strategy" in item.settings for item in prescriptions)


def test_library_gets_nothing_that_it_cannot_do() -> None:
    figures = {"restart_ms": 5_000, "session_ms": 10_000}
    settings = {name for item in prescribe("rolling_restart", figures, "kafkajs") for name in item.settings}
    assert not settings & {"group.instance.id", "partition.assignment.strategy"}
    assert any(
        ABOVE_THE_POLL_INTERVAL.text in item.caution for item in prescribe("rolling_restart", figures, "librdkafka")
    )
    assert not any(
        ABOVE_THE_POLL_INTERVAL.text in item.caution for item in prescribe("rolling_restart", figures, "java")
    )


def test_own_consumer_without_the_setting_has_the_default() -> None:
    first = prescribe("poll_delay", {"limit_ms": 4_000, "longest_ms": 8_000}, "slackwater")[0]
    assert first.settings == {"max.poll.records": "165"}
    assert first.percent == {}
    assert "present value" not in first.what


def test_spark_member_gets_options_of_its_query() -> None:
    prescriptions = prescribe("poll_delay", {"limit_ms": 4_000, "longest_ms": 8_000}, "spark")
    assert '.option("maxOffsetsPerTrigger", <33 % of the present value>)' in prescriptions[0].properties["spark"]
    assert any(".trigger(" in line for line in prescriptions[0].properties["spark"])
    assert prescriptions[1].properties["spark"] == ('.option("kafka.max.poll.interval.ms", 15000)',)


def test_default_session_of_spark_is_not_lowered() -> None:
    first = prescribe("rolling_restart", {"restart_ms": 1_000}, "spark")[0]
    assert first.settings["session.timeout.ms"] == "120000"


def test_no_remedy_duplicates_an_instance_id() -> None:
    prescriptions = prescribe("static_restart_too_late", {"restart_ms": 4_416, "session_ms": 3_000})
    assert any("fence each other" in text for prescription in prescriptions for text in prescription.caution)
    assert not any("before the old prescription stops" in prescription.what for prescription in prescriptions)


def test_static_membership_names_its_cost() -> None:
    first = prescribe("rolling_restart", {"restart_ms": 10_843, "session_ms": 6_000})[0]
    assert first.cost.endswith("a crashed member is detected after 20 s instead of 6 s")
    assert prescribe("rolling_restart", {})[0].cost.endswith("a crashed member is detected later")


def test_remove_members_command_is_current() -> None:
    texts = [prescription.what for prescription in prescribe("stuck_rebalance", {})]
    assert any("slackwater groups remove-members" in text for text in texts)
    assert not any("--delete-members" in text for text in texts)


def test_own_consumer_is_recognized_by_its_logger() -> None:
    line = (
        "INFO [Consumer clientId=a, groupId=g] Revoke previously assigned partitions t-0 (slackwater.client.consumer)"
    )
    assert library_of([line]) == "slackwater"
    assert library_of([line.replace("slackwater.client", "org.apache.kafka.clients")]) == "java"


@pytest.mark.parametrize(
    ("library", "deploys"),
    [
        ("java", "so deploy twice (first both assignors, then this one alone)"),
        ("librdkafka", "so stop all members once"),
        (
            None,
            "so deploy twice (first both assignors, then this one alone) or, with librdkafka, stop all members once",
        ),
    ],
)
def test_change_of_the_assignor_is_that_of_the_library(library: str | None, deploys: str) -> None:
    (cooperative,) = prescribe("eager_stop_the_world", {}, library)
    assert cooperative.cost.endswith(deploys)


@pytest.mark.parametrize("library", ["kafka-python", "aiokafka", "slackwater"])
def test_lines_for_python_are_keyword_arguments(library: str) -> None:
    figures = {"limit_ms": 4_000, "longest_ms": 8_000, "session_ms": 3_000, "pause_ms": 5_000, "poll_records": 500}
    for cause in ("poll_delay", "session_expiry", "rolling_restart", "shared_group_id", "instance_id_conflict"):
        for item in prescribe(cause, figures):
            lines = [line for line in item.properties.get(library, ()) if "Assignor" not in line and "[" not in line]
            compile(f"dict({chr(10).join(lines)}\n)", "lines", "eval")


def test_seconds_are_rounded_up() -> None:
    lines = prescribe("session_expiry", {"session_ms": 3_000, "pause_ms": 4_500})[0].properties
    assert lines["java"] == ("session.timeout.ms=7500", "heartbeat.interval.ms=2500")
    assert lines["ruby-kafka"] == ("session_timeout: 8,", "heartbeat_interval: 3,")
    assert lines["brod"] == ("{session_timeout_seconds, 8},", "{heartbeat_rate_seconds, 3},")


def test_figures_of_another_finding_do_not_change_the_advice() -> None:
    figures = {"together_ms": 3_000, "rejoined_late": 1}
    assert prescribe("session_expiry", figures) == prescribe("session_expiry", {})
    assert prescribe("poll_delay", {"together_ms": 3_000})[0].what.startswith("find what all these members wait for")
