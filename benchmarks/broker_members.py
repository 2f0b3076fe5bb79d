"""Members of a classic group that are next to nothing but their requests, each on a connection of its own.

Rules kept here
- The protocol is kept as a Java consumer keeps it: JoinGroup v9, again with the id it was given, SyncGroup v5 with the
  leader's assignments, and a rejoin wherever the broker asks for one. Every answer's error code is looked at.
- A member that is synced while the group is not whole yet heartbeats at once, and then every 20 ms, to learn that there
  is another round. A real one would wait for its interval: what is measured is the broker, not that wait.
- Assignments are made beforehand; the leader only puts names to them.
"""

import gc
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.brokers import CLIENT_ID, NONE, PeerFailed, Server, ask

from slackwater.group.assignors.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from slackwater.group.errors import Error
from slackwater.group.topic_partition import TopicPartition
from slackwater.wire.envelope import decode_response, encode_request
from slackwater.wire.frames import FrameReader
from slackwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from slackwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from slackwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

TOPIC: Final = "orders"
SESSION_MS: Final = 1_800_000  # nobody expires while the other broker has its turn
REBALANCE_MS: Final = 300_000
HEARTBEAT_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 60
RECEIVE_BYTES: Final = 1 << 18
PROTOCOLS: Final = [JoinGroupRequestProtocol("range", encode_subscription(Subscription((TOPIC,))))]


class Member:
    """One member, and what it waits for."""

    __slots__ = ("frames", "generation_id", "handle", "member_id", "socket", "synced")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.frames = FrameReader()
        self.member_id = ""
        self.generation_id = -1
        self.synced = False
        self.handle: Callable[[Member, bytes], None] = _unexpected


class Group:
    """Members on their way into one group; they come in through `join`, as many at a time as one likes."""

    def __init__(self, group_id: str, most: int) -> None:
        self.group_id = group_id
        self.members: list[Member] = []
        self.generation_id = -1  # of the round that has everybody in it
        self._epoll = select.epoll()
        self._by_fd: dict[int, Member] = {}
        self._assignments = [encode_assignment(Assignment([TopicPartition(TOPIC, number)])) for number in range(most)]
        self._first_join = self._encode_join("")
        self._synced = 0
        self._resting: deque[tuple[float, Member]] = deque()

    def join(self, connections: Sequence[socket.socket]) -> float:
        """Bring one more member in per connection; seconds until all, old and new, are synced in one generation."""
        settled = [member for member in self.members if member.synced]
        newcomers = [Member(connection) for connection in connections]
        for member in newcomers:
            self._by_fd[member.socket.fileno()] = member
            self._epoll.register(member.socket, select.EPOLLIN)
        self.members += newcomers
        self.generation_id = -1
        self._synced = 0
        self._resting.clear()
        gc.collect()
        gc.disable()
        try:
            started = time.perf_counter()
            for member in newcomers:
                self._join_first(member)
            if settled:
                self._until(lambda: all(member.member_id for member in newcomers))
            for member in settled:
                self._heartbeat(member)
            self._until(lambda: self._synced == len(self.members))
            return time.perf_counter() - started
        finally:
            gc.enable()

    def leave(self) -> None:
        """Everybody leaves, in one request; the connections stay."""
        self._epoll.close()
        leaving = [MemberIdentity(member.member_id) for member in self.members]
        answer = ask(self.members[0].socket, LeaveGroupRequest(self.group_id, members=leaving), 5, LeaveGroupResponse)
        refused = [each.error_code for each in answer.members if each.error_code != NONE]
        if answer.error_code != NONE or refused:
            raise PeerFailed(f"LeaveGroup was answered with {answer.error_code} and, for members, {refused[:5]}.")

    def _until(self, done: Callable[[], bool]) -> None:
        """Take answers until that holds."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not done():
            wait = HEARTBEAT_SECONDS if self._resting else 1
            for fd, _ in self._epoll.poll(wait):
                member = self._by_fd[fd]
                data = member.socket.recv(RECEIVE_BYTES)
                if not data:
                    raise PeerFailed(f"The broker hung up on member {member.member_id or '(without an id)'}.")
                for frame in member.frames.feed(data):
                    member.handle(member, frame)
            now = time.monotonic()
            while self._resting and self._resting[0][0] <= now:
                _, member = self._resting.popleft()
                if member.synced and self.generation_id < 0:
                    self._heartbeat(member)
            if now > give_up:
                raise PeerFailed(
                    f"{self._synced} of {len(self.members)} members of {self.group_id} are synced "
                    f"after {PATIENCE_SECONDS} s."
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

    # --- answers ----------------------------------------------------------------------------------------------------

    def _on_join(self, member: Member, frame: bytes) -> None:
        _, answer = decode_response(JoinGroupResponse, 9, frame)
        if answer.error_code == Error.MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
            self._join(member)
            return
        if answer.error_code != NONE:
            raise PeerFailed(f"JoinGroup was answered with error {answer.error_code}.")
        member.generation_id = answer.generation_id
        if len(answer.members) == len(self.members):
            self.generation_id = answer.generation_id
        # A follower's list is empty; the leader's assignments are there already and are only given names.
        ids = [each.member_id for each in answer.members]
        self._sync(member, list(map(SyncGroupRequestAssignment, ids, self._assignments)))

    def _on_sync(self, member: Member, frame: bytes) -> None:
        _, answer = decode_response(SyncGroupResponse, 5, frame)
        if answer.error_code == Error.REBALANCE_IN_PROGRESS:
            self._join(member)
            return
        if answer.error_code != NONE or not answer.assignment:
            raise PeerFailed(
                f"SyncGroup was answered with error {answer.error_code}, assignment {answer.assignment!r}."
            )
        member.synced = True
        if member.generation_id == self.generation_id:
            member.handle = _unexpected
            self._synced += 1
        else:
            self._heartbeat(member)

    def _on_heartbeat(self, member: Member, frame: bytes) -> None:
        _, answer = decode_response(HeartbeatResponse, 4, frame)
        if answer.error_code == Error.REBALANCE_IN_PROGRESS:
            self._join(member)
        elif answer.error_code == NONE:
            member.handle = _unexpected
            self._resting.append((time.monotonic() + HEARTBEAT_SECONDS, member))
        else:
            raise PeerFailed(f"Heartbeat was answered with error {answer.error_code}.")


def _unexpected(member: Member, frame: bytes) -> None:
    raise PeerFailed(f"Member {member.member_id} was sent {frame[:40]!r} without having asked.")


def settled_groups(server: Server, connections: Sequence[socket.socket], size: int, prefix: str) -> list[Group]:
    """Stable groups of `size` members, one member per connection."""
    parts = [connections[at : at + size] for at in range(0, len(connections), size)]
    groups = [Group(f"{prefix}-{number}", size) for number in range(len(parts))]
    server.wait_for_coordinator([group.group_id for group in groups])
    for group, part in zip(groups, parts, strict=True):
        group.join(part)
    return groups
