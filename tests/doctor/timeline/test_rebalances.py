"""Rebalances, changes and episodes, and the lag that pauses cause."""

from slackwater.doctor.events.rows import Row, SingleRowDetail
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.pauses import MINUTE_MS, lag_of, minutes
from slackwater.doctor.timeline.rebalances import Episode, RecordedRebalance, episodes, find_rebalances
from slackwater.group.events import EventKind, EventSource, Trigger
from tests.doctor.scenario import START_MS, Scenario


def rebalances_of(scenario: Scenario) -> list[RecordedRebalance]:
    return find_rebalances(scenario.history())


def test_rebalance_has_duration_and_culprit() -> None:
    scenario = Scenario().start("a", "b")
    scenario.leave("b", 20)
    scenario.form(21.5)
    last = rebalances_of(scenario)[-1]
    assert (last.generation, last.trigger, last.culprit) == (2, Trigger.MEMBER_LEAVE, "b")
    assert (last.duration_ms, last.members_before, last.members_after) == (1500, 2, 1)


def test_cooperative_follow_up_belongs_to_the_change() -> None:
    scenario = Scenario().start("a", "b")
    scenario.join("c", 20)
    scenario.form(21)
    scenario.rejoin("a", 21.2, Trigger.COOPERATIVE_FOLLOWUP)
    scenario.form(22)
    assert [rebalance.follow_up for rebalance in rebalances_of(scenario)] == [False, False, True]


def test_rejoin_at_once_without_reason_is_a_follow_up() -> None:
    scenario = Scenario().start("a", "b")
    scenario.join("c", 20)
    scenario.form(21)
    scenario.rejoin("a", 21.2, Trigger.UNKNOWN)
    scenario.form(22)
    scenario.rejoin("a", 80, Trigger.UNKNOWN)
    scenario.form(81)
    assert [rebalance.follow_up for rebalance in rebalances_of(scenario)] == [False, False, True, False]


def test_close_rebalances_are_one_episode() -> None:
    scenario = Scenario().start("a", "b", "c")
    for at in (100, 160, 2000):
        scenario.leave("b", at)
        scenario.form(at + 1)
        scenario.join("b", at + 3)
        scenario.form(at + 4)
    rows: list[Episode] = episodes(rebalances_of(scenario), "poll_delay", True, scenario.history().start_ended_ms)
    assert [(episode.kind, episode.rebalances) for episode in rows] == [("storm", 5), ("isolated", 2)]


def test_compacted_generations_are_counted() -> None:
    scenario = Scenario()
    scenario.current["a"], scenario.ids["a"] = None, "a-1"
    for number, at in ((120, 10), (121, 20), (125, 30)):
        scenario.generation = number
        scenario.record(at)
    verdict = scenario.verdict()
    assert verdict.rebalances == 6
    assert verdict.complete_since_ms == START_MS + 10_000


def add_progress(scenario: Scenario, minute: int, records: int) -> None:
    """The group reads this many records in this minute."""
    detail = {"offsets_advanced": records}
    time_ms = START_MS + minute * MINUTE_MS
    scenario.rows.append(Row(time_ms, EventKind.PROGRESS, EventSource.OFFSETS_TOPIC, detail=SingleRowDetail(detail)))


def test_minute_counts_stopped_time_and_progress() -> None:
    scenario = Scenario().start("a", "b")
    scenario.leave("b", 130)
    scenario.form(160)
    scenario.broker(EventKind.GENERATION_FORMED, 160, generation=2, assignor="range")
    for minute, advanced in ((0, 6000), (1, 6000), (2, 3000)):
        add_progress(scenario, minute, advanced)
    history: GroupHistory = scenario.history()
    last = minutes(history, find_rebalances(history))[-1]
    assert (last.stopped_ms, last.offsets_advanced) == (30_000, 3000)


def test_lag_and_its_part_caused_by_rebalances() -> None:
    scenario = Scenario().start("a", "b")
    at = 180 * 60
    for minute in range(1, 180):
        add_progress(scenario, minute, 6000 if minute < 90 else 600)
    scenario.leave("b", at + 5)  # at a low rate: 600 records per minute, of which 30 s are lost
    scenario.form(at + 35)
    scenario.broker(EventKind.GENERATION_FORMED, at + 35, generation=2, assignor="range")
    for minute, records in ((180, 300), (181, 900), (182, 600), (183, 600)):
        add_progress(scenario, minute, records)
    history = scenario.history()
    stats = minutes(history, find_rebalances(history))
    lag_by_minute = {
        (minute.began_ms - START_MS) // MINUTE_MS: (minute.lag, minute.lag_from_rebalances) for minute in stats
    }
    assert lag_by_minute[179] == (0, 0)
    assert lag_by_minute[180] == (300, 300)
    assert lag_by_minute[181] == (0, 0)
    lag = lag_of(stats)
    assert lag is not None
    assert (lag.max_lag, lag.by_pauses, lag.max_lag_ms) == (300, 300, START_MS + 181 * MINUTE_MS)
    assert lag.stopped_ms >= 30_000


def test_lag_grows_if_reading_does_not_resume() -> None:
    scenario = Scenario().start("a", "b")
    for minute in range(1, 10):
        add_progress(scenario, minute, 600)
    scenario.leave("b", 610)
    scenario.form(640)
    scenario.broker(EventKind.GENERATION_FORMED, 640, generation=2, assignor="range")
    for minute in (14, 15):
        add_progress(scenario, minute, 600)
    history = scenario.history()
    lag = lag_of(minutes(history, find_rebalances(history)))
    assert lag is not None
    assert (lag.max_lag, lag.by_pauses) == (4 * 600, 300)


def test_group_without_lag_has_no_estimate() -> None:
    scenario = Scenario().start("a", "b")
    for minute in range(1, 60):
        add_progress(scenario, minute, 600 - 9 * minute)
    assert scenario.verdict().lag is None
