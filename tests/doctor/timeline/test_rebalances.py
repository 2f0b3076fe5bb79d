"""Rebalances, changes and episodes; what pauses cost, minute by minute."""

from slackwater.doctor.events.rows import Row, SingleRowDetail
from slackwater.doctor.timeline.group_history import GroupHistory
from slackwater.doctor.timeline.pauses import MINUTE_MS, lag_of, minutes
from slackwater.doctor.timeline.rebalances import Episode, RebalanceRound, episodes, rebalances
from slackwater.group.events import EventKind, EventSource, Trigger
from tests.doctor.scene import Scene


def found(scene: Scene) -> list[RebalanceRound]:
    return rebalances(scene.history())


def test_rebalance_has_duration_and_culprit() -> None:
    scene = Scene().start("a", "b")
    scene.leave("b", 20)
    scene.form(21.5)
    last = found(scene)[-1]
    assert (last.generation, last.trigger, last.culprit) == (2, Trigger.MEMBER_LEAVE, "b")
    assert (last.duration_ms, last.members_before, last.members_after) == (1500, 2, 1)


def test_cooperative_follow_up_belongs_to_the_change() -> None:
    scene = Scene().start("a", "b")
    scene.join("c", 20)
    scene.form(21)
    scene.rejoin("a", 21.2, Trigger.COOPERATIVE_FOLLOWUP)
    scene.form(22)
    assert [one.follow_up for one in found(scene)] == [False, False, True]


def test_rejoin_at_once_without_reason_is_a_follow_up() -> None:
    scene = Scene().start("a", "b")
    scene.join("c", 20)
    scene.form(21)
    scene.rejoin("a", 21.2, Trigger.UNKNOWN)
    scene.form(22)
    scene.rejoin("a", 80, Trigger.UNKNOWN)
    scene.form(81)
    assert [one.follow_up for one in found(scene)] == [False, False, True, False]


def test_close_rebalances_are_one_episode() -> None:
    scene = Scene().start("a", "b", "c")
    for at in (100, 160, 2000):
        scene.leave("b", at)
        scene.form(at + 1)
        scene.join("b", at + 3)
        scene.form(at + 4)
    rows: list[Episode] = episodes(found(scene), "poll_delay", True, scene.history().settled_ms)
    assert [(one.kind, one.rebalances) for one in rows] == [("storm", 5), ("isolated", 2)]


def test_compacted_generations_are_counted() -> None:
    scene = Scene()
    scene.there["a"], scene.ids["a"] = None, "a-1"
    for number, at in ((120, 10), (121, 20), (125, 30)):
        scene.generation = number
        scene.record(at)
    verdict = scene.verdict()
    assert verdict.rebalances == 6
    assert verdict.complete_since_ms == 10_000


def read(scene: Scene, minute: int, records: int) -> None:
    """The group read so many records in this minute."""
    detail = {"offsets_advanced": records}
    scene.rows.append(
        Row(minute * MINUTE_MS, EventKind.PROGRESS, EventSource.OFFSETS_TOPIC, detail=SingleRowDetail(detail))
    )


def test_minute_counts_stopped_time_and_progress() -> None:
    scene = Scene().start("a", "b")
    scene.leave("b", 130)
    scene.form(160)
    scene.broker(EventKind.GENERATION_FORMED, 160, generation=2, assignor="range")
    for minute, advanced in ((0, 6000), (1, 6000), (2, 3000)):
        read(scene, minute, advanced)
    history: GroupHistory = scene.history()
    last = minutes(history, rebalances(history))[-1]
    assert (last.stopped_ms, last.offsets_advanced) == (30_000, 3000)


def test_lag_and_its_part_caused_by_rebalances() -> None:
    scene = Scene().start("a", "b")
    at = 180 * 60
    for minute in range(1, 180):
        read(scene, minute, 6000 if minute < 90 else 600)
    scene.leave("b", at + 5)  # in the quiet of the night: 600 records a minute, of which 30 s are lost
    scene.form(at + 35)
    scene.broker(EventKind.GENERATION_FORMED, at + 35, generation=2, assignor="range")
    for minute, records in ((180, 300), (181, 900), (182, 600), (183, 600)):
        read(scene, minute, records)
    history = scene.history()
    found = minutes(history, rebalances(history))
    behind = {one.began_ms // MINUTE_MS: (one.behind, one.behind_by_pauses) for one in found}
    assert behind[179] == (0, 0)
    assert behind[180] == (300, 300)
    assert behind[181] == (0, 0)
    lag = lag_of(found)
    assert lag is not None
    assert (lag.most_behind, lag.by_pauses, lag.most_behind_ms) == (300, 300, 181 * MINUTE_MS)
    assert lag.stopped_ms >= 30_000


def test_lag_grows_if_reading_does_not_resume() -> None:
    scene = Scene().start("a", "b")
    for minute in range(1, 10):
        read(scene, minute, 600)
    scene.leave("b", 610)
    scene.form(640)
    scene.broker(EventKind.GENERATION_FORMED, 640, generation=2, assignor="range")
    for minute in (14, 15):
        read(scene, minute, 600)
    history = scene.history()
    lag = lag_of(minutes(history, rebalances(history)))
    assert lag is not None
    assert (lag.most_behind, lag.by_pauses) == (4 * 600, 300)


def test_group_without_lag_has_no_estimate() -> None:
    scene = Scene().start("a", "b")
    for minute in range(1, 60):
        read(scene, minute, 600 - 9 * minute)
    assert scene.verdict().lag is None
