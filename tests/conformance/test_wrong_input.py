"""Malformed or contradictory requests get the right error and change nothing."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from slackwater.group.errors import Error
from slackwater.group.events import GroupState
from slackwater.group.messages import (
    CommittedPartition,
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsResponse,
    DescribeGroups,
    FetchedGroup,
    FetchedOffset,
    GroupToFetch,
    Heartbeat,
    HeartbeatResponse,
    JoinGroupResponse,
    JoinProtocol,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    ListGroups,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetDeleteResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetToCommit,
    Request,
    Response,
    SyncGroup,
    SyncGroupResponse,
)

from .coordinator_harness import GROUP, CoordinatorHarness, Member, join_protocols

OVERLONG = struct.pack(">hi", 3, 2**31 - 1)
OFFSETS = (OffsetToCommit("t", 0, 1), OffsetToCommit("t", 1, 1))


class Case(NamedTuple):
    """A wrong request of member a, or of somebody who is none, and the response it deserves."""

    request: Request
    response: Response


def refused_joins(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """JoinGroup, from a member and from a newcomer."""
    member, newcomer = a.join_request(), replace(a.join_request(), member_id="", group_instance_id=None)
    for name, join in (("member", member), ("newcomer", newcomer)):
        mine = join.member_id

        def refused(error: Error, member_id: str = mine) -> JoinGroupResponse:
            return JoinGroupResponse(error, member_id=member_id)

        yield f"{name}: null group", Case(replace(join, group_id=None), refused(Error.INVALID_GROUP_ID))
        yield f"{name}: empty group", Case(replace(join, group_id=""), refused(Error.INVALID_GROUP_ID))
        for session_ms in (-(2**31), -1, 0, 5_999, 1_800_001, 2**31 - 1):
            wrong = replace(join, session_timeout_ms=session_ms)
            yield f"{name}: session {session_ms}", Case(wrong, refused(Error.INVALID_SESSION_TIMEOUT))
        both_wrong = replace(join, group_id="", session_timeout_ms=0, protocols=())
        yield f"{name}: everything", Case(both_wrong, refused(Error.INVALID_GROUP_ID))
        mismatch = refused(Error.INCONSISTENT_GROUP_PROTOCOL)
        yield f"{name}: other type", Case(replace(join, protocol_type="connect"), mismatch)
        yield f"{name}: no type", Case(replace(join, protocol_type=""), mismatch)
        yield f"{name}: no protocols", Case(replace(join, protocols=()), mismatch)
        yield f"{name}: no common protocol", Case(replace(join, protocols=join_protocols("x")), mismatch)
        yield f"{name}: a protocol twice", Case(replace(join, protocols=join_protocols("range", "range")), mismatch)
        overlong = replace(join, protocols=(JoinProtocol("range", OVERLONG),))
        yield f"{name}: overlong array", Case(overlong, refused(Error.INVALID_REQUEST))
    stranger = replace(member, member_id="stranger", group_instance_id=None)
    yield "stranger", Case(stranger, JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id="stranger"))
    fenced = replace(member, group_instance_id="b")
    yield "twin", Case(fenced, JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id=a.id))
    nowhere = replace(member, group_instance_id="nowhere")
    yield "unknown instance", Case(nowhere, JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=a.id))
    absent = replace(member, group_id="absent")
    yield "absent group", Case(absent, JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=a.id))


def refused_syncs(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """SyncGroup."""
    sync = SyncGroup(GROUP, a.id, a.instance, a.harness.generation, "consumer", "range", ((b.id, b"gift"),))
    for name, wrong, error in (
        ("null group", replace(sync, group_id=None), Error.INVALID_GROUP_ID),
        ("empty group", replace(sync, group_id=""), Error.INVALID_GROUP_ID),
        ("absent group", replace(sync, group_id="absent"), Error.UNKNOWN_MEMBER_ID),
        ("stranger", replace(sync, member_id="stranger", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        ("nobody", replace(sync, member_id="", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        ("twin", replace(sync, member_id=b.id), Error.FENCED_INSTANCE_ID),
        ("unknown instance", replace(sync, group_instance_id="nowhere"), Error.UNKNOWN_MEMBER_ID),
        ("earlier generation", replace(sync, generation_id=-1), Error.ILLEGAL_GENERATION),
        ("later generation", replace(sync, generation_id=2**31 - 1), Error.ILLEGAL_GENERATION),
        ("other type", replace(sync, protocol_type="connect"), Error.INCONSISTENT_GROUP_PROTOCOL),
        ("no type", replace(sync, protocol_type=None, requires_protocol=True), Error.INCONSISTENT_GROUP_PROTOCOL),
        ("no name", replace(sync, protocol_name=None, requires_protocol=True), Error.INCONSISTENT_GROUP_PROTOCOL),
    ):
        yield name, Case(wrong, SyncGroupResponse(error))


def refused_heartbeats(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """Heartbeat."""
    beat = Heartbeat(GROUP, a.id, a.instance, a.harness.generation)
    for name, wrong, error in (
        ("null group", replace(beat, group_id=None), Error.INVALID_GROUP_ID),
        ("empty group", replace(beat, group_id=""), Error.INVALID_GROUP_ID),
        ("absent group", replace(beat, group_id="absent"), Error.UNKNOWN_MEMBER_ID),
        ("stranger", replace(beat, member_id="stranger", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        ("nobody", replace(beat, member_id="", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        ("twin", replace(beat, member_id=b.id), Error.FENCED_INSTANCE_ID),
        ("no id under an instance", replace(beat, member_id=""), Error.FENCED_INSTANCE_ID),
        ("unknown instance", replace(beat, group_instance_id="nowhere"), Error.UNKNOWN_MEMBER_ID),
        ("earlier generation", replace(beat, generation_id=-(2**31)), Error.ILLEGAL_GENERATION),
        ("later generation", replace(beat, generation_id=2**31 - 1), Error.ILLEGAL_GENERATION),
    ):
        yield name, Case(wrong, HeartbeatResponse(error))


def refused_leaves(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """LeaveGroup."""
    yield "null group", Case(LeaveGroup(None, (LeavingMember(a.id),)), LeaveGroupResponse(Error.INVALID_GROUP_ID))
    yield "empty group", Case(LeaveGroup("", (LeavingMember(a.id),)), LeaveGroupResponse(Error.INVALID_GROUP_ID))
    yield "nobody at all", Case(LeaveGroup(GROUP, ()), LeaveGroupResponse(Error.NONE))
    for name, leaver, error in (
        ("stranger", LeavingMember("stranger"), Error.UNKNOWN_MEMBER_ID),
        ("nobody", LeavingMember(""), Error.UNKNOWN_MEMBER_ID),
        ("nobody from nowhere", LeavingMember("", "nowhere"), Error.UNKNOWN_MEMBER_ID),
        ("twin", LeavingMember(b.id, "a"), Error.FENCED_INSTANCE_ID),
        ("unknown instance", LeavingMember(a.id, "nowhere"), Error.UNKNOWN_MEMBER_ID),
    ):
        response = LeaveGroupResponse(Error.NONE, (LeftMember(leaver.member_id, leaver.group_instance_id, error),))
        yield name, Case(LeaveGroup(GROUP, (leaver,)), response)
        if leaver.member_id != b.id:
            yield (
                f"{name}, twice",
                Case(LeaveGroup(GROUP, (leaver,) * 2), replace(response, members=response.members * 2)),
            )


def refused_commits(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """OffsetCommit."""
    commit = OffsetCommit(GROUP, a.id, a.instance, a.harness.generation, OFFSETS)
    for name, wrong, error in (
        ("null group", replace(commit, group_id=None), Error.INVALID_GROUP_ID),
        ("absent group", replace(commit, group_id="absent"), Error.GROUP_ID_NOT_FOUND),
        ("stranger", replace(commit, member_id="stranger", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        ("nobody", replace(commit, member_id="", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        (
            "from outside",
            replace(commit, member_id="", group_instance_id=None, generation_id=-1),
            Error.UNKNOWN_MEMBER_ID,
        ),
        ("twin", replace(commit, member_id=b.id), Error.FENCED_INSTANCE_ID),
        ("unknown instance", replace(commit, group_instance_id="nowhere"), Error.UNKNOWN_MEMBER_ID),
        ("no generation", replace(commit, generation_id=-1), Error.ILLEGAL_GENERATION),
        ("later generation", replace(commit, generation_id=2**31 - 1), Error.ILLEGAL_GENERATION),
    ):
        response = OffsetCommitResponse((CommittedPartition("t", 0, error), CommittedPartition("t", 1, error)))
        yield name, Case(wrong, response)
        yield f"{name}, nothing to commit", Case(replace(wrong, offsets=()), OffsetCommitResponse(()))


def refused_by_administration(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """OffsetFetch, OffsetDelete, DeleteGroups."""
    null = FetchedGroup(None, Error.INVALID_GROUP_ID)
    yield "fetch null", Case(OffsetFetch((GroupToFetch(None, (("t", 0),)),)), OffsetFetchResponse((null,)))
    yield "fetch nothing", Case(OffsetFetch(()), OffsetFetchResponse(()))
    yield (
        "delete null",
        Case(DeleteGroups((None,)), DeleteGroupsResponse((DeletedGroup(None, Error.INVALID_GROUP_ID),))),
    )
    yield "delete nothing", Case(DeleteGroups(()), DeleteGroupsResponse(()))
    yield (
        "delete the living",
        Case(DeleteGroups((GROUP,)), DeleteGroupsResponse((DeletedGroup(GROUP, Error.NON_EMPTY_GROUP),))),
    )
    for group_id, error in ((None, Error.INVALID_GROUP_ID), ("", Error.INVALID_GROUP_ID)):
        yield f"offsets of {group_id!r}", Case(OffsetDelete(group_id, (("t", 0),)), OffsetDeleteResponse(error))
    yield (
        "offsets of the absent",
        Case(OffsetDelete("absent", (("t", 0),)), OffsetDeleteResponse(Error.GROUP_ID_NOT_FOUND)),
    )


Cases = Callable[[Member, Member], Iterator[tuple[str, Case]]]
STAGES = ["initial", "completing", "stable", "preparing"]


def at(harness: CoordinatorHarness, stage: str) -> tuple[Member, Member]:
    """Two static members of a group at this stage, with an offset of its own; a leads."""
    harness.commit_simple(7, topic="kept")
    a, b = harness.member("a", instance="a"), harness.member("b", instance="b")
    a.join()
    b.join()
    if stage == "initial":
        for member in harness.group.members.values():
            (a if member.group_instance_id == "a" else b).id = member.member_id
        return a, b
    harness.end_initial_delay()
    if stage != "completing":
        harness.sync(a, b)
    if stage == "preparing":
        b.protocols = join_protocols("range", topics=["u"])
        b.join()
    assert harness.state is {
        "completing": GroupState.COMPLETING_REBALANCE,
        "stable": GroupState.STABLE,
        "preparing": GroupState.PREPARING_REBALANCE,
    }.get(stage)
    return a, b


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "cases",
    [
        refused_joins,
        refused_syncs,
        refused_heartbeats,
        refused_leaves,
        refused_commits,
        refused_by_administration,
    ],
)
def test_invalid_request_gets_error_and_changes_nothing(harness: CoordinatorHarness, cases: Cases, stage: str) -> None:
    a, b = at(harness, stage)
    before = harness.snapshot()
    for name, case in cases(a, b):
        response = harness.send(case.request).response
        assert response == case.response, f"{name}: {case.request}"
        assert harness.snapshot() == before, f"{name} changed something: {case.request}"


@pytest.mark.parametrize("cases", [refused_syncs, refused_heartbeats, refused_leaves])
def test_empty_group_has_no_members(harness: CoordinatorHarness, cases: Cases) -> None:
    a, b = at(harness, "stable")
    a.leave()
    b.leave()
    before = harness.snapshot()
    for name, case in cases(a, b):
        response = harness.send(case.request).response
        if isinstance(response, LeaveGroupResponse):
            assert {left.error for left in response.members} <= {Error.UNKNOWN_MEMBER_ID}, name
        else:
            assert isinstance(response, SyncGroupResponse | HeartbeatResponse)
            group_error = Error.INVALID_GROUP_ID if not case.request.group_id else Error.UNKNOWN_MEMBER_ID  # type: ignore[union-attr]
            protocol_error = Error.INCONSISTENT_GROUP_PROTOCOL if name in ("no type", "no name") else group_error
            assert response.error is protocol_error, name
        assert harness.snapshot() == before, name


def test_negative_rebalance_timeout_is_session_timeout(harness: CoordinatorHarness) -> None:
    a = harness.member("a", rebalance_timeout_ms=-(2**31))
    a.join()
    harness.end_initial_delay()

    assert harness.generation == 1
    harness.advance_ms(9_999, heartbeating=[a], every_ms=5_000)
    assert harness.member_ids == {a.id}
    harness.advance_ms(1)
    assert harness.member_ids == set(), "its sync timer is its session timeout of 10 s"


def test_repeated_partition_in_commit_keeps_last_offset(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    offsets = (OffsetToCommit("t", 0, 1), OffsetToCommit("t", 0, 2))

    assert harness.send(OffsetCommit(GROUP, a.id, None, 1, offsets)).response == OffsetCommitResponse(
        (CommittedPartition("t", 0, Error.NONE), CommittedPartition("t", 0, Error.NONE))
    )
    assert harness.offset() == 2


def test_repeated_group_in_fetch_gets_two_results(harness: CoordinatorHarness) -> None:
    harness.commit_simple(3)
    fetched = FetchedGroup(GROUP, Error.NONE, (FetchedOffset("t", 0, 3),))
    request = OffsetFetch((GroupToFetch(GROUP, None), GroupToFetch(GROUP, (("t", 0),))))

    assert harness.send(request).response == OffsetFetchResponse((fetched, fetched))


def test_leader_may_give_nonsense_and_only_members_get_it(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    following = b.sync()
    a.sync([("stranger", b"x"), (b.id, b"first"), (b.id, b"second"), ("", b"y")])

    assert following.response == b.expected_sync_response(b"second")
    assert a.assignment == b""
    assert harness.member_ids == {a.id, b.id}


def test_followers_assignments_are_ignored(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    following = b.sync([(a.id, b"poison"), (b.id, b"everything")])
    assert following.parked
    leading = a.sync()

    assert (leading.response, following.response) == (a.expected_sync_response(), b.expected_sync_response())


def test_nothing_to_describe_and_nothing_to_list_are_no_errors(harness: CoordinatorHarness) -> None:
    assert harness.send(DescribeGroups(())).response.groups == ()
    assert harness.send(ListGroups()).response.groups == ()


def test_subscription_bytes_that_make_no_sense_are_tolerated(harness: CoordinatorHarness) -> None:
    for number, metadata in enumerate([b"", b"\x00", b"\xff\xff", b"\x00\x00\xff\xff\xff\xff", b"\x00\x00" * 3]):
        a = harness.member("a", group_id=f"g{number}", protocols=(JoinProtocol("range", metadata),))
        joining = a.join()
        harness.end_initial_delay(f"g{number}")
        assert joining.response.error is Error.NONE
        assert [member.metadata for member in joining.response.members] == [metadata]
