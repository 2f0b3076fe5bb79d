"""Minimal members of a classic group, each on its own connection.

Invariants:
- Members send what a Java consumer sends: JoinGroup v9, again with the member id from the response, SyncGroup v5 with
  the leader's assignments, and a rejoin when the broker requests one. Every error code is checked.
- A synced member of an incomplete generation sends a heartbeat at once and then every 20 ms, to detect the next
  rebalance. A real member would wait for its heartbeat interval, which is not part of the measurement.
- Assignments are encoded in advance; the leader only adds the member ids.
"""

import gc
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.brokers import CLIENT_ID, NONE, PeerFailed, Server, call

from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.frames import FrameReader
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from slackwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from slackwater.wire.request_response import decode_response, encode_request

TOPIC: Final = "orders"
SESSION_MS: Final = 1_800_000  # no session expires while the other broker is measured
REBALANCE_MS: Final = 300_000
HEARTBEAT_SECONDS: Final = 0.02
TIMEOUT_SECONDS: Final = 60
RECEIVE_BYTES: Final = 1 << 18
PROTOCOLS: Final = [JoinGroupRequestProtocol("range", encode_subscription(Subscription((TOPIC,))))]


class Member:
    """One member; `handle` takes its next response."""

    __slots__ = ("frames", "generation_id", "handle", "member_id", "socket", "synced")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.frames = FrameReader()
        self.member_id = ""
        self.generation_id = -1
        self.synced = False
        self.handle: Callable[[Member, bytes], None] = _unexpected


