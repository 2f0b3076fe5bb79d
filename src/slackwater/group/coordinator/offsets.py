"""OffsetCommit, OffsetFetch and OffsetDelete (OC-01 … OC-14, OF-01 … OF-07, AD-05).

Rules kept here
- An offset is visible once it is written, and answered only then.
- A commit from another generation, or from somebody who is no member, never lands (OC-06).
- A commit by a member counts as a heartbeat (OC-08).
"""

from slackwater.group.coordinator import rebalance
from slackwater.group.coordinator.group import Group
from slackwater.group.coordinator.identity import identify
from slackwater.group.coordinator.records import CommittedOffset, Record, StoredOffset
from slackwater.group.coordinator.states import DEAD, EMPTY, OUTCOMES, Act, Input
from slackwater.group.coordinator.turn import Turn, write_error
from slackwater.group.errors import Error
from slackwater.group.events import GroupLife, Kind, Offsets
from slackwater.group.messages import (
    NO_MEMBER,
    CommittedPartition,
    FetchedGroup,
    FetchedOffset,
    GroupToFetch,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetDeleteResponse,
    OffsetFetch,
    OffsetFetchResponse,
)
from slackwater.group.topic_partition import TopicPartition

# --- commit ---------------------------------------------------------------------------------------------------------


def commit(turn: Turn, request: OffsetCommit, caller: object) -> None:
    """Store offsets, or say for each why not."""
    error = _refusal(turn, request)
    if error is not Error.NONE:
        partitions = tuple(CommittedPartition(o.topic, o.partition, error) for o in request.offsets)  # OC-11
        turn.answer(caller, OffsetCommitResponse(partitions))
        return
    group_id = request.group_id
    assert group_id is not None
    group = turn.desk.groups.get(group_id)
    if group is not None and (member := group.members.get(request.member_id)) is not None:
        member.last_heard_ms = turn.now_ms
        rebalance.extend_session(turn, member)
    limit = turn.desk.config.offset_metadata_max_bytes
    errors: list[Error] = []
    records: list[Record] = []
    expire_ms = turn.now_ms + request.retention_ms if request.retention_ms >= 0 else None  # OC-13
    for offset in request.offsets:
        metadata = offset.metadata or ""
        if len(metadata) > limit:  # OC-09: characters, not bytes
            errors.append(Error.OFFSET_METADATA_TOO_LARGE)
            continue
        errors.append(Error.NONE)
        value = StoredOffset(offset.offset, offset.leader_epoch, metadata, turn.now_ms, expire_ms)
        records.append(CommittedOffset(group_id, offset.topic, offset.partition, value))
    if records and group is None:  # OC-01: not before there is something to keep
        group = Group(group_id, turn.desk.shard_of(group_id), turn.now_ms)
        turn.desk.groups[group_id] = group
        turn.tell(group, Kind.GROUP_CREATED, GroupLife())

    def written(later: Turn, failure: Error) -> None:
        told = write_error(failure)
        later.answer(
            caller,
            OffsetCommitResponse(
                tuple(
                    CommittedPartition(o.topic, o.partition, told if each is Error.NONE else each)
                    for o, each in zip(request.offsets, errors, strict=True)
                )
            ),
        )
        if failure is not Error.NONE and group is not None:
            _forget_if_never_kept(later, group)

    if records:
        assert group is not None
        turn.append(group.shard, records, written)
    else:
        written(turn, Error.NONE)


def _forget_if_never_kept(turn: Turn, group: Group) -> None:
    """A simple group whose first offsets could not be written is no group."""
    if group.is_simple and group.stored is None and not group.offsets and not group.writing:
        group.move(DEAD, turn.now_ms)
        turn.desk.groups.pop(group.group_id, None)


def _refusal(turn: Turn, request: OffsetCommit) -> Error:
    """Why nothing of this commit can be stored, or NONE (OC-01 … OC-08)."""
    if request.group_id is None:
        return Error.INVALID_GROUP_ID  # OC-14
    group = turn.desk.groups.get(request.group_id)
    if group is None:
        error = turn.desk.refusal(request.group_id)
        if error is not Error.NONE or request.generation_id < 0:
            return error
        return Error.GROUP_ID_NOT_FOUND if request.reports_missing_group else Error.ILLEGAL_GENERATION  # OC-02
    outside = request.generation_id < 0 and (
        group.state is EMPTY or (request.member_id == NO_MEMBER and request.group_instance_id is None)
    )
    outcome = OUTCOMES[Input.COMMIT_SIMPLE if outside else Input.COMMIT][group.state]
    if not outside and group.state is not DEAD:
        error = identify(turn, group, request.member_id, request.group_instance_id, "offset-commit")
        if error is not Error.NONE:
            return error
        if request.generation_id != group.generation_id:
            return Error.ILLEGAL_GENERATION
    return Error.NONE if outcome.act is Act.STORE else outcome.error


