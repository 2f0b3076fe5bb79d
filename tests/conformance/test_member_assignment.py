"""Leader assignment, metadata monitoring and subscriptions: CL-25 … CL-30."""

from collections.abc import Mapping
from typing import Any

import pytest

from slackwater.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    MemberSubscription,
    RangeAssignor,
    RebalanceProtocol,
    StickyAssignor,
    TopicInfo,
)
from slackwater.group.assignors.consumer_protocol import Assignment, decode_assignment
from slackwater.group.errors import Error, PeerError, UsageError
from slackwater.group.events import EventKind, Trigger
from slackwater.group.member import AssignorFailed, Callback, MemberConfig
from slackwater.group.messages import (
    HeartbeatResponse,
    JoinedMember,
    JoinGroup,
    JoinGroupResponse,
    SyncGroup,
    SyncGroupResponse,
)

from .member_harness import COOPERATIVE, MemberHarness, subscription_bytes, tps

OTHER = JoinedMember("m2", None, subscription_bytes("t"))


class CustomAssignor(Assignor):
    """A user-defined assignor that returns a fixed assignment or raises."""

    name = "foreign"
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def __init__(self, result: Mapping[str, str] | Exception) -> None:
        self.result = result

    def assign(
        self, cluster: Mapping[str, TopicInfo], members: Mapping[str, MemberSubscription]
    ) -> dict[str, Assignment]:
        if isinstance(self.result, Exception):
            raise self.result
        return {member_id: Assignment(tps(partitions)) for member_id, partitions in self.result.items()}


def parts(member: MemberHarness) -> dict[str, tuple[Any, ...]]:
    """Return the assignments of the pending SyncGroup."""
    return {
        member_id: tuple(decode_assignment(part).partitions) for member_id, part in member.sent(SyncGroup).assignments
    }


def stable_leader(*others: JoinedMember, **settings: Any) -> MemberHarness:
    """Return the stable leader of generation 1."""
    member = MemberHarness(**settings).find().lead(1, *others)
    return member.sync_ok("t-0").poll()


# --- protocol ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-25")
@pytest.mark.parametrize(
    ("assignors", "protocol"),
    [
        ((CooperativeStickyAssignor(), RangeAssignor()), RebalanceProtocol.EAGER),
        ((RangeAssignor(), CooperativeStickyAssignor()), RebalanceProtocol.EAGER),
        ((CooperativeStickyAssignor(),), RebalanceProtocol.COOPERATIVE),
        ((RangeAssignor(), StickyAssignor()), RebalanceProtocol.EAGER),
    ],
)
def test_protocol_is_highest_of_all_assignors(assignors: tuple[Assignor, ...], protocol: RebalanceProtocol) -> None:
    assert MemberConfig(group_id="g", client_id="c", assignors=assignors).protocol is protocol


@pytest.mark.proves("CL-25")
def test_default_assignors_are_eager() -> None:
    config = MemberConfig(group_id="g", client_id="c")
    assert [assignor.name for assignor in config.assignors] == ["range", "cooperative-sticky"]
    assert config.protocol is RebalanceProtocol.EAGER


@pytest.mark.proves("CL-25")
@pytest.mark.parametrize("assignors", [(RangeAssignor(), CustomAssignor({})), ()])
def test_assignors_without_common_protocol_are_rejected(assignors: tuple[Assignor, ...]) -> None:
    with pytest.raises(UsageError, match="has no rebalance protocol in common"):
        MemberConfig(group_id="g", client_id="c", assignors=assignors)


# --- leader -----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-26")
def test_leader_assigns_for_all_members() -> None:
    member = MemberHarness().find().lead(1, OTHER)
    assert parts(member) == {"m1": tps("t-0 t-1"), "m2": tps("t-2 t-3")}
    assert member.machine.is_leader


@pytest.mark.proves("CL-26")
def test_leader_fetches_metadata_of_followers_topics() -> None:
    member = MemberHarness(cluster={"t": 4}).find()
    member.cluster = None
    member.lead(1, JoinedMember("m2", None, subscription_bytes("u")))
    assert not member.sends(SyncGroup)
    assert member.refreshes[-1].topics == ("t", "u")
    member.advance_ms(30_000).tick()
    assert member.refreshes[-1].topics == ("t", "u"), "the refresh is repeated in case the first was lost"
    member.execute(member.machine.on_metadata({"t": TopicInfo(4), "u": TopicInfo(1)}, member.now_ms))
    assert parts(member) == {"m1": tps("t-0 t-1 t-2 t-3"), "m2": tps("u-0")}


