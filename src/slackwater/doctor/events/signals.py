"""What a row means to the rules: the one place that knows how readers name things.

Rules kept here
- A signal is asked of one row and answered by its columns alone.
- Texts are matched in the words that Kafka's clients and brokers use, of every version; never by what a group, a client
  or a topic is called.
"""

import re
from typing import Final

from slackwater.doctor.events.rows import BROKER_SIDE, CLIENT_SIDE, Row
from slackwater.doctor.events.table import FactKind
from slackwater.group.events import EventKind, GroupState

CONSUMER: Final = "consumer"
"""The protocol of KIP-848's groups."""
CREATED: Final = "created"
DELETED: Final = "deleted"
GREW: Final = "grew"

_UUID22: Final = re.compile(r"^[A-Za-z0-9_+/-]{22}$")
_MADE: Final = re.compile(r"-[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")
_MADE_LETTERS: Final = 37
"""What the coordinator adds to make a member id, and how long that is."""
_NO_MEMBER: Final = (
    "UNKNOWN_MEMBER_ID",
    "not aware of this member",
    "UnknownMemberId",
    "nknown member",
    "not recognized",
)
_TIMED_OUT: Final = ("session timed out", "session expired")
_INCONSISTENT: Final = (
    "INCONSISTENT_GROUP_PROTOCOL",
    "InconsistentGroupProtocol",
    "nconsistent group protocol",
    "protocols are incompatible",
    "protocol type is incompatible",
    "supported protocols",
)
_COORDINATOR_ID: Final = 2_147_483_647
"""Java names its connection to the coordinator by this number less the node's id."""
_OFFERED_AS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_JAVA_NODE: Final = re.compile(r"\(id: (\d+) ")
_NODE_ID: Final = re.compile(r"nodeId=(\d+)|^(\d+)$|/(\d+)$|#(\d+)|node (\d+)")
_TOPIC_KINDS: Final[dict[str, str]] = {
    FactKind.TOPIC_CREATED: CREATED,
    FactKind.PARTITION_CREATED: CREATED,
    FactKind.TOPIC_DELETED: DELETED,
    FactKind.PARTITION_DELETED: DELETED,
}


# An enum's member is looked up by code of Python's, which takes longer than all that a signal does with it.
_FORMED: Final = EventKind.GENERATION_FORMED
_RECORDED: Final = EventKind.GENERATION_RECORDED
_STARTED: Final = EventKind.REBALANCE_STARTED
_COMPLETED: Final = EventKind.REBALANCE_COMPLETED
_JOINED: Final = EventKind.MEMBER_JOINED
_LEFT: Final = EventKind.MEMBER_LEFT
_ISSUED: Final = EventKind.MEMBER_ID_ISSUED
_REQUESTED: Final = EventKind.JOIN_REQUESTED
_EMPTY: Final = GroupState.EMPTY
_OVERRUN: Final = EventKind.POLL_OVERRUN
_SESSION_LOST: Final = EventKind.SESSION_LOST
_CONVERTED: Final = FactKind.GROUP_CONVERTED
_CLIENT_STARTED: Final = FactKind.CLIENT_STARTED
_CLIENT_CLOSED: Final = FactKind.CLIENT_CLOSED
_SUBSCRIBED: Final = FactKind.CLIENT_SUBSCRIBED
_NUMBERED: Final = frozenset({_FORMED, _RECORDED})
_COMING: Final = frozenset({_ISSUED, _JOINED})
_ASKING: Final = frozenset({_REQUESTED, _JOINED})
_TELL_GENERATION: Final = frozenset({_JOINED, _COMPLETED, _FORMED})
_TELL_OWN_ID: Final = frozenset({_JOINED, _COMPLETED, _LEFT, _REQUESTED})
_TELL_LOSS: Final = frozenset({EventKind.SESSION_LOST, EventKind.HEARTBEAT_REFUSED, EventKind.COMMIT_REFUSED})


def is_poll_reason(text: str) -> bool:
    """A leave for having polled too late."""
    return "poll timeout" in text or "max.poll.interval" in text


def is_close_reason(text: str) -> bool:
    """A leave by close() or unsubscribe()."""
    return "being closed" in text or "unsubscribe" in text


def made_of(member: str) -> str:
    """What the coordinator made a member id of: the instance id of a static member, the client id of any other."""
    prefix = len(member) - _MADE_LETTERS
    return member[:prefix] if prefix > 0 and _MADE.match(member, prefix) else member


def is_uuid(member: str) -> bool:
    """A bare id, made by the member itself (KIP-848)."""
    return bool(_UUID22.match(member))


def reason(row: Row) -> str:
    """The client's reason where it gave one, else the coordinator's words."""
    return row.told("client_reason") or row.told("reason") or ""


def members_named(row: Row) -> tuple[str, ...]:
    """The members that a row is about; a round may have been started by several who left at once."""
    if row.kind == _STARTED and (several := row.told("member_ids")):
        return tuple(several)
    member = row.member or row.told("culprit")
    return (member,) if member else row.names("member_ids")


def assignors(value: str) -> tuple[str, ...]:
    """The names in a printed list of assignor classes: Kafka's own by the names under which they are offered."""
    classes = (one.strip(" []").removeprefix("class ").rpartition(".")[2] for one in value.split(",") if one.strip())
    return tuple(_OFFERED_AS.get(name, name) for name in classes)


def assignor(row: Row) -> str | None:
    """The assignor that a generation was made by, where a row tells it."""
    name = row.assignor or row.told("protocol")
    return name if name and name != "null" else None


