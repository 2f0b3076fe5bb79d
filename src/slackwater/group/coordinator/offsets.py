"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete (OC-01 … OC-14, TX-01 … TX-06, OF-01 … OF-07, AD-05).

Invariants:
- A committed offset is visible, and acknowledged, only after it is written.
- A commit from another generation or from a client that is not a member is never stored (OC-06).
- A commit by a member counts as a heartbeat (OC-08); one in a transaction does not (TX-02).
- Offsets of a transaction are visible after its commit marker (TX-04).
"""

from collections.abc import Collection, Mapping
from typing import Final

from slackwater.group.coordinator import rebalance
from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.effects import ProducerTransaction
from slackwater.group.coordinator.group import ClassicGroup
from slackwater.group.coordinator.identity import check_identity
from slackwater.group.coordinator.records import CommittedOffset, CoordinatorRecord, StoredOffset
from slackwater.group.coordinator.states import DEAD, EMPTY, TRANSITIONS, GroupAction, GroupInput, Transition
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupLifecycle, GroupState, OffsetsRemoved
from slackwater.group.messages import (
    NO_MEMBER,
    FetchedGroup,
    FetchedOffset,
    GroupToFetch,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetDeleteResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetResult,
    TxnOffsetCommit,
)
from slackwater.group.topic_partition import TopicPartition
from slackwater.group.write_errors import group_response_error

_MAX_TIMESTAMP_MS: Final = 2**63 - 1

_COMMIT: Final = TRANSITIONS[GroupInput.COMMIT]
_COMMIT_SIMPLE: Final = TRANSITIONS[GroupInput.COMMIT_SIMPLE]
_COMMIT_TRANSACTION: Final = TRANSITIONS[GroupInput.COMMIT_TRANSACTION]
_COMMIT_TRANSACTION_SIMPLE: Final = TRANSITIONS[GroupInput.COMMIT_TRANSACTION_SIMPLE]

# --- commit ---------------------------------------------------------------------------------------------------------


def commit(collector: EffectCollector, request: OffsetCommit, reply_to: object) -> None:
    """Store offsets; the response has one result per partition."""
    if (group := _group_for_commit(collector, request, reply_to)) is not None:
        _store(collector, request, group, reply_to, retention_ms=request.retention_ms)


def commit_in_transaction(collector: EffectCollector, request: TxnOffsetCommit, reply_to: object) -> None:
    """Store offsets that are visible when the transaction is committed."""
    group = collector.state.groups.get(request.group_id)
    error = validate_transactional_commit(collector, request, group)
    if error is not Error.NONE:
        collector.respond(reply_to, _response(request, error))
        return
    group = group or _create_simple_group(collector, request, request.group_id, reply_to)
    if group is not None:
        transaction = ProducerTransaction(request.producer_id, request.producer_epoch, request.verification)
        _store(collector, request, group, reply_to, transaction=transaction)


def _store(
    collector: EffectCollector,
    request: OffsetCommit | TxnOffsetCommit,
    group: ClassicGroup,
    reply_to: object,
    *,
    retention_ms: int = -1,
    transaction: ProducerTransaction | None = None,
) -> None:
    """Write the offsets, then respond."""
    wall_ms, limit, new = collector.wall_ms, collector.state.config.offset_metadata_max_bytes, tuple.__new__
    group_id = group.group_id
    expire_ms = min(wall_ms + retention_ms, _MAX_TIMESTAMP_MS) if retention_ms >= 0 else None  # OC-13
    records: list[CoordinatorRecord] = []
    too_large: list[int] = []
    for index, (topic, partition, offset, leader_epoch, metadata) in enumerate(request.offsets):
        if metadata and len(metadata) > limit:
            too_large.append(index)
            continue
        value = new(StoredOffset, (offset, leader_epoch, metadata or "", wall_ms, expire_ms))
        records.append(new(CommittedOffset, (group_id, topic, partition, value)))

    def on_written(collector: EffectCollector, failure: Error) -> None:
        collector.respond(reply_to, _response(request, group_response_error(failure), too_large))
        if failure is not Error.NONE:
            _remove_if_never_stored(collector, group)

    if records:
        collector.append(group.offsets_partition, records, on_written, transaction)
    else:
        on_written(collector, Error.NONE)


def _too_large(request: OffsetCommit | TxnOffsetCommit, limit: int) -> list[int]:
    """Return the positions of offsets with too long metadata; Kafka counts characters, not bytes (OC-09)."""
    return [index for index, offset in enumerate(request.offsets) if len(offset.metadata or "") > limit]


def _group_for_commit(collector: EffectCollector, request: OffsetCommit, reply_to: object) -> ClassicGroup | None:
    """Validate a commit, extend the member's session and return the group, created if needed.

    Returns None after an error response.
    """
    group_id = request.group_id
    group = collector.state.groups.get(group_id) if group_id is not None else None
    error = validate_commit(collector, request, group)
    if error is not Error.NONE:
        collector.respond(reply_to, _response(request, error))  # OC-11
        return None
    if group is not None:
        if (member := group.members.get(request.member_id)) is not None:
            member.last_seen_ms = collector.now_ms
            rebalance.extend_session(collector, member)
        return group
    assert group_id is not None
    return _create_simple_group(collector, request, group_id, reply_to)


def _create_simple_group(
    collector: EffectCollector, request: OffsetCommit | TxnOffsetCommit, group_id: str, reply_to: object
) -> ClassicGroup | None:
    """Create a group for the first commit; return None after an error response."""
    limit = collector.state.config.offset_metadata_max_bytes
    if len(_too_large(request, limit)) == len(request.offsets):  # OC-01: no group is created without an offset to store
        collector.respond(reply_to, _response(request, Error.OFFSET_METADATA_TOO_LARGE))
        return None
    collector.state.groups[group_id] = group = ClassicGroup(
        group_id, collector.state.offsets_partition_of(group_id), collector.wall_ms
    )
    collector.emit(group, EventKind.GROUP_CREATED, GroupLifecycle())
    return group


def _response(
    request: OffsetCommit | TxnOffsetCommit, error: Error, too_large: Collection[int] = ()
) -> OffsetCommitResponse:
    """Build a response with one result per offset, in the order of the request."""
    results = [OffsetResult(offset.topic, offset.partition, error) for offset in request.offsets]
    for index in too_large:
        results[index] = results[index]._replace(error=Error.OFFSET_METADATA_TOO_LARGE)
    return OffsetCommitResponse(tuple(results))


def _remove_if_never_stored(collector: EffectCollector, group: ClassicGroup) -> None:
    """Remove a simple group whose first offsets could not be written."""
    if group.is_simple and group.stored is None and not group.offsets and not group.unsettled_partitions():
        group.transition_to(DEAD, collector.wall_ms)
        collector.state.groups.pop(group.group_id, None)


def validate_commit(collector: EffectCollector, request: OffsetCommit, group: ClassicGroup | None) -> Error:
    """Return why this commit cannot be stored, or NONE (OC-01 … OC-08)."""
    if request.group_id is None:
        return Error.INVALID_GROUP_ID  # OC-14
    if group is None:
        error = collector.state.unavailable_error(request.group_id)
        if error is not Error.NONE or request.generation_id < 0:
            return error
        return Error.GROUP_ID_NOT_FOUND if request.reports_missing_group else Error.ILLEGAL_GENERATION  # OC-02
    return _validate_in_group(collector, request, group, "offset-commit", _COMMIT, _COMMIT_SIMPLE)


def validate_transactional_commit(
    collector: EffectCollector, request: TxnOffsetCommit, group: ClassicGroup | None
) -> Error:
    """Return why this commit in a transaction cannot be stored, or NONE (TX-01 … TX-03)."""
    if not request.group_id:
        return Error.INVALID_GROUP_ID
    if group is None:
        error = collector.state.unavailable_error(request.group_id)
        return error if error is not Error.NONE or request.generation_id < 0 else Error.ILLEGAL_GENERATION
    return _validate_in_group(
        collector, request, group, "txn-commit-offsets", _COMMIT_TRANSACTION, _COMMIT_TRANSACTION_SIMPLE
    )


def _validate_in_group(
    collector: EffectCollector,
    request: OffsetCommit | TxnOffsetCommit,
    group: ClassicGroup,
    operation: str,
    as_member: Mapping[GroupState, Transition],
    as_simple: Mapping[GroupState, Transition],
) -> Error:
    """Check member, generation and state; `as_simple` is for commits outside of the group's generations."""
    member_id, instance_id, state = request.member_id, request.group_instance_id, group.state
    outside = request.generation_id < 0 and (state is EMPTY or (member_id == NO_MEMBER and instance_id is None))
    if not outside and state is not DEAD:
        if instance_id is not None or member_id not in group.members:
            error = check_identity(collector, group, member_id, instance_id, operation)
            if error is not Error.NONE:
                return error
        if request.generation_id != group.generation_id:
            return Error.ILLEGAL_GENERATION
    transition = (as_simple if outside else as_member)[state]
    return Error.NONE if transition.action is GroupAction.STORE_OFFSETS else transition.error