@pytest.mark.proves("CL-26")
@pytest.mark.parametrize(
    ("topics", "trigger"),
    [
        ({"t": 5, "u": 2}, Trigger.PARTITIONS_ADDED),
        ({"t": 4, "u": 3}, Trigger.PARTITIONS_ADDED),
        ({"u": 2}, Trigger.TOPIC_DELETED),
    ],
)
def test_leader_rejoins_when_topic_of_any_member_changes(topics: dict[str, int], trigger: Trigger) -> None:
    member = stable_leader(JoinedMember("m2", None, subscription_bytes("u")))
    assert not member.needs_rejoin()
    member.execute(member.machine.on_metadata({topic: TopicInfo(n) for topic, n in topics.items()}, member.now_ms))
    assert member.needs_rejoin()
    assert not member.sends(JoinGroup)
    member.poll()
    assert member.sent(JoinGroup).reason == "cached metadata has changed"
    assert member.events_of(EventKind.JOIN_REQUESTED)[-1].trigger is trigger


@pytest.mark.proves("CL-26")
def test_unsubscribed_topic_is_ignored() -> None:
    member = stable_leader(OTHER)
    member.execute(member.machine.on_metadata({"t": TopicInfo(4), "x": TopicInfo(9)}, member.now_ms)).poll()
    assert not member.sends(JoinGroup)


@pytest.mark.proves("CL-26")
def test_follower_does_not_monitor_metadata() -> None:
    member = MemberHarness().settle("t-0")
    member.execute(member.machine.on_metadata({"t": TopicInfo(9)}, member.now_ms)).poll()
    assert not member.needs_rejoin()


@pytest.mark.proves("CL-26")
def test_former_leader_does_not_monitor_metadata() -> None:
    member = stable_leader(OTHER)
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).poll().join_ok(2, leader="m2").sync_ok("t-0").poll()
    assert not member.machine.is_leader
    member.execute(member.machine.on_metadata({"t": TopicInfo(9)}, member.now_ms)).poll()
    assert not member.sends(JoinGroup)


@pytest.mark.proves("CL-26")
@pytest.mark.parametrize(("rack", "rejoins"), [("r1", True), (None, False)])
def test_racks_are_monitored_only_by_client_with_rack(rack: str | None, rejoins: bool) -> None:
    member = MemberHarness(client_rack=rack)
    member.cluster = {"t": TopicInfo(1, (frozenset({"r1"}),))}
    member.execute(member.machine.on_metadata(member.cluster, member.now_ms)).find().lead(1).sync_ok("t-0").poll()
    member.execute(member.machine.on_metadata({"t": TopicInfo(1, (frozenset({"r2"}),))}, member.now_ms))
    assert member.needs_rejoin() is rejoins


@pytest.mark.proves("CL-26")
def test_metadata_change_during_assignment_rebalances() -> None:
    member = MemberHarness().find().lead(1)
    member.execute(member.machine.on_metadata({"t": TopicInfo(5)}, member.now_ms))
    member.sync_ok("t-0 t-1 t-2 t-3").poll()
    assert (Callback.ASSIGNED, tps("t-0 t-1 t-2 t-3")) in member.take_callbacks()
    assert member.sent(JoinGroup).reason == "cached metadata has changed"


@pytest.mark.proves("CL-26")
def test_error_names_member_with_invalid_subscription() -> None:
    member = MemberHarness().find().lead(1, JoinedMember("m2", None, b"\x00")).poll()
    (raised,) = member.raised
    assert isinstance(raised, PeerError)
    assert "m2" in str(raised)
    assert not member.sends(SyncGroup)


@pytest.mark.proves("CL-26")
@pytest.mark.parametrize("leads", [True, False])
def test_unknown_protocol_of_coordinator_is_raised(leads: bool) -> None:
    member = MemberHarness().find()
    send = member.send_of(JoinGroup)
    response: Any = {"member_id": "m1", "generation_id": 1, "protocol_name": "odd", "leader": "m1" if leads else "m0"}
    member.execute(
        member.machine.on_response(send.request_id, JoinGroupResponse(Error.NONE, **response), member.now_ms)
    )
    if not leads:
        member.sync_ok("t-0")
    member.poll()
    assert "Coordinator selected invalid assignment protocol: odd" in str(member.raised[0])


@pytest.mark.proves("CL-26")
def test_invalid_assignment_bytes_are_raised() -> None:
    member = MemberHarness().find().join_ok(1).respond(SyncGroupResponse(Error.NONE, assignment=b"\x00\x00\x01")).poll()
    (raised,) = member.raised
    assert isinstance(raised, PeerError)
    assert member.owned() == ()


