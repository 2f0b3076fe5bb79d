"""Malformed or contradictory requests get the right error and change nothing."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from slackwater.group.errors import Error
from slackwater.group.messages import (
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
    OffsetResult,
    OffsetToCommit,
    Request,
    Response,
    SyncGroup,
    SyncGroupResponse,
)

from .coordinator_harness import GROUP, STATE_OF_STAGE, CoordinatorHarness, Member, join_protocols

OVERLONG = struct.pack(">hi", 3, 2**31 - 1)
OFFSETS = (OffsetToCommit("t", 0, 1), OffsetToCommit("t", 1, 1))


class Case(NamedTuple):
    """An invalid request of member a or of another client, and the expected response."""

    request: Request
    response: Response


def invalid_joins(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """Return invalid JoinGroup requests of a member and of a new member."""
    member, new_member = a.join_request(), replace(a.join_request(), member_id="", group_instance_id=None)
    for name, join in (("member", member), ("new member", new_member)):

        def rejected(error: Error, member_id: str = join.member_id) -> JoinGroupResponse:
            return JoinGroupResponse(error, member_id=member_id)

        yield f"{name}: null group", Case(replace(join, group_id=None), rejected(Error.INVALID_GROUP_ID))
        yield f"{name}: empty group", Case(replace(join, group_id=""), rejected(Error.INVALID_GROUP_ID))
        for session_ms in (-(2**31), -1, 0, 5_999, 1_800_001, 2**31 - 1):
            request = replace(join, session_timeout_ms=session_ms)
            yield f"{name}: session {session_ms}", Case(request, rejected(Error.INVALID_SESSION_TIMEOUT))
        request = replace(join, group_id="", session_timeout_ms=0, protocols=())
        yield f"{name}: several errors", Case(request, rejected(Error.INVALID_GROUP_ID))
        mismatch = rejected(Error.INCONSISTENT_GROUP_PROTOCOL)
        yield f"{name}: other type", Case(replace(join, protocol_type="connect"), mismatch)
        yield f"{name}: no type", Case(replace(join, protocol_type=""), mismatch)
        yield f"{name}: no protocols", Case(replace(join, protocols=()), mismatch)
        yield f"{name}: no common protocol", Case(replace(join, protocols=join_protocols("x")), mismatch)
        yield f"{name}: repeated protocol", Case(replace(join, protocols=join_protocols("range", "range")), mismatch)
        request = replace(join, protocols=(JoinProtocol("range", OVERLONG),))
        yield f"{name}: overlong array", Case(request, rejected(Error.INVALID_REQUEST))
    request = replace(member, member_id="unknown", group_instance_id=None)
    yield "unknown member", Case(request, JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id="unknown"))
    request = replace(member, group_instance_id="b")
    yield "instance of another member", Case(request, JoinGroupResponse(Error.FENCED_INSTANCE_ID, member_id=a.id))
    request = replace(member, group_instance_id="unknown")
    yield "unknown instance", Case(request, JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=a.id))
    request = replace(member, group_id="absent")
    yield "missing group", Case(request, JoinGroupResponse(Error.UNKNOWN_MEMBER_ID, member_id=a.id))


def invalid_syncs(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """Return invalid SyncGroup requests."""
    sync = SyncGroup(GROUP, a.id, a.instance, a.harness.generation, "consumer", "range", ((b.id, b"other"),))
    for name, request, error in (
        ("null group", replace(sync, group_id=None), Error.INVALID_GROUP_ID),
        ("empty group", replace(sync, group_id=""), Error.INVALID_GROUP_ID),
        ("missing group", replace(sync, group_id="absent"), Error.UNKNOWN_MEMBER_ID),
        ("unknown member", replace(sync, member_id="unknown", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        ("no member id", replace(sync, member_id="", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        ("instance of another member", replace(sync, member_id=b.id), Error.FENCED_INSTANCE_ID),
        ("unknown instance", replace(sync, group_instance_id="unknown"), Error.UNKNOWN_MEMBER_ID),
        ("earlier generation", replace(sync, generation_id=-1), Error.ILLEGAL_GENERATION),
        ("later generation", replace(sync, generation_id=2**31 - 1), Error.ILLEGAL_GENERATION),
        ("other type", replace(sync, protocol_type="connect"), Error.INCONSISTENT_GROUP_PROTOCOL),
        ("no type", replace(sync, protocol_type=None, requires_protocol=True), Error.INCONSISTENT_GROUP_PROTOCOL),
        ("no name", replace(sync, protocol_name=None, requires_protocol=True), Error.INCONSISTENT_GROUP_PROTOCOL),
    ):
        yield name, Case(request, SyncGroupResponse(error))


def invalid_heartbeats(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """Return invalid Heartbeat requests."""
    heartbeat = Heartbeat(GROUP, a.id, a.instance, a.harness.generation)
    for name, request, error in (
        ("null group", replace(heartbeat, group_id=None), Error.INVALID_GROUP_ID),
        ("empty group", replace(heartbeat, group_id=""), Error.INVALID_GROUP_ID),
        ("missing group", replace(heartbeat, group_id="absent"), Error.UNKNOWN_MEMBER_ID),
        ("unknown member", replace(heartbeat, member_id="unknown", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        ("no member id", replace(heartbeat, member_id="", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        ("instance of another member", replace(heartbeat, member_id=b.id), Error.FENCED_INSTANCE_ID),
        ("instance without member id", replace(heartbeat, member_id=""), Error.FENCED_INSTANCE_ID),
        ("unknown instance", replace(heartbeat, group_instance_id="unknown"), Error.UNKNOWN_MEMBER_ID),
        ("earlier generation", replace(heartbeat, generation_id=-(2**31)), Error.ILLEGAL_GENERATION),
        ("later generation", replace(heartbeat, generation_id=2**31 - 1), Error.ILLEGAL_GENERATION),
    ):
        yield name, Case(request, HeartbeatResponse(error))


def invalid_leaves(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """Return invalid LeaveGroup requests."""
    yield "null group", Case(LeaveGroup(None, (LeavingMember(a.id),)), LeaveGroupResponse(Error.INVALID_GROUP_ID))
    yield "empty group", Case(LeaveGroup("", (LeavingMember(a.id),)), LeaveGroupResponse(Error.INVALID_GROUP_ID))
    yield "no members", Case(LeaveGroup(GROUP, ()), LeaveGroupResponse(Error.NONE))
    for name, leaver, error in (
        ("unknown member", LeavingMember("unknown"), Error.UNKNOWN_MEMBER_ID),
        ("no member id", LeavingMember(""), Error.UNKNOWN_MEMBER_ID),
        ("unknown instance without member id", LeavingMember("", "unknown"), Error.UNKNOWN_MEMBER_ID),
        ("instance of another member", LeavingMember(b.id, "a"), Error.FENCED_INSTANCE_ID),
        ("unknown instance", LeavingMember(a.id, "unknown"), Error.UNKNOWN_MEMBER_ID),
    ):
        response = LeaveGroupResponse(Error.NONE, (LeftMember(leaver.member_id, leaver.group_instance_id, error),))
        yield name, Case(LeaveGroup(GROUP, (leaver,)), response)
        if leaver.member_id != b.id:
            yield (
                f"{name}, twice",
                Case(LeaveGroup(GROUP, (leaver,) * 2), replace(response, members=response.members * 2)),
            )


def invalid_commits(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """Return invalid OffsetCommit requests."""
    commit = OffsetCommit(GROUP, a.id, a.instance, a.harness.generation, OFFSETS)
    for name, request, error in (
        ("null group", replace(commit, group_id=None), Error.INVALID_GROUP_ID),
        ("missing group", replace(commit, group_id="absent"), Error.GROUP_ID_NOT_FOUND),
        ("unknown member", replace(commit, member_id="unknown", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        ("no member id", replace(commit, member_id="", group_instance_id=None), Error.UNKNOWN_MEMBER_ID),
        (
            "without membership",
            replace(commit, member_id="", group_instance_id=None, generation_id=-1),
            Error.UNKNOWN_MEMBER_ID,
        ),
        ("instance of another member", replace(commit, member_id=b.id), Error.FENCED_INSTANCE_ID),
        ("unknown instance", replace(commit, group_instance_id="unknown"), Error.UNKNOWN_MEMBER_ID),
        ("no generation", replace(commit, generation_id=-1), Error.ILLEGAL_GENERATION),
        ("later generation", replace(commit, generation_id=2**31 - 1), Error.ILLEGAL_GENERATION),
    ):
        response = OffsetCommitResponse((OffsetResult("t", 0, error), OffsetResult("t", 1, error)))
        yield name, Case(request, response)
        yield f"{name}, nothing to commit", Case(replace(request, offsets=()), OffsetCommitResponse(()))


def invalid_admin_requests(a: Member, b: Member) -> Iterator[tuple[str, Case]]:
    """Return invalid OffsetFetch, OffsetDelete and DeleteGroups requests."""
    null = FetchedGroup(None, Error.INVALID_GROUP_ID)
    yield "fetch null", Case(OffsetFetch((GroupToFetch(None, (("t", 0),)),)), OffsetFetchResponse((null,)))
    yield "fetch nothing", Case(OffsetFetch(()), OffsetFetchResponse(()))
    yield (
        "delete null",
        Case(DeleteGroups((None,)), DeleteGroupsResponse((DeletedGroup(None, Error.INVALID_GROUP_ID),))),
    )
    yield "delete nothing", Case(DeleteGroups(()), DeleteGroupsResponse(()))
    yield (
        "delete group with members",
        Case(DeleteGroups((GROUP,)), DeleteGroupsResponse((DeletedGroup(GROUP, Error.NON_EMPTY_GROUP),))),
    )
    for group_id, error in ((None, Error.INVALID_GROUP_ID), ("", Error.INVALID_GROUP_ID)):
        yield f"offsets of {group_id!r}", Case(OffsetDelete(group_id, (("t", 0),)), OffsetDeleteResponse(error))
    yield (
        "offsets of missing group",
        Case(OffsetDelete("absent", (("t", 0),)), OffsetDeleteResponse(Error.GROUP_ID_NOT_FOUND)),
    )


Cases = Callable[[Member, Member], Iterator[tuple[str, Case]]]


def static_group_in(harness: CoordinatorHarness, stage: str) -> tuple[Member, Member]:
    """Return the two static members, the leader first, of a group in this stage that has a committed offset."""
    harness.commit_simple(7, topic="kept")
    a, b = harness.group_in("stable" if stage == "preparing" else stage, "a", "b", static=True)
    if stage == "initial":  # without a response yet
        ids = {member.group_instance_id: member.member_id for member in harness.group.members.values()}
        a.id, b.id = ids["a"], ids["b"]
    if stage == "preparing":
        b.protocols = join_protocols("range", topics=["u"])
        b.join()
    assert harness.state is STATE_OF_STAGE[stage]
    return a, b


@pytest.mark.parametrize("stage", STATE_OF_STAGE)
@pytest.mark.parametrize(
    "cases",
    [
        invalid_joins,
        invalid_syncs,
        invalid_heartbeats,
        invalid_leaves,
        invalid_commits,
        invalid_admin_requests,
    ],
)
def test_invalid_request_gets_error_and_changes_nothing(harness: CoordinatorHarness, cases: Cases, stage: str) -> None:
    a, b = static_group_in(harness, stage)
    before = harness.snapshot()
    for name, case in cases(a, b):
        response = harness.send(case.request).response
        assert response == case.response, f"{name}: {case.request}"
        assert harness.snapshot() == before, f"{name} changed the state: {case.request}"


@pytest.mark.parametrize("cases", [invalid_syncs, invalid_heartbeats, invalid_leaves])
def test_empty_group_has_no_members(harness: CoordinatorHarness, cases: Cases) -> None:
    a, b = static_group_in(harness, "stable")
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
    assert harness.member_ids == set(), "the sync timer uses the session timeout of 10 s"


def test_repeated_partition_in_commit_keeps_last_offset(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("a")
    offsets = (OffsetToCommit("t", 0, 1), OffsetToCommit("t", 0, 2))

    assert harness.send(OffsetCommit(GROUP, a.id, None, 1, offsets)).response == OffsetCommitResponse(
        (OffsetResult("t", 0, Error.NONE), OffsetResult("t", 0, Error.NONE))
    )
    assert harness.offset() == 2


def test_repeated_group_in_fetch_gets_two_results(harness: CoordinatorHarness) -> None:
    harness.commit_simple(3)
    fetched = FetchedGroup(GROUP, Error.NONE, (FetchedOffset("t", 0, 3),))
    request = OffsetFetch((GroupToFetch(GROUP, None), GroupToFetch(GROUP, (("t", 0),))))

    assert harness.send(request).response == OffsetFetchResponse((fetched, fetched))


def test_assignments_of_unknown_members_are_ignored(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    follower_call = b.sync()
    a.sync([("unknown member", b"x"), (b.id, b"first"), (b.id, b"second"), ("", b"y")])

    assert follower_call.response == b.expected_sync_response(b"second")
    assert a.assignment == b""
    assert harness.member_ids == {a.id, b.id}


def test_followers_assignments_are_ignored(harness: CoordinatorHarness) -> None:
    a, b = harness.completing_group("a", "b")
    follower_call = b.sync([(a.id, b"other"), (b.id, b"everything")])
    assert follower_call.parked
    leader_call = a.sync()

    assert (leader_call.response, follower_call.response) == (
        a.expected_sync_response(),
        b.expected_sync_response(),
    )


def test_empty_describe_and_list_are_not_errors(harness: CoordinatorHarness) -> None:
    assert harness.send(DescribeGroups(())).response.groups == ()
    assert harness.send(ListGroups()).response.groups == ()


def test_invalid_subscription_bytes_are_accepted(harness: CoordinatorHarness) -> None:
    for number, metadata in enumerate([b"", b"\x00", b"\xff\xff", b"\x00\x00\xff\xff\xff\xff", b"\x00\x00" * 3]):
        a = harness.member("a", group_id=f"g{number}", protocols=(JoinProtocol("range", metadata),))
        join_call = a.join()
        harness.end_initial_delay(f"g{number}")
        assert join_call.response.error is Error.NONE
        assert [member.metadata for member in join_call.response.members] == [metadata]
