"""The doctor's page: whole, safe to open, and drawn."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.doctor.causes.finding import EvidenceLine, Finding
from slackwater.doctor.prescriptions import Prescription
from slackwater.doctor.timeline.member_timelines import MemberTimeline, TimelineMarker, TimelineSpan
from slackwater.doctor.timeline.pauses import LagEstimate, MinuteStats
from slackwater.doctor.timeline.rebalances import Episode, RebalanceRound
from slackwater.doctor.verdict import Verdict
from slackwater.web.report import report

BEGAN_MS = 1_763_251_200_000
NASTY = "</script><script>alert('x')</script>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def round_of(generation: int, trigger: str | None = "poll_timeout") -> RebalanceRound:
    began_ms = BEGAN_MS + generation * 10_000
    return RebalanceRound(
        generation, began_ms, began_ms + 900, trigger, "slow-1", "eager", 3, 2, True, False, "b.log:7"
    )


def ill(group: str = "orders") -> Verdict:
    return Verdict(
        cluster="east",
        group=group,
        cause="poll_delay",
        action_needed=True,
        storm=True,
        culprits=("slow-1",),
        rebalances=12,
        changes=12,
        confidence=0.95,
        evidence=(EvidenceLine(BEGAN_MS, "broker_log", "slow-1 left the group", "b.log:7"),),
        missing=("whose handler it was: ask for the client's log",),
        began_ms=BEGAN_MS,
        ended_ms=BEGAN_MS + 600_000,
        prescriptions=(
            Prescription(
                1,
                "give the handler more time",
                "client",
                "a stuck member is noticed later",
                {"max.poll.interval.ms": "600000"},
                {"java": ("max.poll.interval.ms=600000",)},
                (),
                (),
                False,
            ),
        ),
        episodes=(Episode("storm", BEGAN_MS, BEGAN_MS + 500_000, 12, 12, 9_000, (("poll_timeout", 12),)),),
        rounds=tuple(round_of(generation) for generation in range(1, 13)),
        member_timelines=(
            MemberTimeline(
                "slow-1", "/10.0.0.7", True, (TimelineSpan(BEGAN_MS, BEGAN_MS + 20_000, "member slow-1-abc"),), ()
            ),
            MemberTimeline(
                "other",
                None,
                False,
                (TimelineSpan(BEGAN_MS, BEGAN_MS + 600_000, "member other-def"),),
                (TimelineMarker(BEGAN_MS + 5_000, "go", "left"),),
            ),
        ),
        minutes=(
            MinuteStats(BEGAN_MS, 0, 0, 600, 0, 0, 0),
            MinuteStats(BEGAN_MS + 60_000, 12, 30_000, 200, 300, 400, 300),
            MinuteStats(BEGAN_MS + 240_000, 0, 0, 1000, 0, 0, 0),
        ),
        lag=LagEstimate(600, 400, BEGAN_MS + 120_000, 300, 30_000),
    )


def calm(group: str) -> Verdict:
    return Verdict("east", group, "healthy", False, False, (), 2, 2, 1.0, began_ms=BEGAN_MS, ended_ms=BEGAN_MS + 1)


def test_who_needs_somebody_comes_first_and_the_calm_are_a_line_each() -> None:
    page = report([calm("quiet"), ill()])
    assert page.index(">orders<") < page.index(">quiet<")
    assert "1 of 2 groups needs somebody." in page
    assert page.count('id="timeline-') == 1


def test_a_verdict_is_told_with_its_evidence_its_gaps_and_its_cure() -> None:
    page = report([ill()])
    for text in ("slow-1 left the group", "b.log:7", "ask for the client", "max.poll.interval.ms=600000", "95%"):
        assert text in page


def test_the_lines_that_decide_are_shown_as_they_were_written() -> None:
    line = "[2026-11-15 19:16:07,441] INFO [Group orders] Member <slow-1> has left group"
    page = report([replace(ill(), evidence=(EvidenceLine(BEGAN_MS, "broker_log", "slow-1 left", "b.log:7", line),))])
    assert "Member &lt;slow-1&gt; has left group" in page


def test_who_else_was_hit_and_what_else_it_could_be_is_told() -> None:
    other = Finding("rolling_restart", ("other",), (BEGAN_MS,), 0.8)
    verdict = replace(ill(), secondary=("other",), also=(other,), alternatives=("crash_loop",), alerts=("Rebalances",))
    page = report([verdict])
    assert "Overloaded by what they took over: other." in page
    assert "Also: rolling restart (by other)." in page
    assert "It could also be: crash loop." in page


def test_a_change_that_needs_nobody_is_drawn_too() -> None:
    page = report([replace(ill(), cause="scale_out", action_needed=False, storm=False)])
    assert "1 group, all calm." in page
    assert page.count('id="timeline-') == 1


def test_what_could_not_be_told_is_not_called_calm() -> None:
    unknown = replace(ill(), cause="unknown", action_needed=False, storm=False)
    assert "2 groups; of 1 it could not be told." in report([unknown, calm("quiet")])
    assert "1 of 2 groups needs somebody. Of 1 it could not be told." in report([unknown, ill("other")])


def test_lines_that_were_not_understood_are_on_the_page() -> None:
    page = report([calm("quiet")], unread=[("server.log", 1234, "Group <x> was frobnicated")])
    assert "1,234" in page
    assert "Group &lt;x&gt; was frobnicated" in page


def test_how_much_of_the_lag_came_from_pauses_is_told_and_drawn_on_the_time_axis() -> None:
    page = report([ill()])
    assert "up to <b>400 records</b> behind" in page
    assert "<b>75%</b> of that was not read because of rebalances" in page
    began, minute = BEGAN_MS, 60_000
    points = [(1, 0, 0), (2, 400, 300), (4, 400, 300), (5, 0, 0)]  # as it was in the minutes that nobody tells of
    curve = ", ".join(f"[{began + at * minute}, {behind}, {rounds}]" for at, behind, rounds in points)
    assert f'"lag": [{curve}]' in page
    assert f'"frequency": [[{began}, {began + minute}, 0], [{began + minute}, {began + 2 * minute}, 12]' in page


def test_where_a_round_stops_only_what_moves_no_share_of_the_lag_is_claimed() -> None:
    page = report([replace(ill(), lag=LagEstimate(600, 400, BEGAN_MS + 120_000, None, 30_000))])
    assert "Its rounds stop only what moves" in page


def test_the_page_fetches_nothing() -> None:
    page = report([ill()])
    assert not re.findall(r"(?:src|href)=|@import|url\(\s*['\"]?(?:https?:)?//", page)


def test_what_a_log_says_is_text_and_cannot_run() -> None:
    page = report([ill(NASTY)], title=NASTY)
    assert NASTY not in page
    assert page.count("<script>") == page.count("</script>") == 1


def test_nothing_to_tell_is_a_page_too() -> None:
    assert "0 groups, all calm." in report([])


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; apt-get install chromium")
def test_a_browser_draws_a_lane_for_every_member(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    page = tmp_path / "report.html"
    page.write_text(report([ill()]), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, check=False, timeout=120)
    drawn = done.stdout
    assert drawn.count('class="span member"') == 2
    assert 'class="name culprit"' in drawn
    assert drawn.count('class="round slow"') == 12
    assert 'class="episode storm"' in drawn
    assert drawn.count('class="often"') == 1
    assert 'class="lag-rounds"' in drawn