# ---- generations


def is_formed(row: Row) -> bool:
    """The coordinator formed a generation, or began an epoch."""
    return row.kind == _FORMED and row.source in BROKER_SIDE


def is_recorded(row: Row) -> bool:
    """A generation stands in `__consumer_offsets`."""
    return row.kind == _RECORDED


def is_recorded_empty(row: Row) -> bool:
    """A generation without members was recorded: the group was empty, nothing was formed."""
    return is_recorded(row) and not is_consumer_protocol(row) and size_of(row) == 0


def is_joined(row: Row) -> bool:
    """A client tells of a generation that it joined."""
    return row.source in CLIENT_SIDE and row.kind in _TELL_GENERATION


def size_of(row: Row) -> int | None:
    """How many members a generation has."""
    if row.members is not None:
        return row.members
    return len(row.names("member_ids")) if is_recorded(row) else None


def is_consumer_protocol(row: Row) -> bool:
    """Told of a KIP-848 group."""
    return bool(row.told("group_protocol") == CONSUMER) and row.kind != _CONVERTED


def is_first_join(row: Row) -> bool:
    """The first member of a group that had none, and no generation before."""
    kind = row.kind
    if kind == _STARTED:
        return bool(row.told("old_generation") == 0)
    if kind in _NUMBERED:
        generation = row.generation
        return generation == 1 or (generation == 2 and is_consumer_protocol(row))
    if kind in _COMING and row.source in BROKER_SIDE:
        return row.state_before == _EMPTY
    return kind == _JOINED and row.generation == 1


# ---- a client's own log


def tells_own_id(row: Row) -> bool:
    """The member id in it is the client's own."""
    return row.kind in _TELL_OWN_ID


def is_start(row: Row) -> bool:
    """The client's process (or its consumer) came up."""
    return row.kind == _CLIENT_STARTED


def is_subscribe(row: Row) -> bool:
    """The client subscribed; most do so once, when they come up."""
    return row.kind == _SUBSCRIBED


def subscribed(row: Row) -> frozenset[str]:
    """The topics that the client subscribed to."""
    return frozenset(row.names("topics")) if row.kind == _SUBSCRIBED else frozenset()


def is_overrun(row: Row) -> bool:
    """The client polled too late, and says so."""
    return row.kind == _OVERRUN or (is_leave(row) and is_poll_reason(row.text("reason")))


def is_leave(row: Row) -> bool:
    """The client sends its leave."""
    return row.kind == _LEFT and row.source in CLIENT_SIDE


def is_close(row: Row) -> bool:
    """The client was closed."""
    return row.kind == _CLIENT_CLOSED


def is_lost(row: Row) -> bool:
    """The client learns, or concludes, that its session is over."""
    if row.kind not in _TELL_LOSS:
        return False
    text = f"{row.text('error')} {row.text('why')}"
    if any(words in text for words in _NO_MEMBER):
        return True
    return row.kind == _SESSION_LOST and any(words in text for words in _TIMED_OUT)


def is_timed_out(row: Row) -> bool:
    """The client itself noticed that its session ran out: it had been silent for that long."""
    text = f"{row.text('error')} {row.text('why')}"
    return row.kind == _SESSION_LOST and any(words in text for words in _TIMED_OUT)


def is_failure(row: Row) -> bool:
    """The process ends with an error."""
    return row.kind == FactKind.CLIENT_FAILED


def is_join_refused(row: Row) -> bool:
    """A join was refused for good."""
    return row.kind == EventKind.JOIN_REFUSED


def is_inconsistent(row: Row) -> bool:
    """A join refused because no assignor (or protocol type) is common to all members, or the error that it raised."""
    told = row.of_client and row.kind == EventKind.REBALANCE_FAILED
    if not told and row.kind not in (EventKind.JOIN_REFUSED, FactKind.CLIENT_FAILED):
        return False
    text = f"{row.text('error')} {row.text('why')}"
    return any(words in text for words in _INCONSISTENT)


def is_instance_taken(row: Row) -> bool:
    """A request, or a join, refused because another live process has the same instance id."""
    if row.kind == EventKind.MEMBER_FENCED:
        return True
    return row.kind == EventKind.JOIN_REFUSED and "UNRELEASED_INSTANCE_ID" in row.text("error")


def is_coordinator_lost(row: Row) -> bool:
    """The client lost its coordinator, and not by its own silence."""
    return row.kind == EventKind.COORDINATOR_LOST


def is_rejoin(row: Row) -> bool:
    """The client asks to join."""
    return row.kind in _ASKING and row.source in CLIENT_SIDE


# ---- brokers and topics


def is_broker_stop(row: Row) -> bool:
    """A broker begins to stop."""
    return row.kind == FactKind.BROKER_STOPPING


def is_broker_start(row: Row) -> bool:
    """A broker has started."""
    return row.kind == FactKind.BROKER_STARTED


def node(row: Row) -> str:
    """The id of the broker that a row is about, empty when it is not told."""
    text = row.text("node")
    if java := _JAVA_NODE.search(text):
        number = int(java[1])
        return str(_COORDINATOR_ID - number) if number > _COORDINATOR_ID // 2 else str(number)
    if match := _NODE_ID.search(text):
        return next(one for one in match.groups() if one is not None)
    return ""


def topic_change(row: Row) -> str | None:
    """Which change of a topic a row tells of; a creation may turn out to be growth."""
    return _TOPIC_KINDS.get(row.kind)
