"""The doctor's report page: complete, escaped, and with a timeline."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slackwater.doctor.causes.finding import EvidenceLine, Finding
from slackwater.doctor.prescriptions.prescription import Prescription
from slackwater.doctor.timeline.member_timelines import MemberTimeline, TimelineMarker, TimelineSpan
from slackwater.doctor.timeline.pauses import LagEstimate, MinuteStats
from slackwater.doctor.timeline.rebalances import Episode, RecordedRebalance
from slackwater.doctor.verdict import Verdict
from slackwater.web import report as web_report

BEGAN_MS = 1_763_251_200_000
NASTY = "</script><script>alert('x')</script>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def report(
    verdicts: Sequence[Verdict], title: str = "Rebalance report", unrecognized: Sequence[tuple[str, int, str]] = ()
) -> str:
    """Return the page with plain spaces before units."""
    return web_report.report(verdicts, title, unrecognized).replace("\N{NO-BREAK SPACE}", " ")


def rebalance_of(generation: int, trigger: str | None = "poll_timeout") -> RecordedRebalance:
    began_ms = BEGAN_MS + generation * 10_000
    return RecordedRebalance(
        generation, began_ms, began_ms + 900, trigger, "slow-1", "eager", 3, 2, True, False, "b.log:7"
    )


def unhealthy(group: str = "orders") -> Verdict:
    return Verdict(
        cluster="east",
        group=group,
        cause="poll_delay",
        action_needed=True,
        is_storm=True,
        culprits=("slow-1",),
        rebalances=12,
        changes=12,
        confidence=0.95,
        evidence=(EvidenceLine(BEGAN_MS, "broker_log", "slow-1 left the group", "b.log:7"),),
        missing_input=("which handler it was; add the client's log",),
        began_ms=BEGAN_MS,
        ended_ms=BEGAN_MS + 600_000,
        prescriptions=(
            Prescription(
                1,
                "give the handler more time",
                "client",
                "a stuck member is detected later",
                {"max.poll.interval.ms": "600000"},
                {"java": ("max.poll.interval.ms=600000",)},
                (),
                (),
                False,
            ),
        ),
        episodes=(Episode("storm", BEGAN_MS, BEGAN_MS + 500_000, 12, 12, 9_000, (("poll_timeout", 12),)),),
        recorded_rebalances=tuple(rebalance_of(generation) for generation in range(1, 13)),
        member_timelines=(
            MemberTimeline(
                "slow-1", "/10.0.0.7", True, (TimelineSpan(BEGAN_MS, BEGAN_MS + 20_000, "member slow-1-abc"),), ()
            ),
            MemberTimeline(
                "other",
                None,
                False,
                (TimelineSpan(BEGAN_MS, BEGAN_MS + 600_000, "member other-def"),),
                (TimelineMarker(BEGAN_MS + 5_000, "left", "left"),),
            ),
        ),
        minutes=(
            MinuteStats(BEGAN_MS, 0, 0, 600, 0, 0),
            MinuteStats(BEGAN_MS + 60_000, 12, 30_000, 200, 400, 300),
            MinuteStats(BEGAN_MS + 240_000, 0, 0, 1000, 0, 0),
        ),
        lag=LagEstimate(600, 400, BEGAN_MS + 120_000, 300, 30_000),
    )


def healthy(group: str) -> Verdict:
    return Verdict("east", group, "healthy", False, False, (), 2, 2, 1.0, began_ms=BEGAN_MS, ended_ms=BEGAN_MS + 1)


def test_groups_that_need_action_come_first() -> None:
    page = report([healthy("quiet"), unhealthy()])
    assert page.index(">orders<") < page.index(">quiet<")
    assert "1 of 2 groups needs action." in page
    assert page.count('id="timeline-') == 1


def test_verdict_has_evidence_gaps_and_prescriptions() -> None:
    page = report([unhealthy()])
    for text in ("slow-1 left the group", "b.log:7", "add the client", "max.poll.interval.ms=600000", "95%"):
        assert text in page


def test_evidence_shows_the_log_line() -> None:
    line = "[2026-11-15 19:16:07,441] INFO [Group orders] Member <slow-1> has left group"
    page = report(
        [replace(unhealthy(), evidence=(EvidenceLine(BEGAN_MS, "broker_log", "slow-1 left", "b.log:7", line),))]
    )
    assert "Member &lt;slow-1&gt; has left group" in page


def test_secondary_members_and_alternatives_are_shown() -> None:
    other = Finding("rolling_restart", ("other",), (BEGAN_MS,), 0.8)
    verdict = replace(
        unhealthy(),
        secondary_members=("other",),
        other_findings=(other,),
        alternatives=("crash_loop",),
        alerts=("Rebalances",),
    )
    page = report([verdict])
    assert "Overloaded by the partitions they took over: other." in page
    assert "Also: members were restarted one after another (caused by other): 1 member left and came back;" in page
    assert "Other possible causes: crash loop (look at the exit codes and restart counts of the processes)." in page


def test_settings_name_their_place_and_library() -> None:
    page = report([unhealthy()])
    assert "Set in the configuration of every consumer of the group; then restart them:" in page
    assert "The client library is not known; settings as for Java." in page
    assert "Setting names are those of java." in report([replace(unhealthy(), library="java")])


def test_page_says_when_and_why_nothing_is_to_do() -> None:
    verdict = replace(unhealthy(), incident_began_ms=BEGAN_MS, incident_ended_ms=BEGAN_MS + 500_000)
    page = report([replace(verdict, no_action="members were added")])
    assert "When: 2025-11-16 00:00:00 to 00:08:20 UTC; the last line about any group is 100 s later." in page
    assert "<b>Nothing to do</b>: members were added." in page


def test_expected_change_has_a_timeline() -> None:
    page = report([replace(unhealthy(), cause="scale_out", action_needed=False, is_storm=False)])
    assert "1 group, none needs action." in page
    assert page.count('id="timeline-') == 1


@pytest.mark.parametrize(
    ("headline", "shown"),
    [
        ("slow-1, slow-2: joined or left 4 times", ">slow-1, slow-2: joined or left 4 times."),
        ("a rebalance is open for 75 s, waiting for b", ">A rebalance is open for 75 s, waiting for b."),
    ],
)
def test_names_keep_their_case_at_the_start(headline: str, shown: str) -> None:
    assert shown in report([replace(unhealthy(), headline=headline)])


def test_name_that_begins_a_sentence_keeps_its_case() -> None:
    partial = replace(
        unhealthy(), culprits=("test",), headline="test was removed", is_partial=True, action_needed=False
    )
    page = report([partial])
    assert ">test was removed." in page
    assert "1 group. 1 had a failure; whether action is needed is not certain." in page


def test_part_without_content_is_left_out() -> None:
    page = report(
        [replace(unhealthy(), rebalances=0, changes=0, recorded_rebalances=(), member_timelines=(), lag=None)]
    )
    assert "<span>rebalances</span>" not in page
    assert "What happened" not in page


def test_few_rebalances_are_no_storm() -> None:
    assert "poll delay · storm" in report([unhealthy()])
    assert "poll delay · it recurs" in report([replace(unhealthy(), rebalances=2)])
    assert "poll delay</span>" in report([replace(unhealthy(), is_storm=False)])


def test_unknown_cause_is_not_called_healthy() -> None:
    unknown = replace(unhealthy(), cause="unknown", action_needed=False, is_storm=False)
    assert "2 groups. The cause is unknown for 1." in report([unknown, healthy("quiet")])
    assert "1 of 2 groups needs action. The cause is unknown for 1." in report([unknown, unhealthy("other")])


def test_unrecognised_lines_are_on_the_page() -> None:
    page = report([healthy("quiet")], unrecognized=[("server.log", 1234, "Group <x> was frobnicated")])
    assert "1,234" in page
    assert "Group &lt;x&gt; was frobnicated" in page


def test_lag_caused_by_rebalances_is_shown_and_drawn() -> None:
    page = report([unhealthy()])
    assert "The lag reached <b>400 records</b>" in page
    assert "<b>75%</b> of it was caused by rebalances" in page
    began, minute = BEGAN_MS, 60_000
    points = [(1, 0, 0), (2, 400, 300), (4, 400, 300), (5, 0, 0)]  # constant in minutes without data
    curve = ", ".join(f"[{began + at * minute}, {behind}, {by_rebalances}]" for at, behind, by_rebalances in points)
    assert f'"lag": [{curve}]' in page
    assert f'"frequency": [[{began}, {began + minute}, 0], [{began + minute}, {began + 2 * minute}, 12]' in page


def test_no_share_of_lag_for_cooperative_groups() -> None:
    page = report([replace(unhealthy(), lag=LagEstimate(600, 400, BEGAN_MS + 120_000, None, 30_000))])
    assert "stop only the partitions that move" in page


def test_page_has_no_external_resources() -> None:
    page = report([unhealthy()])
    assert not re.findall(r"(?:src|href)=|@import|url\(\s*['\"]?(?:https?:)?//", page)


def test_text_from_logs_is_escaped() -> None:
    page = report([unhealthy(NASTY)], title=NASTY)
    assert NASTY not in page
    assert page.count("<script>") == page.count("</script>") == 1


def test_numbers_stay_with_their_units() -> None:
    page = web_report.report([replace(unhealthy(), headline="slow-1: 10 s between polls (4 times)")])
    assert "slow-1: 10\N{NO-BREAK SPACE}s between polls (4\N{NO-BREAK SPACE}times)." in page


def test_column_of_clusters_is_left_out_if_none_is_named() -> None:
    assert "<th>cluster</th>" in report([healthy("quiet")])
    assert "<th>cluster</th>" not in report([replace(healthy("quiet"), cluster="")])


def test_lines_without_times_have_no_timeline() -> None:
    page = report([replace(unhealthy(), began_ms=1, ended_ms=7)])
    assert "What happened" not in page
    assert "Episodes" not in page
    assert 'id="timeline-0" hidden' in page
    assert '"dated": false' in report([replace(unhealthy(), began_ms=315_532_800_001)])


def test_empty_report() -> None:
    assert "0 groups, none needs action." in report([])


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; apt-get install chromium")
def test_browser_draws_a_timeline_for_every_member(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    page = tmp_path / "report.html"
    page.write_text(report([unhealthy()]), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    result = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, check=False, timeout=120)
    drawn = result.stdout
    assert drawn.count('class="span member"') == 2
    assert 'class="name culprit"' in drawn
    assert drawn.count('class="rebalance slow"') == 12
    assert 'class="episode storm"' in drawn
    assert drawn.count('class="frequency"') == 1
    assert 'class="lag-from-rebalances"' in drawn