class Group:
    """A group; every call of `join` adds members."""

    def __init__(self, group_id: str, max_members: int) -> None:
        self.group_id = group_id
        self.members: list[Member] = []
        self.generation_id = -1  # of the generation with all members
        self._epoll = select.epoll()
        self._by_fd: dict[int, Member] = {}
        self._assignments = [
            encode_assignment(Assignment([TopicPartition(TOPIC, number)])) for number in range(max_members)
        ]
        self._first_join = self._encode_join("")
        self._synced = 0
        self._heartbeats_due: deque[tuple[float, Member]] = deque()

    def join(self, connections: Sequence[socket.socket]) -> float:
        """Add a member per connection; return the seconds until all members are synced in one generation."""
        existing = [member for member in self.members if member.synced]
        newcomers = [Member(connection) for connection in connections]
        for member in newcomers:
            self._by_fd[member.socket.fileno()] = member
            self._epoll.register(member.socket, select.EPOLLIN)
        self.members += newcomers
        self.generation_id = -1
        self._synced = 0
        self._heartbeats_due.clear()
        gc.collect()
        gc.disable()
        try:
            started = time.perf_counter()
            for member in newcomers:
                self._join_first(member)
            if existing:
                self._until(lambda: all(member.member_id for member in newcomers))
            for member in existing:
                self._heartbeat(member)
            self._until(lambda: self._synced == len(self.members))
            return time.perf_counter() - started
        finally:
            gc.enable()

    def leave(self) -> None:
        """Remove all members with one request; the connections stay open."""
        self._epoll.close()
        leaving = [MemberIdentity(member.member_id) for member in self.members]
        response = call(
            self.members[0].socket, LeaveGroupRequest(self.group_id, members=leaving), 5, LeaveGroupResponse
        )
        errors = [member.error_code for member in response.members if member.error_code != NONE]
        if response.error_code != NONE or errors:
            raise PeerFailed(f"LeaveGroup failed with error {response.error_code} and errors of members {errors[:5]}.")

    def _until(self, done: Callable[[], bool]) -> None:
        """Handle responses until `done` returns true."""
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while not done():
            wait = HEARTBEAT_SECONDS if self._heartbeats_due else 1
            for fd, _ in self._epoll.poll(wait):
                member = self._by_fd[fd]
                data = member.socket.recv(RECEIVE_BYTES)
                if not data:
                    raise PeerFailed(
                        f"The broker closed the connection of member {member.member_id or '(without an id)'}."
                    )
                for frame in member.frames.feed(data):
                    member.handle(member, frame)
            now = time.monotonic()
            while self._heartbeats_due and self._heartbeats_due[0][0] <= now:
                _, member = self._heartbeats_due.popleft()
                if member.synced and self.generation_id < 0:
                    self._heartbeat(member)
            if now > give_up:
                raise PeerFailed(
                    f"{self._synced} of {len(self.members)} members of {self.group_id} are synced "
                    f"after {TIMEOUT_SECONDS} s."
                )

    # --- requests ---------------------------------------------------------------------------------------------------

    def _encode_join(self, member_id: str) -> bytes:
        request = JoinGroupRequest(
            self.group_id, SESSION_MS, REBALANCE_MS, member_id, None, "consumer", PROTOCOLS, "bench"
        )
        return encode_request(request, 9, 0, CLIENT_ID)

    def _join_first(self, member: Member) -> None:
        member.handle = self._on_join
        member.socket.sendall(self._first_join)

    def _join(self, member: Member) -> None:
        member.synced = False
        member.handle = self._on_join
        member.socket.sendall(self._encode_join(member.member_id))

    def _sync(self, member: Member, assignments: list[SyncGroupRequestAssignment]) -> None:
        member.handle = self._on_sync
        request = SyncGroupRequest(
            self.group_id, member.generation_id, member.member_id, None, "consumer", "range", assignments
        )
        member.socket.sendall(encode_request(request, 5, 0, CLIENT_ID))

    def _heartbeat(self, member: Member) -> None:
        member.handle = self._on_heartbeat
        request = HeartbeatRequest(self.group_id, member.generation_id, member.member_id)
        member.socket.sendall(encode_request(request, 4, 0, CLIENT_ID))

    # --- responses --------------------------------------------------------------------------------------------------

    def _on_join(self, member: Member, frame: bytes) -> None:
        _, response = decode_response(JoinGroupResponse, 9, frame)
        if response.error_code == Error.MEMBER_ID_REQUIRED:
            member.member_id = response.member_id
            self._join(member)
            return
        if response.error_code != NONE:
            raise PeerFailed(f"JoinGroup failed with error {response.error_code}.")
        member.generation_id = response.generation_id
        if len(response.members) == len(self.members):
            self.generation_id = response.generation_id
        # A follower's list is empty.
        ids = [joined.member_id for joined in response.members]
        self._sync(member, list(map(SyncGroupRequestAssignment, ids, self._assignments)))

    def _on_sync(self, member: Member, frame: bytes) -> None:
        _, response = decode_response(SyncGroupResponse, 5, frame)
        if response.error_code == Error.REBALANCE_IN_PROGRESS:
            self._join(member)
            return
        if response.error_code != NONE or not response.assignment:
            raise PeerFailed(f"SyncGroup returned error {response.error_code}, assignment {response.assignment!r}.")
        member.synced = True
        if member.generation_id == self.generation_id:
            member.handle = _unexpected
            self._synced += 1
        else:
            self._heartbeat(member)

    def _on_heartbeat(self, member: Member, frame: bytes) -> None:
        _, response = decode_response(HeartbeatResponse, 4, frame)
        if response.error_code == Error.REBALANCE_IN_PROGRESS:
            self._join(member)
        elif response.error_code == NONE:
            member.handle = _unexpected
            self._heartbeats_due.append((time.monotonic() + HEARTBEAT_SECONDS, member))
        else:
            raise PeerFailed(f"Heartbeat failed with error {response.error_code}.")


def _unexpected(member: Member, frame: bytes) -> None:
    raise PeerFailed(f"Member {member.member_id} received {frame[:40]!r} without a request.")


def stable_groups(server: Server, connections: Sequence[socket.socket], size: int, prefix: str) -> list[Group]:
    """Form groups of `size` members, one member per connection."""
    parts = [connections[at : at + size] for at in range(0, len(connections), size)]
    groups = [Group(f"{prefix}-{number}", size) for number in range(len(parts))]
    server.wait_for_coordinator([group.group_id for group in groups])
    for group, part in zip(groups, parts, strict=True):
        group.join(part)
    return groups
