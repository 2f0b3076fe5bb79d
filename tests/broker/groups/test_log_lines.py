"""Tests that the broker logs Kafka 4.x's lines."""

from slackwater.broker.groups.log_lines import CoordinatorLogLines
from slackwater.group.errors import Error

from ...conformance.coordinator_harness import CoordinatorHarness, join_protocols

PREFIX = "[GroupCoordinator id=1 topic=__consumer_offsets partition=0] "


class LoggedCoordinator:
    """A coordinator harness and the log lines of its events."""

    def __init__(self) -> None:
        self.harness = CoordinatorHarness()
        self.log = CoordinatorLogLines(1, 0)
        self.seen = 0

    def lines(self) -> str:
        """Return the lines logged since the last call, without the prefix."""
        lines = list(self.log.render(self.harness.events.since(self.seen)))
        self.seen = self.harness.events.mark()
        assert all(line.startswith(PREFIX) for line in lines)
        return "\n".join(line.removeprefix(PREFIX) for line in lines)


def test_first_generation_lines() -> None:
    logged = LoggedCoordinator()
    (a,) = logged.harness.stable_group("a")

    assert logged.lines() == (
        f"Dynamic member with unknown member id joins group orders in Empty state. Created a new member id {a.id} and "
        "requesting the member to rejoin with this id.\n"
        f"Pending dynamic member with id {a.id} joins group orders in Empty state. Adding to the group now.\n"
        "Preparing to rebalance group orders in state PreparingRebalance with old generation 0 (reason: Adding new "
        f"member {a.id} with group instance id null; client reason: not provided).\n"
        "Stabilized group orders generation 1 with 1 members.\n"
        f"Assignment received from leader {a.id} for group orders for generation 1. The group has 1 members, 0 of "
        "which are static."
    )


def test_leave_that_empties_group_lines() -> None:
    logged = LoggedCoordinator()
    (a,) = logged.harness.stable_group("a")
    logged.lines()
    a.leave()

    assert logged.lines() == (
        f"[Group orders] Member {a.id} has left group through explicit `LeaveGroup` request; client reason: "
        "not provided\n"
        "Preparing to rebalance group orders in state PreparingRebalance with old generation 1 (reason: explicit "
        f"`LeaveGroup` request for ({a.id}) members.).\n"
        "Group orders with generation 2 is now empty."
    )


def test_dropped_members_are_one_line() -> None:
    logged = LoggedCoordinator()
    a, b, c = logged.harness.stable_group("a", "b", "c")
    timeout_ms = logged.harness.group.rebalance_timeout_ms()
    a.join()
    for _ in range(timeout_ms // 3_000 + 1):
        b.heartbeat()
        c.heartbeat()
        logged.harness.advance_ms(3_000)

    assert f"Group orders removed dynamic members who haven't joined: [{b.id}, {c.id}]\n" in logged.lines()


def test_expired_member_lines() -> None:
    logged = LoggedCoordinator()
    a, b = logged.harness.stable_group("a", "b")
    for _ in range(20):
        a.heartbeat()
        logged.harness.advance_ms(3_000)

    assert f"Member {b.id} in group orders has failed, removing it from the group.\n" in logged.lines()


def test_static_rejoin_and_fencing_lines() -> None:
    logged = LoggedCoordinator()
    a, _ = logged.harness.stable_group("a", "b", static=True)
    old_id = a.id
    logged.lines()
    replacement = logged.harness.member("back", instance="a")
    assert replacement.send_join().response.error is Error.NONE
    a.heartbeat()

    lines = logged.lines().splitlines()
    joins = "Static member with groupInstanceId=a and unknown member id joins group orders in Stable state. "
    assert lines[0] == f"{joins}Replacing previously mapped member {old_id} with this groupInstanceId."
    assert lines[1] == (
        "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger a "
        "rebalance."
    )
    assert lines[-1] == (
        f"Request memberId={old_id} for static member with groupInstanceId=a is fenced by existing "
        f"memberId={replacement.id} "
        "during operation heartbeat"
    )


def test_reload_lines() -> None:
    logged = LoggedCoordinator()
    logged.harness.stable_group("a", "b", static=True)
    logged.lines()
    logged.harness.restart()

    assert logged.lines() == "Loaded classic group orders with 2 members."


def test_leader_rejoin_lines() -> None:
    for protocols in (join_protocols("range"), join_protocols("range", topics=("t", "u"))):
        logged = LoggedCoordinator()
        (a,) = logged.harness.stable_group("a")
        logged.lines()
        a.protocols = protocols
        a.join()

        assert logged.lines().splitlines()[0] == (
            "Preparing to rebalance group orders in state PreparingRebalance with old generation 1 (reason: Leader "
            f"{a.id} re-joining group during Stable; client reason: not provided)."
        )
