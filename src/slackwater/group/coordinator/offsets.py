"""OffsetCommit, OffsetFetch and OffsetDelete (OC-01 … OC-14, OF-01 … OF-07, AD-05).

Rules kept here
- An offset is visible once it is written, and answered only then.
- A commit from another generation, or from somebody who is no member, never lands (OC-06).
- A commit by a member counts as a heartbeat (OC-08).
"""

from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import Final

from slackwater.group.coordinator import rebalance
from slackwater.group.coordinator.effect_collector import EffectCollector, response_error
from slackwater.group.coordinator.effects import SendResponse
from slackwater.group.coordinator.group import ClassicGroup
from slackwater.group.coordinator.identity import identify
from slackwater.group.coordinator.records import CommittedOffset, CoordinatorRecord, StoredOffset
from slackwater.group.coordinator.states import DEAD, EMPTY, TRANSITIONS, GroupAction, GroupInput
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, GroupLifecycle, OffsetsRemoved
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

_COMMIT: Final = TRANSITIONS[GroupInput.COMMIT]
_COMMIT_SIMPLE: Final = TRANSITIONS[GroupInput.COMMIT_SIMPLE]
_PARTITION: Final = itemgetter(0, 1)  # of an offset to commit

# --- commit ---------------------------------------------------------------------------------------------------------


def commit(turn: EffectCollector, request: OffsetCommit, caller: object) -> None:
    """Store offsets, or say for each why not."""
    commit_all(turn, ((request, caller),))


def commit_all(turn: EffectCollector, asked: Iterable[tuple[OffsetCommit, object]]) -> None:
    """The same for commits that came together: each is decided by itself, those of one group are written together.

    Who commits again at once, in the same generation, is not asked again who he is: nothing has happened since.
    """
    now_ms, limit, new = turn.now_ms, turn.desk.config.offset_metadata_max_bytes, tuple.__new__
    batch: _Batch | None = None
    by: OffsetCommit | None = None  # the last that was looked at, and found to be right
    for request, caller in asked:
        if (
            by is None
            or batch is None
            or request.member_id != by.member_id
            or request.generation_id != by.generation_id
            or request.group_instance_id != by.group_instance_id
            or request.group_id != by.group_id
        ):
            if batch is not None and batch.group.group_id != request.group_id:
                batch.append(turn)
                batch = None
            by = None
            if (group := _admit(turn, request, caller)) is None:
                continue
            by, batch = request, batch or _Batch(group)
            group_id, records, waiting = group.group_id, batch.records, batch.waiting
        retention_ms = request.retention_ms
        expire_ms = min(now_ms + retention_ms, _LATEST_MS) if retention_ms >= 0 else None  # OC-13
        too_large: Collection[int] = ()
        for topic, partition, offset, leader_epoch, metadata in request.offsets:
            if metadata and len(metadata) > limit:
                too_large = _too_large(request, limit)
                continue
            value = new(StoredOffset, (offset, leader_epoch, metadata or "", now_ms, expire_ms))
            records.append(new(CommittedOffset, (group_id, topic, partition, value)))
        waiting.append((caller, request, too_large))
    if batch is not None:
        batch.append(turn)


def _too_large(request: OffsetCommit, limit: int) -> list[int]:
    """The places of what cannot be stored: characters are counted, not bytes (OC-09)."""
    return [place for place, one in enumerate(request.offsets) if len(one.metadata or "") > limit]