# --- fetch ----------------------------------------------------------------------------------------------------------


def fetch(collector: EffectCollector, request: OffsetFetch, reply_to: object) -> None:
    """Return committed offsets; membership is not checked (OF-02).

    With `require_stable`, a group whose partition has pending writes is read after them: an empty append marks the
    position in the log to wait for. If it fails, the error is NOT_COORDINATOR, because older consumers do not handle
    COORDINATOR_NOT_AVAILABLE here (OF-07). A partition with a pending offset is UNSTABLE_OFFSET_COMMIT.
    """
    state = collector.state
    results: dict[int, FetchedGroup] = {}
    waiting: dict[int, list[int]] = {}  # offsets partition -> positions in the request
    busy = {write.offsets_partition for write in state.writes.values()} if request.require_stable else set()
    for index, requested in enumerate(request.groups):
        offsets_partition = -1 if requested.group_id is None else state.offsets_partition_of(requested.group_id)
        if offsets_partition in busy:
            waiting.setdefault(offsets_partition, []).append(index)
        else:
            results[index] = _fetch_group(collector, requested, require_stable=request.require_stable)

    def respond_when_complete(collector: EffectCollector) -> None:
        if len(results) == len(request.groups):
            collector.respond(reply_to, OffsetFetchResponse(tuple(results[index] for index in sorted(results))))

    for offsets_partition, indexes in waiting.items():

        def read(collector: EffectCollector, error: Error, indexes: list[int] = indexes) -> None:
            for index in indexes:
                requested = request.groups[index]
                if error is Error.NONE:
                    results[index] = _fetch_group(collector, requested, require_stable=True)
                else:
                    results[index] = FetchedGroup(requested.group_id, Error.NOT_COORDINATOR)
            respond_when_complete(collector)

        collector.append(offsets_partition, (), read)
    if not waiting:
        respond_when_complete(collector)


