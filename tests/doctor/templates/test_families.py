"""Lines of the Java consumer without a prefix, ruby-kafka and librdkafka's debug output."""

import pytest

from slackwater.doctor.templates.registry import FAMILIES
from slackwater.doctor.templates.wording import TemplateSet
from tests.doctor.lines import rdkafka

TEMPLATES = TemplateSet(FAMILIES)
HEAD = "2026-05-01 10:00:00 INFO  AbstractCoordinator:505 - "
G = {"group": "g"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (HEAD + "(Re-)joining group g", {}),
        (HEAD + "Successfully joined group g with generation 4", {"kind": "member_joined", "generation": "4", **G}),
        (
            HEAD + "Marking the coordinator a:9092 (id: 1 rack: null) dead for group g",
            {"kind": "coordinator_lost", **G},
        ),
        (HEAD + "Discovered coordinator a:9092 (id: 1 rack: null) for group g.", {"kind": "coordinator_found", **G}),
        (HEAD + "Revoking previously assigned partitions [t-0] for group g", {"kind": "partitions_revoked", **G}),
        (HEAD + "Setting newly assigned partitions [t-0] for group g", {"kind": "partitions_assigned", **G}),
        (
            HEAD + "Attempt to heartbeat failed for group g since it is rebalancing.",
            {"kind": "heartbeat_refused", "error": "REBALANCE_IN_PROGRESS", **G},
        ),
        (HEAD + "Auto offset commit failed for group g: late", {"kind": "commit_refused", "error": "late", **G}),
        ("I, [x] Joining group `g`", {}),
        ("I, [x] Joined group `g` with member id `m-1`", {"kind": "member_joined", "member": "m-1", **G}),
        ("Error sending heartbeat: Kafka::UnknownMemberId", {"kind": "session_lost", "error": "UNKNOWN_MEMBER_ID"}),
        ("Error sending heartbeat: Kafka::RebalanceInProgress", {"kind": "heartbeat_refused"}),
        ("Failed to join group; resetting member id and retrying in 1s...", {"kind": "rebalance_failed"}),
        (rdkafka("CGRPCOORD", 'Group "g" changing coordinator 3 -> 2'), {}),
        (
            rdkafka("REJOIN", 'Group "g": subscription updated from metadata change: rejoining group'),
            {"kind": "join_requested", "trigger": "subscription_change", **G},
        ),
    ],
)
def test_line_of_family_is_parsed(line: str, expected: dict[str, str]) -> None:
    values = TEMPLATES.read(line)
    assert values, "no template matches this line"
    assert {slot: values.get(slot) for slot in expected} == expected
    assert bool(values.get("kind")) == bool(expected)