def _admit(turn: EffectCollector, request: OffsetCommit, caller: object) -> ClassicGroup | None:
    """The group in which a commit may be stored; it is made if there was none. None: the commit has its answer."""
    group_id = request.group_id
    group = turn.desk.groups.get(group_id) if group_id is not None else None
    error = _refusal(turn, request, group)
    if error is not Error.NONE:
        turn.answer(caller, _response(request, error))  # OC-11
        return None
    if group is not None:
        if (member := group.members.get(request.member_id)) is not None:
            member.last_heard_ms = turn.now_ms
            rebalance.extend_session(turn, member)
        return group
    limit = turn.desk.config.offset_metadata_max_bytes
    if len(_too_large(request, limit)) == len(request.offsets):  # OC-01: not before there is something to keep
        turn.answer(caller, _response(request, Error.OFFSET_METADATA_TOO_LARGE))
        return None
    assert group_id is not None
    turn.desk.groups[group_id] = group = ClassicGroup(group_id, turn.desk.shard_of(group_id), turn.now_ms)
    turn.tell(group, EventKind.GROUP_CREATED, GroupLifecycle())
    return group


class _Batch:
    """Commits to one group, on their way to the log together."""

    __slots__ = ("group", "records", "waiting")

    def __init__(self, group: ClassicGroup) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []
        self.waiting: list[tuple[object, OffsetCommit, Collection[int]]] = []  # with the places of what is too large

    def append(self, turn: EffectCollector) -> None:
        """Write them, if there is anything to write."""
        if self.records:
            turn.append(self.group.shard, self.records, self._written)
        else:
            self._written(turn, Error.NONE)

    def _written(self, turn: EffectCollector, failure: Error) -> None:
        told, effects = response_error(failure), turn.effects
        answer: OffsetCommitResponse | None = None
        answered: tuple[tuple[str, int], ...] = ()
        for caller, request, too_large in self.waiting:
            asked = tuple(map(_PARTITION, request.offsets))
            if answer is None or too_large or asked != answered:  # else it is the one before
                answer, answered = _response(request, told, too_large), asked
            effects.append(SendResponse(caller, answer))
            if too_large:
                answer = None
        if failure is not Error.NONE:
            _forget_if_never_kept(turn, self.group)


def _response(request: OffsetCommit, error: Error, too_large: Collection[int] = ()) -> OffsetCommitResponse:
    """What became of each offset, in the order asked."""
    results = [CommittedPartition(one.topic, one.partition, error) for one in request.offsets]
    for place in too_large:
        results[place] = results[place]._replace(error=Error.OFFSET_METADATA_TOO_LARGE)
    return OffsetCommitResponse(tuple(results))


def _forget_if_never_kept(turn: EffectCollector, group: ClassicGroup) -> None:
    """A simple group whose first offsets could not be written is no group."""
    if group.is_simple and group.stored is None and not group.offsets and not group.unwritten():
        group.move(DEAD, turn.now_ms)
        turn.desk.groups.pop(group.group_id, None)


def _refusal(turn: EffectCollector, request: OffsetCommit, group: ClassicGroup | None) -> Error:
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
    return Error.NONE if outcome.act is GroupAction.STORE else outcome.error


# --- fetch ----------------------------------------------------------------------------------------------------------


def fetch(turn: EffectCollector, request: OffsetFetch, caller: object) -> None:
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

    def answer_when_complete(later: EffectCollector) -> None:
        if len(answers) == len(request.groups):
            later.answer(caller, OffsetFetchResponse(tuple(answers[place] for place in sorted(answers))))

    for shard, places in waiting.items():

        def read(later: EffectCollector, error: Error, places: list[int] = places) -> None:
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


def _fetch_group(turn: EffectCollector, wanted: GroupToFetch) -> FetchedGroup:
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


def delete(turn: EffectCollector, request: OffsetDelete, caller: object) -> None:
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

    def written(later: EffectCollector, error: Error) -> None:
        if error is not Error.NONE:
            later.answer(caller, OffsetDeleteResponse(response_error(error)))
            return
        if doomed:
            later.tell(group, EventKind.OFFSETS_DELETED, OffsetsRemoved(len(doomed)))
        later.answer(caller, OffsetDeleteResponse(Error.NONE, tuple(results)))

    if doomed:
        turn.append(group.shard, [CommittedOffset(group_id, *at, None) for at in doomed], written)
    else:
        written(turn, Error.NONE)