# --- fetch ----------------------------------------------------------------------------------------------------------


def fetch(turn: Turn, request: OffsetFetch, caller: object) -> None:
    """Read committed offsets; nobody's membership is checked (OF-02).

    With `require_stable` a group whose shard still has writes under way is read after them: an empty append is the
    place in the log to wait for. If it fails the answer is NOT_COORDINATOR, because older consumers cannot take
    COORDINATOR_NOT_AVAILABLE here (OF-07).
    """
    desk = turn.desk
    answers: dict[int, FetchedGroup] = {}
    waiting: dict[int, list[int]] = {}  # shard -> places in the request
    busy = {write.shard for write in desk.writes.values()} if request.require_stable else set()
    for place, wanted in enumerate(request.groups):
        shard = -1 if wanted.group_id is None else desk.shard_of(wanted.group_id)
        if shard in busy:
            waiting.setdefault(shard, []).append(place)
        else:
            answers[place] = _fetch_group(turn, wanted)

    def answer_when_complete(later: Turn) -> None:
        if len(answers) == len(request.groups):
            later.answer(caller, OffsetFetchResponse(tuple(answers[place] for place in sorted(answers))))

    for shard, places in waiting.items():

        def read(later: Turn, error: Error, places: list[int] = places) -> None:
            for place in places:
                wanted = request.groups[place]
                if error is Error.NONE:
                    answers[place] = _fetch_group(later, wanted)
                else:
                    answers[place] = FetchedGroup(wanted.group_id, Error.NOT_COORDINATOR)
            answer_when_complete(later)

        turn.append(shard, (), read)
    if not waiting:
        answer_when_complete(turn)


def _fetch_group(turn: Turn, wanted: GroupToFetch) -> FetchedGroup:
    group_id, partitions = wanted
    if group_id is None:
        return FetchedGroup(group_id, Error.INVALID_GROUP_ID)
    group = turn.desk.groups.get(group_id)
    if group is None and (error := turn.desk.refusal(group_id)) is not Error.NONE:
        return FetchedGroup(group_id, error)
    known = group.offsets if group is not None and group.state is not DEAD else {}  # OF-01
    asked = sorted(known) if partitions is None else [TopicPartition(*partition) for partition in partitions]
    return FetchedGroup(group_id, Error.NONE, tuple(_fetched(known.get(at), at) for at in asked))


def _fetched(stored: StoredOffset | None, at: TopicPartition) -> FetchedOffset:
    if stored is None:
        return FetchedOffset(at.topic, at.partition)
    return FetchedOffset(at.topic, at.partition, stored.offset, stored.leader_epoch, stored.metadata)


# --- delete ---------------------------------------------------------------------------------------------------------


def delete(turn: Turn, request: OffsetDelete, caller: object) -> None:
    """Forget offsets of topics that nobody in the group reads (AD-05)."""
    group_id = request.group_id
    if not group_id:
        turn.answer(caller, OffsetDeleteResponse(Error.INVALID_GROUP_ID))
        return
    group = turn.desk.groups.get(group_id)
    if group is None or group.state is DEAD:
        error = turn.desk.refusal(group_id)
        turn.answer(caller, OffsetDeleteResponse(Error.GROUP_ID_NOT_FOUND if error is Error.NONE else error))
        return
    if group.state is not EMPTY and not group.is_consumer:
        turn.answer(caller, OffsetDeleteResponse(Error.NON_EMPTY_GROUP))
        return
    results: list[CommittedPartition] = []
    doomed: dict[TopicPartition, None] = {}
    for topic, partition in request.partitions:
        if group.is_subscribed(topic):
            results.append(CommittedPartition(topic, partition, Error.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        results.append(CommittedPartition(topic, partition, Error.NONE))
        at = TopicPartition(topic, partition)
        if at in group.offsets or at in group.writing:
            doomed[at] = None

    def written(later: Turn, error: Error) -> None:
        if error is not Error.NONE:
            later.answer(caller, OffsetDeleteResponse(write_error(error)))
            return
        if doomed:
            later.tell(group, Kind.OFFSETS_DELETED, Offsets(len(doomed)))
        later.answer(caller, OffsetDeleteResponse(Error.NONE, tuple(results)))

    if doomed:
        turn.append(group.shard, [CommittedOffset(group_id, *at, None) for at in doomed], written)
    else:
        written(turn, Error.NONE)
