"""Predicates that interpret one row of the event table for the rules.

Invariants:
- A predicate reads the columns of a single row and nothing else.
- Texts are matched by the wording of Kafka's brokers and clients (all versions), never by the name of a group, client
  or topic.
"""

import re
from typing import Final

from slackwater.doctor.events.member_ids import client_of_member
from slackwater.doctor.events.rows import BROKER_SIDE, CLIENT_SIDE, Row
from slackwater.doctor.events.table import OtherEventKind
from slackwater.group.events import EventKind, GroupState

CONSUMER: Final = "consumer"
"""`group_protocol` of a KIP-848 group."""
CREATED: Final = "created"
DELETED: Final = "deleted"
GREW: Final = "grew"

_UUID22: Final = re.compile(r"^[A-Za-z0-9_+/-]{22}$")
NO_MEMBER: Final = (
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
"""The Java client names its coordinator connection by this number minus the node id."""
_OFFERED_AS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_JAVA_NODE: Final = re.compile(r"\(id: (\d+) ")
_NODE_ID: Final = re.compile(r"nodeId=(\d+)|^(\d+)$|/(\d+)$|#(\d+)|node (\d+)")
_TOPIC_KINDS: Final[dict[str, str]] = {
    OtherEventKind.TOPIC_CREATED: CREATED,
    OtherEventKind.PARTITION_CREATED: CREATED,
    OtherEventKind.TOPIC_DELETED: DELETED,
    OtherEventKind.PARTITION_DELETED: DELETED,
}


# Enum members as module constants: an attribute lookup on the enum costs more than the rest of a predicate.
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
_CONVERTED: Final = OtherEventKind.GROUP_CONVERTED
_CLIENT_STARTED: Final = OtherEventKind.CLIENT_STARTED
_CLIENT_CLOSED: Final = OtherEventKind.CLIENT_CLOSED
_SUBSCRIBED: Final = OtherEventKind.CLIENT_SUBSCRIBED
_NUMBERED: Final = frozenset({_FORMED, _RECORDED})
_ARRIVING: Final = frozenset({_ISSUED, _JOINED})
_JOINING: Final = frozenset({_REQUESTED, _JOINED})
_WITH_GENERATION: Final = frozenset({_JOINED, _COMPLETED, _FORMED})
_WITH_OWN_MEMBER_ID: Final = frozenset({_JOINED, _COMPLETED, _LEFT, _REQUESTED})
REFUSALS: Final = (EventKind.JOIN_REFUSED, EventKind.HEARTBEAT_REFUSED, EventKind.COMMIT_REFUSED)
_INSTANCE_TAKEN: Final = ("FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID")
_SESSION_ERRORS: Final = frozenset({EventKind.SESSION_LOST, EventKind.HEARTBEAT_REFUSED, EventKind.COMMIT_REFUSED})


def is_poll_reason(text: str) -> bool:
    """Return whether a leave reason means max.poll.interval.ms was exceeded."""
    return "poll timeout" in text or "max.poll.interval" in text


def is_close_reason(text: str) -> bool:
    """Return whether a leave reason means close() or unsubscribe()."""
    return "being closed" in text or "unsubscribe" in text


def member_id_prefix(member: str) -> str:
    """Return the prefix of a member id: the instance id of a static member, the client id of a dynamic one."""
    return client_of_member(member) or member


def is_uuid(member: str) -> bool:
    """Return whether the member generated this id itself (KIP-848)."""
    return bool(_UUID22.match(member))


def reason(row: Row) -> str:
    """Return the client's reason if it sent one, else the coordinator's."""
    return row.detail_value("client_reason") or row.detail_value("reason") or ""


def members_named(row: Row) -> tuple[str, ...]:
    """Return the members that a row is about; several members that leave together can start one rebalance."""
    if row.kind == _STARTED and (several := row.detail_value("member_ids")):
        return tuple(several)
    member = row.member or row.detail_value("culprit")
    return (member,) if member else row.detail_names("member_ids")


def assignors(value: str) -> tuple[str, ...]:
    """Return the names in a printed list of assignor classes, Kafka's own classes under their protocol names."""
    classes = (name.strip(" []").removeprefix("class ").rpartition(".")[2] for name in value.split(",") if name.strip())
    return tuple(_OFFERED_AS.get(name, name) for name in classes)


def assignor(row: Row) -> str | None:
    """Return the assignor of a generation, if the row contains it."""
    name = row.assignor or row.detail_value("protocol")
    return name if name and name != "null" else None


# ---- generations


def is_formed(row: Row) -> bool:
    """The coordinator formed a generation or started an epoch."""
    return row.kind == _FORMED and row.source in BROKER_SIDE


def is_assigned(row: Row) -> bool:
    """The coordinator got the assignment of a generation: the generation was formed before."""
    return row.kind == _COMPLETED and row.source in BROKER_SIDE


def is_recorded(row: Row) -> bool:
    """A generation record in `__consumer_offsets`."""
    return row.kind == _RECORDED


def is_recorded_empty(row: Row) -> bool:
    """A generation record without members: the group was empty and no generation was formed."""
    return is_recorded(row) and not is_consumer_protocol(row) and member_count(row) == 0


def is_joined(row: Row) -> bool:
    """A client reports a generation that it joined."""
    return row.source in CLIENT_SIDE and row.kind in _WITH_GENERATION


def member_count(row: Row) -> int | None:
    """Return the number of members of a generation."""
    if row.members is not None:
        return row.members
    return len(row.detail_names("member_ids")) if is_recorded(row) else None


def is_consumer_protocol(row: Row) -> bool:
    """The row is about a KIP-848 group."""
    return bool(row.detail_value("group_protocol") == CONSUMER) and row.kind != _CONVERTED


def is_first_join(row: Row) -> bool:
    """The first member joined an empty group that had no generation before."""
    kind = row.kind
    if kind == _STARTED:
        return bool(row.detail_value("old_generation") == 0)
    if kind in _NUMBERED:
        generation = row.generation
        return generation == 1 or (generation == 2 and is_consumer_protocol(row))
    if kind in _ARRIVING and row.source in BROKER_SIDE:
        return row.state_before == _EMPTY
    return kind == _JOINED and row.generation == 1


# ---- a client's own log


def has_own_member_id(row: Row) -> bool:
    """The row's member id is the id of the client that wrote it."""
    return row.kind in _WITH_OWN_MEMBER_ID


def is_start(row: Row) -> bool:
    """The client's process (or its consumer) started."""
    return row.kind == _CLIENT_STARTED


def is_subscribe(row: Row) -> bool:
    """The client subscribed; most clients do so once, at start."""
    return row.kind == _SUBSCRIBED


def subscribed(row: Row) -> frozenset[str]:
    """Return the topics that the client subscribed to."""
    return frozenset(row.detail_names("topics")) if row.kind == _SUBSCRIBED else frozenset()


def is_overrun(row: Row) -> bool:
    """The client reports that it exceeded max.poll.interval.ms."""
    return row.kind == _OVERRUN or (is_leave(row) and is_poll_reason(row.detail_text("reason")))


def is_leave(row: Row) -> bool:
    """The client sent LeaveGroup."""
    return row.kind == _LEFT and row.source in CLIENT_SIDE


def is_close(row: Row) -> bool:
    """The client was closed."""
    return row.kind == _CLIENT_CLOSED


def is_lost(row: Row) -> bool:
    """The client was informed, or concluded, that its session expired."""
    if row.kind not in _SESSION_ERRORS:
        return False
    text = f"{row.detail_text('error')} {row.detail_text('why')}"
    if any(words in text for words in NO_MEMBER):
        return True
    return row.kind == _SESSION_LOST and any(words in text for words in _TIMED_OUT)


def is_timed_out(row: Row) -> bool:
    """The client noticed that its own session timed out: it sent no heartbeat for that long."""
    text = f"{row.detail_text('error')} {row.detail_text('why')}"
    return row.kind == _SESSION_LOST and any(words in text for words in _TIMED_OUT)


def is_failure(row: Row) -> bool:
    """The process ended with an error."""
    return row.kind == OtherEventKind.CLIENT_FAILED


def is_inconsistent(row: Row) -> bool:
    """A join failed because the members share no assignor (or protocol type), or the client raised that error."""
    is_client_report = row.is_from_client and row.kind == EventKind.REBALANCE_FAILED
    if not is_client_report and row.kind not in (EventKind.JOIN_REFUSED, OtherEventKind.CLIENT_FAILED):
        return False
    text = f"{row.detail_text('error')} {row.detail_text('why')}"
    return any(words in text for words in _INCONSISTENT)


def is_instance_taken(row: Row) -> bool:
    """A request failed because another running process has the same instance id."""
    if row.kind == EventKind.MEMBER_FENCED:
        return True
    return row.kind in REFUSALS and any(name in row.detail_text("error") for name in _INSTANCE_TAKEN)


def is_coordinator_lost(row: Row) -> bool:
    """The client lost its coordinator for a reason other than its own silence."""
    return row.kind == EventKind.COORDINATOR_LOST


def is_assignment(row: Row) -> bool:
    """The client got its partitions after a join."""
    return row.kind == EventKind.PARTITIONS_ASSIGNED


def is_rejoin(row: Row) -> bool:
    """The client sent JoinGroup."""
    return row.kind in _JOINING and row.source in CLIENT_SIDE


# ---- brokers and topics


def is_broker_stop(row: Row) -> bool:
    """A broker started to shut down."""
    return row.kind == OtherEventKind.BROKER_STOPPING


def is_broker_start(row: Row) -> bool:
    """A broker finished its start."""
    return row.kind == OtherEventKind.BROKER_STARTED


def node(row: Row) -> str:
    """Return the id of the broker that a row is about, or an empty string."""
    text = row.detail_text("node")
    if java := _JAVA_NODE.search(text):
        number = int(java[1])
        return str(_COORDINATOR_ID - number) if number > _COORDINATOR_ID // 2 else str(number)
    if match := _NODE_ID.search(text):
        return next(number for number in match.groups() if number is not None)
    return ""


def topic_change(row: Row) -> str | None:
    """Return the kind of topic change in a row; a creation can turn out to be added partitions."""
    return _TOPIC_KINDS.get(row.kind)
