"""The logs of our broker and consumer and their events give the same verdict."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from slackwater import Admin, Broker, Consumer
from slackwater.client.config import format_setting
from slackwater.doctor.causes.finding import SURE
from slackwater.doctor.diagnosis import DiagnosisRequest
from slackwater.doctor.events.rows import Row, row_of
from slackwater.doctor.history.files import list_local_files
from slackwater.doctor.local.job import diagnose
from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import TemplateSet
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import Verdict, diagnose_group
from slackwater.group.events import EventKind
from tests.client.helpers import consumer, fill, numbers, poll_until, wait_for
from tests.doctor.corpus import read_log

GROUP, TOPIC = "orders", "t"
POLL_MS = 700
TEMPLATES = TemplateSet(FAMILIES)


class LineCollector(logging.Handler):
    """Collects the lines of a logger in Kafka's format."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log() -> Iterator[LineCollector]:
    """All lines that slackwater logs."""
    logger, lines = logging.getLogger("slackwater"), LineCollector()
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(lines)
    logger.setLevel(level)


def judged(rows: list[Row]) -> Verdict:
    return diagnose_group(GroupHistory(GROUP, [row for row in rows if row.group == GROUP]))


def assert_same_verdicts(events: list[Row], lines: list[str]) -> None:
    """Assert that logs alone, events alone and both give the same verdict; times differ by milliseconds."""
    logged = read_log("own.log", lines)
    by_log, by_events, by_both = judged(logged), judged(events), judged([*events, *logged])
    for verdict in (by_events, by_both):
        for name in ("cause", "culprits", "confidence", "rebalances", "changes", "is_storm", "missing_input"):
            assert getattr(verdict, name) == getattr(by_log, name), name
        assert verdict.figures == pytest.approx(by_log.figures, abs=200)
        assert [sorted(item.settings) for item in verdict.prescriptions] == [
            sorted(item.settings) for item in by_log.prescriptions
        ]


def count_of_leaves(broker: Broker) -> int:
    return sum(1 for event in broker.events(GROUP) if event.kind is EventKind.MEMBER_LEFT)


def settle(broker: Broker, members: list[Consumer]) -> None:
    """Poll all members until the group is stable with all of them."""

    def stable() -> bool:
        for member in members:
            member.poll(0.02)
        description = broker.describe_group(GROUP)
        return description.state == "Stable" and len(description.members) == len(members)

    wait_for(stable, "the group to be stable")


def _has_left(broker: Broker, before: int) -> bool:
    return count_of_leaves(broker) > before


def test_slow_member_is_culprit_from_logs_and_events(log: LineCollector, tmp_path: Path) -> None:
    with Broker() as broker:
        broker.create_topic(TOPIC, 4)
        fill(broker, TOPIC, numbers(20))
        quick = consumer(broker, GROUP, client_id="quick")
        slow = consumer(broker, GROUP, client_id="slow", max_poll_interval_ms=POLL_MS)
        with quick, slow:
            for member in (quick, slow):
                member.subscribe([TOPIC])
            settle(broker, [quick, slow])
            for _ in range(2):
                before = count_of_leaves(broker)
                poll_until(quick, partial(_has_left, broker, before), "the slow member's leave")
                settle(broker, [quick, slow])
        events = [row_of(event) for event in broker.events(GROUP)]
    assert_same_verdicts(events, log.lines)
    verdict = judged(read_log("own.log", log.lines))
    assert (verdict.cause, verdict.culprits, verdict.missing_input) == ("poll_delay", ("slow",), ())
    assert verdict.confidence >= SURE
    assert verdict.figures["limit_ms"] == POLL_MS
    assert [setting for item in verdict.prescriptions for setting in item.settings] == [
        "max.poll.records",
        "max.poll.interval.ms",
    ]
    (tmp_path / "broker.log").write_text("".join(f"{line}\n" for line in log.lines if "slackwater.broker" in line))
    (tmp_path / "clients.log").write_text("".join(f"{line}\n" for line in log.lines if "slackwater.client" in line))
    (of_files,) = diagnose(DiagnosisRequest([str(tmp_path)]), list_local_files([str(tmp_path)])).verdicts
    assert (of_files.cause, of_files.culprits, of_files.library) == ("poll_delay", ("slow",), "slackwater")
    assert of_files.prescriptions[0].settings["max.poll.records"].isdigit()  # of the default, which is not logged


def test_added_partitions_are_found_in_logs_and_events(log: LineCollector) -> None:
    with Broker() as broker:
        broker.create_topic(TOPIC, 2)
        with consumer(broker, GROUP, client_id="only", metadata_max_age_ms=100) as member:
            member.subscribe([TOPIC])
            settle(broker, [member])
            with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
                admin.add_partitions(TOPIC, 4)
            poll_until(member, lambda: len(member.assignment) == 4, "the new partitions")
        events = [row_of(event) for event in broker.events(GROUP)]
    assert_same_verdicts(events, log.lines)
    verdict = judged(events)
    assert (verdict.cause, verdict.culprits) == ("partitions_added", (TOPIC,))


def test_rolling_deploy_is_equal_in_logs_and_events(log: LineCollector) -> None:
    with Broker() as broker, ExitStack() as stack:
        broker.create_topic(TOPIC, 4)
        members = []
        for number in range(3):
            members.append(stack.enter_context(consumer(broker, GROUP, client_id=f"m{number}")))
            members[-1].subscribe([TOPIC])
        settle(broker, members)
        for number in range(3):
            members.pop(0).close()
            settle(broker, members)
            members.append(stack.enter_context(consumer(broker, GROUP, client_id=f"m{number}")))
            members[-1].subscribe([TOPIC])
            settle(broker, members)
        events = [row_of(event) for event in broker.events(GROUP)]
    assert_same_verdicts(events, log.lines)
    assert judged(events).library == "slackwater"  # the members named their software
    for rows in (events, read_log("own.log", log.lines)):
        began_ms = rows[0].time_ms
        verdict = judged([row._replace(time_ms=began_ms + 100 * (row.time_ms - began_ms)) for row in rows])
        assert (verdict.cause, verdict.action_needed, verdict.changes) == ("rolling_restart", True, 7)
        assert [finding.cause for finding in verdict.other_findings] == ["eager_stop_the_world"]
        static, cooperative, *_ = verdict.prescriptions
        assert static.settings == {"group.instance.id": "<unique per instance>", "session.timeout.ms": "45000"}
        assert "detected" not in static.cost  # the session timeout stays as it is
        assert cooperative.settings == {"partition.assignment.strategy": "cooperative-sticky"}


def test_every_own_line_about_groups_is_read(log: LineCollector) -> None:
    with Broker() as broker:
        broker.create_topic(TOPIC, 4)
        first = consumer(broker, GROUP, client_id="first", max_poll_interval_ms=POLL_MS)
        with first, consumer(broker, GROUP, client_id="second", group_instance_id="i") as second:
            for member in (first, second):
                member.subscribe([TOPIC])
            settle(broker, [first, second])
            poll_until(second, partial(_has_left, broker, 0), "the first member's leave")
            settle(broker, [first, second])
            second.unsubscribe()
            second.subscribe(pattern="t.*")
            settle(broker, [first, second])
    unread = [line for line in log.lines if TEMPLATES.read(line) == {}]
    assert unread == []


def test_secrets_are_hidden_in_the_start_lines() -> None:
    assert format_setting("ssl.key.password", "canary") == "[hidden]"
    assert format_setting("sasl.jaas.config", "canary") == "[hidden]"
    assert format_setting("max.poll.records", 100) == "100"