@pytest.mark.proves("CL-26")
def test_coordinator_loss_during_metadata_fetch_fails_join() -> None:
    member = MemberHarness(cluster={"t": 4}).find()
    member.cluster = None
    member.lead(1, JoinedMember("m2", None, subscription_bytes("u")))
    member.heartbeat(Error.NOT_COORDINATOR)
    member.execute(member.machine.on_metadata({"t": TopicInfo(4)}, member.now_ms))
    assert not member.sends(SyncGroup)
    assert member.needs_rejoin()


@pytest.mark.proves("CL-26")
def test_generation_loss_during_metadata_fetch_fails_join() -> None:
    member = MemberHarness(cluster={"t": 4}).find()
    member.cluster = None
    member.lead(1, JoinedMember("m2", None, subscription_bytes("u")))
    member.advance_ms(3_000).tick().respond(HeartbeatResponse(Error.UNKNOWN_MEMBER_ID))
    member.execute(member.machine.on_metadata({"t": TopicInfo(4)}, member.now_ms)).poll()
    assert member.sent(JoinGroup).member_id == ""


# --- subscriptions ----------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-27")
def test_changed_subscription_rejoins_at_next_poll() -> None:
    member = MemberHarness().settle("t-0")
    member.execute(member.machine.subscribe(["t", "u"], member.now_ms))
    assert member.needs_rejoin()
    assert not member.sends(JoinGroup)
    member.poll()
    assert member.sent(JoinGroup).reason == "subscription has changed"
    assert member.sent_subscription().topics == ("t", "u")
    event = member.events_of(EventKind.JOIN_REQUESTED)[-1]
    assert event.trigger is Trigger.SUBSCRIPTION_CHANGE
    assert "subscription has changed from [t] at the beginning of the rebalance to [t, u]" in str(event.detail)


@pytest.mark.proves("CL-27")
def test_same_subscription_does_not_rejoin() -> None:
    member = MemberHarness().settle("t-0")
    member.execute(member.machine.subscribe(["t"], member.now_ms)).poll()
    assert not member.sends(JoinGroup)


@pytest.mark.proves("CL-28")
def test_pattern_uses_fresh_metadata_before_each_join() -> None:
    member = MemberHarness(pattern="t.*", cluster={"t": 1, "t2": 1, "u": 1})
    assert member.refreshes[-1].topics is None
    member.find()
    assert member.sent_subscription().topics == ("t", "t2")
    member.join_ok(1).sync_ok("t-0").poll()
    assert member.cluster is not None
    cluster, member.cluster = member.cluster, None
    refreshes = len(member.refreshes)
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).poll().poll()
    assert len(member.refreshes) == refreshes + 1
    assert not member.sends(JoinGroup), "the join waits for the metadata"
    member.execute(member.machine.on_metadata(cluster | {"t3": TopicInfo(1)}, member.now_ms)).poll()
    assert member.sent_subscription().topics == ("t", "t2", "t3")


@pytest.mark.proves("CL-28")
def test_new_matching_topic_rejoins() -> None:
    member = MemberHarness(pattern="t.*", cluster={"t": 1}).settle("t-0")
    assert member.cluster is not None
    member.cluster["t2"] = TopicInfo(1)
    member.execute(member.machine.on_metadata(member.cluster, member.now_ms)).poll()
    assert member.sent(JoinGroup).reason == "subscription has changed"
    assert member.events_of(EventKind.JOIN_REQUESTED)[-1].trigger is Trigger.PATTERN_MATCHED


@pytest.mark.proves("CL-28")
def test_assigned_topics_that_match_pattern_are_adopted() -> None:
    member = MemberHarness(pattern="t.*", cluster={"t": 1}).settle("t-0 t9-0")
    assert member.owned() == tps("t-0 t9-0")
    assert member.machine.subscription == {"t", "t9"}
    assert not member.poll().sends(JoinGroup)


@pytest.mark.proves("CL-28", "CL-24")
def test_topics_that_do_not_match_are_not_adopted() -> None:
    member = MemberHarness(pattern="t.*", cluster={"t": 1}).find().join_ok(1).sync_ok("t-0 u-0").poll()
    assert member.owned() == ()
    member.poll()
    assert member.sent(JoinGroup).reason == "received assignment does not match the current subscription"


