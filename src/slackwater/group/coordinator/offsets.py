"""OffsetCommit, OffsetFetch and OffsetDelete (OC-01 … OC-14, OF-01 … OF-07, AD-05).

Rules kept here
- An offset is visible once it is written, and answered only then.
- A commit from another generation, or from somebody who is no member, never lands (OC-06).
- A commit by a member counts as a heartbeat (OC-08).
"""

from typing import Final

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

_LATEST_MS: Final = 2**63 - 1  # the latest time that can be written down

_COMMIT: Final = OUTCOMES[Input.COMMIT]
_COMMIT_SIMPLE: Final = OUTCOMES[Input.COMMIT_SIMPLE]

# --- commit ---------------------------------------------------------------------------------------------------------


def commit(turn: Turn, request: OffsetCommit, caller: object) -> None:
    """Store offsets, or say for each why not."""
    group_id = request.group_id
    group = turn.desk.groups.get(group_id) if group_id is not None else None
    error = _refusal(turn, request, group)
    if error is not Error.NONE:
        partitions = tuple(CommittedPartition(o.topic, o.partition, error) for o in request.offsets)  # OC-11
        turn.answer(caller, OffsetCommitResponse(partitions))
        return
    assert group_id is not None
    if group is not None and (member := group.members.get(request.member_id)) is not None:
        member.last_heard_ms = turn.now_ms
        rebalance.extend_session(turn, member)
    limit = turn.desk.config.offset_metadata_max_bytes
    too_large: list[int] = []  # places in the request
    records: list[Record] = []
    now_ms = turn.now_ms
    expire_ms = min(now_ms + request.retention_ms, _LATEST_MS) if request.retention_ms >= 0 else None  # OC-13
    for place, (topic, partition, offset, leader_epoch, metadata) in enumerate(request.offsets):
        if metadata and len(metadata) > limit:  # OC-09: characters, not bytes
            too_large.append(place)
            continue
        value = StoredOffset(offset, leader_epoch, metadata or "", now_ms, expire_ms)
        records.append(CommittedOffset(group_id, topic, partition, value))
    if records and group is None:  # OC-01: not before there is something to keep
        group = Group(group_id, turn.desk.shard_of(group_id), turn.now_ms)
        turn.desk.groups[group_id] = group
        turn.tell(group, Kind.GROUP_CREATED, GroupLife())

    def written(later: Turn, failure: Error) -> None:
        told = write_error(failure)
        results = [CommittedPartition(o.topic, o.partition, told) for o in request.offsets]
        for place in too_large:
            results[place] = results[place]._replace(error=Error.OFFSET_METADATA_TOO_LARGE)
        later.answer(caller, OffsetCommitResponse(tuple(results)))
        if failure is not Error.NONE and group is not None:
            _forget_if_never_kept(later, group)

    if records:
        assert group is not None
        turn.append(group.shard, records, written)
    else:
        written(turn, Error.NONE)


def _forget_if_never_kept(turn: Turn, group: Group) -> None:
    """A simple group whose first offsets could not be written is no group."""
    if group.is_simple and group.stored is None and not group.offsets and not group.unwritten():
        group.move(DEAD, turn.now_ms)
        turn.desk.groups.pop(group.group_id, None)


def _refusal(turn: Turn, request: OffsetCommit, group: Group | None) -> Error:
    """Why nothing of this commit can be stored, or NONE (OC-01 … OC-08)."""
    if request.group_id is None:
        return Error.INVALID_GROUP_ID  # OC-14
    if group is None:
        error = turn.desk.refusal(request.group_id)
        if error is not Error.NONE or request.generation_id < 0:
            return error
        return Error.GROUP_ID_NOT_FOUND if request.reports_missing_group else Error.ILLEGAL_GENERATION  # OC-02
    member_id, instance_id = request.member_id, request.group_instance_id
    outside = request.generation_id < 0 and (group.state is EMPTY or (member_id == NO_MEMBER and instance_id is None))
    outcome = (_COMMIT_SIMPLE if outside else _COMMIT)[group.state]
    if not outside and group.state is not DEAD:
        if instance_id is not None or member_id not in group.members:
            error = identify(turn, group, member_id, instance_id, "offset-commit")
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
    unwritten = group.unwritten()
    for topic, partition in request.partitions:
        if group.is_subscribed(topic):
            results.append(CommittedPartition(topic, partition, Error.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        results.append(CommittedPartition(topic, partition, Error.NONE))
        at = TopicPartition(topic, partition)
        if at in group.offsets or at in unwritten:
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
