"""The broker's log has Kafka 4.x's lines."""

from slackwater.broker.groups.log_lines import CoordinatorLogLines
from slackwater.group.errors import Error

from ...conformance.room import Room, offering

PREFIX = "[GroupCoordinator id=1 topic=__consumer_offsets partition=0] "


class Story:
    """A room, and the lines of what happens in it."""

    def __init__(self) -> None:
        self.room = Room()
        self.log = CoordinatorLogLines(1, 0)
        self.seen = 0

    def lines(self) -> str:
        """What was logged since the last call, one line each, without the prefix."""
        lines = list(self.log.render(self.room.events.since(self.seen)))
        self.seen = self.room.events.mark()
        assert all(line.startswith(PREFIX) for line in lines)
        return "\n".join(line.removeprefix(PREFIX) for line in lines)


def test_a_groups_first_generation_reads_as_in_kafka() -> None:
    story = Story()
    (a,) = story.room.settled("a")

    assert story.lines() == (
        f"Dynamic member with unknown member id joins group orders in Empty state. Created a new member id {a.id} and "
        "requesting the member to rejoin with this id.\n"
        f"Pending dynamic member with id {a.id} joins group orders in Empty state. Adding to the group now.\n"
        "Preparing to rebalance group orders in state PreparingRebalance with old generation 0 (reason: Adding new "
        f"member {a.id} with group instance id null; client reason: not provided).\n"
        "Stabilized group orders generation 1 with 1 members.\n"
        f"Assignment received from leader {a.id} for group orders for generation 1. The group has 1 members, 0 of "
        "which are static."
    )


def test_a_leave_that_empties_the_group_reads_as_in_kafka() -> None:
    story = Story()
    (a,) = story.room.settled("a")
    story.lines()
    a.leave()

    assert story.lines() == (
        f"[Group orders] Member {a.id} has left group through explicit `LeaveGroup` request; client reason: "
        "not provided\n"
        "Preparing to rebalance group orders in state PreparingRebalance with old generation 1 (reason: explicit "
        f"`LeaveGroup` request for ({a.id}) members.).\n"
        "Group orders with generation 2 is now empty."
    )


def test_members_that_did_not_rejoin_stand_on_one_line() -> None:
    story = Story()
    a, b, c = story.room.settled("a", "b", "c")
    timeout_ms = story.room.group.rebalance_timeout_ms()
    a.join()
    for _ in range(timeout_ms // 3_000 + 1):
        b.heartbeat()
        c.heartbeat()
        story.room.pass_ms(3_000)

    assert f"Group orders removed dynamic members who haven't joined: [{b.id}, {c.id}]\n" in story.lines()


def test_a_member_that_fell_silent_reads_as_in_kafka() -> None:
    story = Story()
    a, b = story.room.settled("a", "b")
    for _ in range(20):
        a.heartbeat()
        story.room.pass_ms(3_000)

    assert f"Member {b.id} in group orders has failed, removing it from the group.\n" in story.lines()


def test_a_static_return_and_its_fenced_twin_read_as_in_kafka() -> None:
    story = Story()
    a, _ = story.room.settled("a", "b", static=True)
    old_id = a.id
    story.lines()
    back = story.room.member("back", instance="a")
    assert back.ask_to_join().answer.error is Error.NONE
    a.heartbeat()

    lines = story.lines().splitlines()
    joins = "Static member with groupInstanceId=a and unknown member id joins group orders in Stable state. "
    assert lines[0] == f"{joins}Replacing previously mapped member {old_id} with this groupInstanceId."
    assert lines[1] == (
        "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger a "
        "rebalance."
    )
    assert lines[-1] == (
        f"Request memberId={old_id} for static member with groupInstanceId=a is fenced by existing memberId={back.id} "
        "during operation heartbeat"
    )


def test_a_reload_reads_as_in_kafka() -> None:
    story = Story()
    story.room.settled("a", "b", static=True)
    story.lines()
    story.room.restart()

    assert story.lines() == "Loaded classic group orders with 2 members."


def test_a_leaders_rejoin_reads_as_in_kafka_whether_its_metadata_changed_or_not() -> None:
    for protocols in (offering("range"), offering("range", topics=("t", "u"))):
        story = Story()
        (a,) = story.room.settled("a")
        story.lines()
        a.protocols = protocols
        a.join()

        assert story.lines().splitlines()[0] == (
            "Preparing to rebalance group orders in state PreparingRebalance with old generation 1 (reason: Leader "
            f"{a.id} re-joining group during Stable; client reason: not provided)."
        )
