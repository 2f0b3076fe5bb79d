"""What is prescribed knows the group: its present values, its assignor, its library, and whether it needs anything."""

import pytest

from slackwater.doctor.diagnosis import EXIT_HEALTHY, exit_code
from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.prescriptions.pasting import place_to_paste
from slackwater.doctor.verdict import Verdict
from slackwater.group.events import EventKind, Trigger
from tests.doctor.scenario import START_MS, Scenario

CLOSED = "the consumer is being closed"
POLL_TIMEOUT = "consumer poll timeout has expired."


def settings_of(verdict: Verdict) -> dict[str, str]:
    return {name: value for item in verdict.prescriptions for name, value in item.settings.items()}


def late(scenario: Scenario, times: tuple[float, ...] = (100, 160, 220)) -> Scenario:
    """Member b polls late and comes back after ten seconds."""
    for at in times:
        scenario.leave("b", at, POLL_TIMEOUT)
        scenario.form(at + 1)
        scenario.join("b", at + 10)
        scenario.form(at + 11)
    return scenario


def own_line(client: str) -> str:
    return f"2026-11-18 17:21:19,520 INFO slackwater.client.consumer.consumer: [Consumer clientId={client}] joined"


def test_group_that_needs_nothing_gets_no_prescription() -> None:
    scenario = Scenario().start("a", "b")
    scenario.join("c", 60)
    scenario.form(61)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.action_needed, verdict.prescriptions) == ("scale_out", False, ())


def test_present_value_of_another_member_is_used() -> None:
    scenario = Scenario().start("a", "b")
    for name, value in (("max.poll.records", "100"), ("max.poll.interval.ms", "30000")):
        for client in ("a", "b"):
            if (client, name) != ("b", "max.poll.records"):
                scenario.log(client, OtherEventKind.CLIENT_SETTING, 1, detail={"setting": name, "value": value})
    settings = settings_of(late(scenario).verdict())
    assert int(settings["max.poll.records"]) < 100


def test_cooperative_group_is_not_told_to_become_it() -> None:
    for assignor in ("range", "cooperative-sticky"):
        scenario = Scenario(assignor=assignor).start("a", "b", "c", "d")
        for at, name in enumerate(("a", "b", "c", "d")):
            scenario.leave(name, 100 + 60 * at, CLOSED)
            scenario.form(101 + 60 * at)
            scenario.join(name, 104 + 60 * at)
            scenario.form(105 + 60 * at)
        verdict = scenario.verdict()
        assert (verdict.cause, verdict.action_needed) == ("rolling_restart", True)
        assert ("partition.assignment.strategy" in settings_of(verdict)) is (assignor == "range")


@pytest.mark.parametrize("has_second_steps", [False, True])
def test_second_steps_show_a_cooperative_group(has_second_steps: bool) -> None:
    """Clients that send no reason: the rebalances that follow a change at once are the only sign of the assignor."""
    scenario = Scenario().start("a", "b", "c", "d")
    for at, name in enumerate(("a", "b", "c", "d")):
        scenario.leave(name, 100 + 60 * at, CLOSED)
        scenario.form(101 + 60 * at)
        scenario.join(name, 104 + 60 * at)
        scenario.form(105 + 60 * at)
        if has_second_steps:
            scenario.rejoin("a", 105.1 + 60 * at, Trigger.UNKNOWN)
            scenario.form(105.2 + 60 * at)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.rebalances > verdict.changes) == ("rolling_restart", has_second_steps)
    assert ("partition.assignment.strategy" in settings_of(verdict)) is not has_second_steps


@pytest.mark.parametrize("has_client_logs", [True, False])
def test_rolling_deploy_never_lowers_the_session_timeout(has_client_logs: bool) -> None:
    names = ("a", "b", "c", "d")
    scenario = Scenario().start(*names)
    for at, name in enumerate(names):
        begin = 100 + 60 * at
        scenario.leave(name, begin, CLOSED)
        scenario.form(begin + 0.5)
        scenario.join(name, begin + 1.3)
        scenario.form(begin + 2)
        if has_client_logs:
            scenario.log(
                name, EventKind.MEMBER_JOINED, begin + 2.1, generation=scenario.generation, line=own_line(name)
            )
            scenario.rows[-1] = scenario.rows[-1]._replace(file=f"{name}.log", position=1)
    verdict = scenario.verdict()
    assert verdict.cause == "rolling_restart"
    assert int(settings_of(verdict)["session.timeout.ms"]) >= 45_000
    assert verdict.library == ("slackwater" if has_client_logs else None)


@pytest.mark.parametrize("instance", [None, "i"])
def test_member_that_was_stopped_is_not_a_crash(instance: str | None) -> None:
    scenario = Scenario().start("a", "b")
    scenario.join("c", 1, instance=instance)
    scenario.form(2)
    scenario.log("c", OtherEventKind.CLIENT_CLOSED, 100, instance=instance)
    scenario.expire(instance or "c", 145)
    scenario.form(146)
    verdict = scenario.verdict()
    assert verdict.cause == "scale_in"
    assert exit_code([verdict]) == EXIT_HEALTHY


def test_spark_query_is_not_told_to_poll() -> None:
    line = "26/11/18 17:03:00 WARN slackwater.spark.member: [Consumer clientId=q, groupId=g] No poll() for 92000 ms"
    scenario = Scenario()
    scenario.log("q", EventKind.MEMBER_JOINED, 1, generation=1, line=line)
    scenario.log("q", EventKind.POLL_OVERRUN, 180, detail={"limit_ms": 60_000, "over_ms": 32_000}, line=line)
    scenario.log("q", EventKind.MEMBER_JOINED, 213, generation=3, line=line)
    verdict = scenario.verdict()
    assert (verdict.cause, verdict.library) == ("poll_delay", "spark")
    assert verdict.incident_began_ms == START_MS + 180_000
    first = verdict.prescriptions[0]
    assert first.what.startswith("read fewer records per micro-batch")
    assert place_to_paste(first, "spark").startswith("set as an option of readStream")
    assert '.option("maxOffsetsPerTrigger", <43 % of the present value>)' in first.properties["spark"]
    assert not any("poll()" in item.what or "poll thread" in item.what for item in verdict.prescriptions)


def test_group_of_one_member_is_not_shared() -> None:
    scenario = late(Scenario().start("b"))
    assert not any("read the same topics" in text for text in scenario.verdict().missing_input)
    shared = late(Scenario().start("a", "b"))
    assert any("read the same topics" in text for text in shared.verdict().missing_input)