def _fetch_group(collector: EffectCollector, requested: GroupToFetch, *, require_stable: bool) -> FetchedGroup:
    group_id, partitions = requested
    if group_id is None:
        return FetchedGroup(group_id, Error.INVALID_GROUP_ID)
    group = collector.state.groups.get(group_id)
    if group is None and (error := collector.state.unavailable_error(group_id)) is not Error.NONE:
        return FetchedGroup(group_id, error)
    offsets = group.offsets if group is not None and group.state is not DEAD else {}  # OF-01
    selected = sorted(offsets) if partitions is None else [TopicPartition(*partition) for partition in partitions]
    pending = group if require_stable and group is not None and group.pending_offsets else None
    return FetchedGroup(
        group_id,
        Error.NONE,
        tuple(_fetched(offsets.get(topic_partition), topic_partition, pending) for topic_partition in selected),
    )


def _fetched(
    stored: StoredOffset | None, topic_partition: TopicPartition, pending: ClassicGroup | None
) -> FetchedOffset:
    if pending is not None and pending.is_pending(topic_partition):
        return FetchedOffset(topic_partition.topic, topic_partition.partition, error=Error.UNSTABLE_OFFSET_COMMIT)
    if stored is None:
        return FetchedOffset(topic_partition.topic, topic_partition.partition)
    return FetchedOffset(
        topic_partition.topic, topic_partition.partition, stored.offset, stored.leader_epoch, stored.metadata
    )


# --- delete ---------------------------------------------------------------------------------------------------------


def delete(collector: EffectCollector, request: OffsetDelete, reply_to: object) -> None:
    """Delete offsets of topics that no member of the group subscribes to (AD-05)."""
    group_id = request.group_id
    if not group_id:
        collector.respond(reply_to, OffsetDeleteResponse(Error.INVALID_GROUP_ID))
        return
    group = collector.state.groups.get(group_id)
    if group is None or group.state is DEAD:
        error = collector.state.unavailable_error(group_id)
        collector.respond(reply_to, OffsetDeleteResponse(Error.GROUP_ID_NOT_FOUND if error is Error.NONE else error))
        return
    if group.state is not EMPTY and not group.is_consumer:
        collector.respond(reply_to, OffsetDeleteResponse(Error.NON_EMPTY_GROUP))
        return
    results: list[OffsetResult] = []
    deleted: dict[TopicPartition, None] = {}
    unsettled_partitions = group.unsettled_partitions()
    for topic, partition in request.partitions:
        if group.is_subscribed(topic):
            results.append(OffsetResult(topic, partition, Error.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        results.append(OffsetResult(topic, partition, Error.NONE))
        topic_partition = TopicPartition(topic, partition)
        if topic_partition in group.offsets or topic_partition in unsettled_partitions:
            deleted[topic_partition] = None

    def written(collector: EffectCollector, error: Error) -> None:
        if error is not Error.NONE:
            collector.respond(reply_to, OffsetDeleteResponse(group_response_error(error)))
            return
        if deleted:
            collector.emit(group, EventKind.OFFSETS_DELETED, OffsetsRemoved(len(deleted)))
        collector.respond(reply_to, OffsetDeleteResponse(Error.NONE, tuple(results)))

    if deleted:
        collector.append(
            group.offsets_partition,
            [CommittedOffset(group_id, *topic_partition, None) for topic_partition in deleted],
            written,
        )
    else:
        written(collector, Error.NONE)