@pytest.mark.proves("CL-28")
@pytest.mark.parametrize(("exclude", "topics"), [(True, ("t",)), (False, ("__consumer_offsets", "t"))])
def test_internal_topics_match_only_if_enabled(exclude: bool, topics: tuple[str, ...]) -> None:
    cluster = {"t": 1, "__consumer_offsets": 50}
    member = MemberHarness(pattern=".*", cluster=cluster, exclude_internal_topics=exclude).find()
    assert member.sent_subscription().topics == topics


# --- custom assignors -------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-29")
def test_cooperative_assignor_must_not_move_owned_partitions() -> None:
    member = MemberHarness(assignors=(CustomAssignor({"m1": "t-1", "m2": "t-0"}),)).find()
    owner = JoinedMember("m1", None, subscription_bytes("t", owned="t-0 t-1", generation_id=1))
    member.join_ok(2, leader="m1", members=(owner, OTHER)).poll()
    (raised,) = member.raised
    assert isinstance(raised, AssignorFailed)
    assert "violates its requirements: foreign reassigned t-0" in str(raised)
    assert not member.sends(SyncGroup)


@pytest.mark.proves("CL-29")
def test_custom_cooperative_assignor_can_revoke_first() -> None:
    member = MemberHarness(assignors=(CustomAssignor({"m1": "t-1", "m2": "v-0"}),)).find()
    owner = JoinedMember("m1", None, subscription_bytes("t", owned="t-0 t-1", generation_id=1))
    member.join_ok(2, leader="m1", members=(owner, OTHER))
    assert parts(member) == {"m1": tps("t-1"), "m2": tps("v-0")}
    assert member.machine.metadata_topics == frozenset({"t", "v"}), "topics outside all subscriptions are monitored too"


@pytest.mark.proves("CL-29")
def test_built_in_cooperative_assignor_is_not_checked() -> None:
    member = MemberHarness(assignors=COOPERATIVE).find()
    owner = JoinedMember("m1", None, subscription_bytes("t", owned="t-0 t-1 t-2 t-3", generation_id=1))
    other = JoinedMember("m2", None, subscription_bytes("t", owned="t-0", generation_id=2))
    member.join_ok(3, leader="m1", members=(owner, other))
    assert not member.poll().raised
    assert tps("t-0")[0] in parts(member)["m2"], "the claim of the newer generation wins"


@pytest.mark.proves("CL-29")
def test_assignor_that_throws_is_raised() -> None:
    member = MemberHarness(assignors=(CustomAssignor(ValueError("odd")),)).find().lead(1).poll()
    assert isinstance(member.raised[0], AssignorFailed)
    assert "foreign threw ValueError('odd')" in str(member.raised[0])


# --- skip_assignment --------------------------------------------------------------------------------------------------


@pytest.mark.proves("CL-30")
def test_static_leader_with_skip_assignment_keeps_monitoring() -> None:
    member = MemberHarness(group_instance_id="i1").find().lead(7, OTHER, skip_assignment=True)
    assert member.sent(SyncGroup).assignments == ()
    member.sync_ok("t-0 t-1").poll()
    assert member.owned() == tps("t-0 t-1")
    member.execute(member.machine.on_metadata({"t": TopicInfo(9)}, member.now_ms))
    assert member.needs_rejoin()


@pytest.mark.proves("CL-30")
def test_static_leader_notices_partitions_added_in_between() -> None:
    member = (
        MemberHarness(group_instance_id="i1", max_poll_interval_ms=10_000)
        .find()
        .lead(7, OTHER)
        .sync_ok("t-0 t-1")
        .poll()
    )
    member.advance_ms(10_000).tick()
    member.execute(member.machine.on_metadata({"t": TopicInfo(5)}, member.now_ms))
    member.cluster = {"t": TopicInfo(5)}
    member.poll().lead(7, OTHER, skip_assignment=True).sync_ok("t-0 t-1").poll()
    assert member.sent(JoinGroup).reason == "cached metadata has changed"
    member.lead(8, OTHER)
    assert parts(member) == {"m1": tps("t-0 t-1 t-2"), "m2": tps("t-3 t-4")}
    assert not member.sync_ok("t-0 t-1 t-2").poll().sends(JoinGroup)


@pytest.mark.proves("CL-26")
def test_sticky_user_data_is_sent_after_eager_revocation() -> None:
    member = MemberHarness(assignors=(StickyAssignor(),)).settle("t-0 t-1")
    member.heartbeat(Error.REBALANCE_IN_PROGRESS).poll()
    subscription = member.sent_subscription()
    assert len(subscription.owned_partitions) == 0
    assert subscription.user_data == StickyAssignor().user_data(tps("t-0 t-1"), 1)
