"""Clocks that were set back, and brokers and clients in different time zones."""

from slackwater.doctor.events.rows import Row
from slackwater.doctor.timeline.clocks import correct_clock_jumps, find_zone_differences
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.verdict import diagnose_group
from slackwater.group.events import EventKind, EventSource
from tests.doctor.scenario import Scenario

HOUR = 3_600_000


def storm() -> list[Row]:
    """A member that leaves four times by its poll timer, as one broker's log contains it."""
    scenario = Scenario().start("a", "b", "c")
    for at in (20, 40, 60, 80):
        scenario.leave("b", at, "consumer poll timeout has expired.")
        scenario.form(at + 0.5)
        scenario.join("b", at + 3)
        scenario.form(at + 3.5)
    return [row._replace(file="/logs/server.log", position=position) for position, row in enumerate(scenario.rows)]


def test_clock_set_back_keeps_the_verdict() -> None:
    steady = storm()
    half = len(steady) // 2
    back = steady[:half] + [row._replace(time_ms=row.time_ms - HOUR + 7_000) for row in steady[half:]]
    verdict = diagnose_group(GroupHistory("g", back))
    expected = diagnose_group(GroupHistory("g", steady))
    assert (verdict.cause, verdict.culprits, verdict.rebalances) == (
        expected.cause,
        expected.culprits,
        expected.rebalances,
    )
    assert expected.cause == "poll_delay"
    assert "the clock of server.log was set back by 60 min" in " ".join(verdict.missing_input)
    assert "clock" not in " ".join(expected.missing_input)


def test_times_continue_after_a_clock_set_back() -> None:
    steady = storm()
    back = [row if row.position < 12 else row._replace(time_ms=row.time_ms - HOUR) for row in steady]
    corrected, notes = correct_clock_jumps(back)
    times = [row.time_ms for row in sorted(corrected, key=lambda row: row.position)]
    assert times == sorted(times)
    assert len(notes) == 1
    assert times[-1] <= steady[-1].time_ms


def test_concatenated_logs_are_unchanged() -> None:
    repeated = storm() + [row._replace(position=row.position + 1000) for row in storm()]
    assert correct_clock_jumps(repeated) == (repeated, ())


def test_slightly_unordered_lines_are_unchanged() -> None:
    rows = storm()
    rows[5] = rows[5]._replace(time_ms=rows[5].time_ms - 1_500)
    assert correct_clock_jumps(rows)[1] == ()


def joined(offset_ms: int) -> list[Row]:
    """A client log with the storm's generations."""
    formed = [row for row in storm() if row.kind == EventKind.GENERATION_FORMED]
    return [
        row._replace(
            kind=EventKind.MEMBER_JOINED,
            source=EventSource.CLIENT_LOG,
            file="/logs/a.log",
            time_ms=row.time_ms + offset_ms + 40,
            client="a",
        )
        for row in formed
    ]


def test_zone_difference_is_found_by_generations() -> None:
    (note,) = find_zone_differences([*storm(), *joined(2 * HOUR)])
    assert note == (
        "a.log has the same generations 2 h later than server.log: their time zones differ; set the zone with "
        "--zone a.log=ZONE"
    )
    (note,) = find_zone_differences([*storm(), *joined(-HOUR // 2)])
    assert "30 min earlier" in note


def test_small_clock_difference_is_not_a_zone() -> None:
    assert find_zone_differences([*storm(), *joined(0)]) == ()
    assert find_zone_differences([*storm(), *joined(100_000)]) == ()
    assert find_zone_differences(storm()) == ()


def test_verdict_reports_different_zones() -> None:
    verdict = diagnose_group(GroupHistory("g", [*storm(), *joined(2 * HOUR)]))
    assert any("their time zones differ" in text for text in verdict.missing_input)
