"""The clients' library is found also if the evidence is the broker's."""

import pytest

from slackwater.doctor.causes.finding import EvidenceLine
from slackwater.doctor.events.rows import Row
from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.prescriptions.libraries import library_of
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import diagnose_group
from slackwater.group.events import EventKind, EventSource

JOINED = "2026-11-18 17:21:19,520 INFO slackwater.client.consumer.membership: [Consumer clientId={0}] joined"
JAVA = "2026-11-18 17:21:19,520 INFO [Consumer clientId={0}, groupId=billing] Successfully joined group"


def diagnose(lines: dict[str, str]) -> tuple[str | None, tuple[EvidenceLine, ...]]:
    """Diagnose a rolling restart in the broker's log, with a joined line in each client's log."""
    rows = []
    for at, client in enumerate(lines):
        for kind, seconds, generation in (
            (EventKind.MEMBER_LEFT, 0, None),
            (EventKind.MEMBER_JOINED, 3, None),
            (EventKind.GENERATION_FORMED, 4, 10 + at),
        ):
            time_ms = 1_000_000_000_000 + 60_000 * at + 1000 * seconds
            rows.append(
                Row(
                    time_ms,
                    kind,
                    EventSource.BROKER_LOG,
                    "billing",
                    client=client,
                    member=f"{client}-{at}-{seconds}",
                    generation=generation,
                    members=len(lines),
                )
            )
        text = lines[client].format(client)
        rows.append(
            Row(
                rows[-1].time_ms + 1,
                EventKind.MEMBER_JOINED,
                EventSource.CLIENT_LOG,
                "billing",
                client=client,
                generation=10 + at,
                line=text,
                file=f"/logs/{client}.log",
            )
        )
    verdict = diagnose_group(GroupHistory("billing", rows))
    assert verdict.prescriptions
    return verdict.library, verdict.evidence


@pytest.mark.parametrize(("line", "library"), [(JOINED, "slackwater"), (JAVA, "java")])
def test_library_of_clients_not_in_the_evidence(line: str, library: str) -> None:
    found, evidence = diagnose(dict.fromkeys(("a", "b", "c"), line))
    assert {cited.source for cited in evidence} == {EventSource.BROKER_LOG}
    assert found == library


def test_mixed_libraries_are_not_named() -> None:
    assert diagnose({"a": JOINED, "b": JAVA, "c": JAVA})[0] is None


SPARK_START = (
    "2026-11-18 17:21:19,520 INFO slackwater.client.consumer.consumer: [Consumer clientId={0}, groupId=billing] "
    "Starting the Slackwater source for Spark, version 0.2.0"
)


def test_spark_member_is_recognised_by_its_start() -> None:
    assert diagnose(dict.fromkeys(("a", "b", "c"), SPARK_START))[0] == "spark"
    assert diagnose({"a": SPARK_START, "b": JOINED, "c": JOINED})[0] is None


def test_spark_member_whose_late_batch_is_cited() -> None:
    late = "2026-11-18 17:25:00,000 WARNING slackwater.client.consumer.consumer: [Consumer clientId=a] late"
    rows = [
        Row(1_000, OtherEventKind.CLIENT_STARTED, EventSource.CLIENT_LOG, "billing", client="a", line=SPARK_START),
        Row(2_000, EventKind.MEMBER_JOINED, EventSource.CLIENT_LOG, "billing", client="a", member="a-1", generation=1),
        Row(400_000, EventKind.POLL_OVERRUN, EventSource.CLIENT_LOG, "billing", client="a", line=late),
    ]
    rows = [row._replace(file="a.log", position=at) for at, row in enumerate(rows)]
    verdict = diagnose_group(GroupHistory("billing", rows))
    assert (verdict.cause, verdict.library) == ("poll_delay", "spark")


OWN_START = (
    "2026-11-18 17:21:19,520 INFO [Consumer clientId=a, groupId=billing] Starting the Slackwater consumer, version 1"
)
OVERRUN = "2026-11-18 17:25:00,000 WARNING [Consumer clientId=a] consumer poll timeout has expired."


def test_own_consumer_in_a_layout_without_logger_names() -> None:
    rows = [
        Row(1_000, OtherEventKind.CLIENT_STARTED, EventSource.CLIENT_LOG, "billing", client="a", line=OWN_START),
        Row(2_000, EventKind.MEMBER_JOINED, EventSource.CLIENT_LOG, "billing", client="a", member="a-1", generation=1),
        Row(400_000, EventKind.POLL_OVERRUN, EventSource.CLIENT_LOG, "billing", client="a", line=OVERRUN),
    ]
    rows = [row._replace(file="a.log", position=at) for at, row in enumerate(rows)]
    verdict = diagnose_group(GroupHistory("billing", rows))
    assert (verdict.cause, verdict.library) == ("poll_delay", "slackwater")


@pytest.mark.parametrize(
    "line", ["KafkaError{code=ILLEGAL_GENERATION,val=22}", "cimpl.KafkaException: late", "[thrd:main]:"]
)
def test_errors_of_bindings_are_those_of_librdkafka(line: str) -> None:
    assert library_of([line]) == "librdkafka"
