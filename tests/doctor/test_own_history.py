"""What our own broker and consumer log, and what they tell in events, lead to one verdict."""

import logging
from collections.abc import Iterator
from functools import partial

import pytest

from slackwater import Broker, Consumer
from slackwater.doctor.events.rows import Row, row_of
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import Verdict, judge
from slackwater.group.events import EventKind
from tests.client.helpers import consumer, fill, numbers, poll_until, wait_for
from tests.doctor.corpus import read_log

GROUP, TOPIC = "orders", "t"
POLL_MS = 700


class Lines(logging.Handler):
    """Keeps what a logger says, laid out as Kafka lays it out."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def said() -> Iterator[Lines]:
    """Everything that slackwater logs."""
    logger, lines = logging.getLogger("slackwater"), Lines()
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(lines)
    logger.setLevel(level)


def judged(rows: list[Row]) -> Verdict:
    return judge(GroupHistory(GROUP, [row for row in rows if row.group == GROUP]))


def left(broker: Broker) -> int:
    return sum(1 for event in broker.events(GROUP) if event.kind is EventKind.MEMBER_LEFT)


def settle(broker: Broker, members: list[Consumer]) -> None:
    """Poll all members until the group is stable with all of them."""

    def stable() -> bool:
        for member in members:
            member.poll(0.02)
        found = broker.describe_group(GROUP)
        return found.state == "Stable" and len(found.members) == len(members)

    wait_for(stable, "the group to be stable")


def _is_put_out(broker: Broker, before: int) -> bool:
    return left(broker) > before


def test_slow_member_is_culprit_from_logs_and_events(said: Lines) -> None:
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
                before = left(broker)
                poll_until(quick, partial(_is_put_out, broker, before), "the slow one to be put out")
                settle(broker, [quick, slow])
        by_events = judged([row_of(event) for event in broker.events(GROUP)])
    split_members_by_log = judged(read_log("own.log", said.lines))
    assert (split_members_by_log.cause, split_members_by_log.culprits) == ("poll_delay", ("slow",))
    assert (by_events.cause, by_events.culprits) == (split_members_by_log.cause, split_members_by_log.culprits)
    assert by_events.rebalances == split_members_by_log.rebalances
