"""The consumer's log lines: the lines of the Java client (3.2 and newer), so that runbooks and queries work unchanged.

Slackwater's own lines report what Java's do not: the start with the session timeout and the settings that differ from
their defaults, the length of a poll delay, and slow listeners. Every line is a template of the doctor
(`doctor/templates/java.py`). Lines are logged in the order of the events. Control characters of ids and reasons are
escaped.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from slackwater.client.config import CONSUMER_SETTINGS, format_setting
from slackwater.escaping import escape, get_logger
from slackwater.group.errors import Error
from slackwater.group.events import (
    CoordinatorChanged,
    EventKind,
    GroupEvent,
    JoinRequested,
    PartitionsChanged,
    PollOverrun,
    RequestRefused,
)
from slackwater.group.member.context import UNAVAILABLE
from slackwater.group.member.effects import MemberRequest, MemberResponse
from slackwater.group.member.errors import java_message
from slackwater.group.messages import JoinGroup, JoinGroupResponse, LeaveGroup, SyncGroup, SyncGroupResponse
from slackwater.group.topic_partition import TopicPartition
from slackwater.settings import Value
from slackwater.version import __version__

# The lines of a consumer have one logger, whichever module writes them.
log = get_logger("slackwater.client.consumer.consumer")
POLL_TIMEOUT: Final = (
    "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than the "
    "configured max.poll.interval.ms, which typically implies that the poll loop is spending too much time processing "
    "messages. You can address this either by increasing max.poll.interval.ms or by reducing the maximum size of "
    "batches returned in poll() with max.poll.records."
)
_FATAL_JOINS: Final = (
    Error.INCONSISTENT_GROUP_PROTOCOL,
    Error.INVALID_SESSION_TIMEOUT,
    Error.INVALID_GROUP_ID,
    Error.GROUP_AUTHORIZATION_FAILED,
    Error.GROUP_MAX_SIZE_REACHED,
)
SLOW_LISTENER_MS: Final = 1_000
STRATEGY: Final = "partition.assignment.strategy"
SESSION_TIMEOUT: Final = "session.timeout.ms"
Line = tuple[int, str]


def consumer_prefix(client_id: str, group_id: str, instance_id: str | None = None) -> str:
    """Return the prefix of every line of a consumer."""
    instance = f"instanceId={instance_id}, " if instance_id else ""
    return escape(f"[Consumer {instance}clientId={client_id}, groupId={group_id or 'null'}] ")


class LogLines:
    """Logs the lines of one member."""

    def __init__(self, client_id: str, group_id: str, instance_id: str | None) -> None:
        self._prefix = consumer_prefix(client_id, group_id, instance_id)
        self._coordinator = ""

    def log_event(self, event: GroupEvent) -> None:
        """Log the lines of an event."""
        if not log.isEnabledFor(logging.WARNING):
            return
        for level, line in self._event_lines(event):
            log.log(level, "%s%s", self._prefix, escape(line))

    def log_start(self, settings: Mapping[str, Value], assignors: Iterable[str], program: str = "consumer") -> None:
        """Log the start, every setting that differs from its default, and the session timeout; secrets are hidden."""
        log.info("%sStarting the Slackwater %s, version %s", self._prefix, program, __version__)
        values = {**settings, STRATEGY: tuple(assignors)}
        for name, value in sorted(values.items()):
            setting = CONSUMER_SETTINGS.get(name)
            if setting is None or value != setting.default or name == SESSION_TIMEOUT:  # in no other line of a client
                log.info("%sConfigured with %s = %s", self._prefix, name, escape(format_setting(name, value)))

    def log_subscription(self, topics: Iterable[str]) -> None:
        """Log a subscription to topics."""
        log.info("%sSubscribed to topic(s): %s", self._prefix, escape(", ".join(topics)))

    def log_pattern_subscription(self, pattern: str) -> None:
        """Log a subscription to a pattern."""
        log.info("%sSubscribed to pattern: '%s'", self._prefix, escape(pattern))

    def log_close(self) -> None:
        """Log that the application closed the consumer."""
        log.info("%sThe consumer is closed", self._prefix)

    def log_request(self, request: MemberRequest, response: MemberResponse | None) -> None:
        """Log a request when it is sent, and its response when it arrives."""
        if log.isEnabledFor(logging.INFO):
            for level, line in self._request_lines(request, response):
                log.log(level, "%s%s", self._prefix, escape(line))

    def _request_lines(self, request: MemberRequest, response: MemberResponse | None) -> Iterator[Line]:
        match request, response:
            case JoinGroup(), None:
                yield logging.INFO, "(Re-)joining group"
            case JoinGroup(), JoinGroupResponse(error=Error.NONE) as joined:
                generation = _generation(joined.generation_id, joined.member_id, joined.protocol_name)
                yield logging.INFO, f"Successfully joined group with generation {generation}"
            case JoinGroup(), JoinGroupResponse() as joined if joined.error is not Error.MEMBER_ID_REQUIRED:
                yield _join_failed(request, joined.error)
            case SyncGroup(), None if request.assignments:
                finished = f"Finished assignment for group at generation {request.generation_id}"
                yield logging.INFO, f"{finished}: {_assignments(request)}"
            case SyncGroup(), SyncGroupResponse() as synced:
                sent = _generation(request.generation_id, request.member_id, request.protocol_name)
                if synced.error is Error.NONE:
                    yield logging.INFO, f"Successfully synced group in generation {sent}"
                else:
                    reason = java_message(synced.error)
                    failed = f"SyncGroup failed: {reason} Need to re-join the group. Sent generation was {sent}"
                    yield logging.INFO, failed
            case LeaveGroup(), None:
                for leaver in request.members:
                    leaving = f"Member {leaver.member_id} sending LeaveGroup request to coordinator"
                    yield logging.INFO, f"{leaving} {self._coordinator} due to {leaver.reason}"
            case _:
                pass

    def _event_lines(self, event: GroupEvent) -> Iterator[Line]:
        match event.kind, event.detail:
            case EventKind.COORDINATOR_FOUND, CoordinatorChanged() as coordinator:
                self._coordinator = coordinator.node or ""
                yield logging.INFO, f"Discovered group coordinator {coordinator.node}"
            case EventKind.COORDINATOR_LOST, CoordinatorChanged() as lost:
                disconnected = "true" if lost.why in ("null", UNAVAILABLE) else "false"
                line = (
                    f"Group coordinator {lost.node} is unavailable or invalid due to cause: {lost.why}. "
                    f"isDisconnected: {disconnected}. Rediscovery will be attempted."
                )
                yield logging.INFO, line
            case EventKind.JOIN_REQUESTED, JoinRequested() as request:
                if request.reason.startswith(("encountered ", "consumer pro-actively")):
                    what = "generation" if "ILLEGAL_GENERATION" in request.reason else "generation and member id"
                    yield logging.INFO, f"Resetting {what} due to: {request.reason}"
                yield logging.INFO, f"Request joining group due to: {request.reason}"
            case EventKind.PARTITIONS_ASSIGNED, PartitionsChanged() as assigned:
                yield logging.INFO, f"Adding newly assigned partitions: {_join(assigned.partitions)}"
                yield from _slow_listener("on_partitions_assigned", assigned)
            case EventKind.PARTITIONS_REVOKED, PartitionsChanged() as revoked:
                yield logging.INFO, f"Revoke previously assigned partitions {_join(revoked.partitions)}"
                yield from _slow_listener("on_partitions_revoked", revoked)
            case EventKind.PARTITIONS_LOST, PartitionsChanged() as lost_partitions:
                yield logging.INFO, f"Lost previously assigned partitions {_join(lost_partitions.partitions)}"
                yield from _slow_listener("on_partitions_lost", lost_partitions)
            case EventKind.POLL_OVERRUN, PollOverrun() as overrun:
                yield logging.WARNING, POLL_TIMEOUT
                line = (
                    f"No poll() for {overrun.limit_ms + overrun.over_ms} ms, {overrun.over_ms} ms longer than "
                    f"max.poll.interval.ms = {overrun.limit_ms}. The member leaves the group and rejoins at its next "
                    "poll()."
                )
                yield logging.INFO, line
            case EventKind.HEARTBEAT_REFUSED, RequestRefused() as rejected:
                generation = _generation(rejected.generation or -1, event.member or "", event.assignor)
                instance = f"Optional[{event.instance}]" if event.instance else "Optional.empty"
                line = (
                    f"Attempt to heartbeat with {generation} and group instance id {instance} failed due to "
                    f"{rejected.error}, resetting generation"
                )
                yield logging.INFO, line
            case _:
                pass


def _slow_listener(callback: str, changed: PartitionsChanged) -> Iterator[Line]:
    if changed.callback_ms is not None and changed.callback_ms >= SLOW_LISTENER_MS:
        yield logging.WARNING, f"{callback} of the rebalance listener took {changed.callback_ms} ms"


def _join(partitions: tuple[TopicPartition, ...]) -> str:
    return ", ".join(map(str, partitions))


def _join_failed(request: JoinGroup, error: Error) -> Line:
    sent = _generation(-1, request.member_id, None)
    if error in _FATAL_JOINS:
        return logging.ERROR, f"JoinGroup failed due to fatal error: {java_message(error)}"
    if error is Error.FENCED_INSTANCE_ID:
        fenced = f"The group instance id Optional[{request.group_instance_id}] has been fenced by another instance."
        return logging.ERROR, f"JoinGroup failed: {fenced} Sent generation was {sent}"
    reason = java_message(error)
    return logging.INFO, f"JoinGroup failed: {reason} Need to re-join the group. Sent generation was {sent}"


def _generation(generation_id: int, member_id: str, protocol: str | None) -> str:
    name = "null" if protocol is None else f"'{protocol}'"
    return f"Generation{{generationId={generation_id}, memberId='{member_id}', protocol={name}}}"


def _assignments(request: SyncGroup) -> str:
    from slackwater.group.assignors.consumer_protocol import MalformedMetadata, decode_assignment

    assignments = []
    for member_id, data in request.assignments:
        try:
            partitions = _join(tuple(decode_assignment(data).partitions))
        except MalformedMetadata:
            partitions = "?"
        assignments.append(f"{member_id}=Assignment(partitions=[{partitions}])")
    return "{" + ", ".join(assignments) + "}"
