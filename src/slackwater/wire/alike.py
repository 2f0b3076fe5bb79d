"""Requests that all members of a group send alike, but for the member id: most of each is compared, not read.

Rules kept here
- What is given out is what the usual reader would give out. All bytes before the member id and all behind it are those
  of a request that the usual reader has read, so they mean the same; whatever differs is left to that reader, which
  also finds what is wrong with it.
- Requests that were read in this way share their parts, such as the list of protocols: nobody may change them.
- What is kept is bounded, in number and in bytes; of each group it is what was read last.

A crowd that joins says the same a thousand times: the group, the timeouts, the protocols. What it hears is alike, too
(`envelope.AnswerAlike`).
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Final, NamedTuple

from slackwater.wire.apis import HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from slackwater.wire.reading import Read
from slackwater.wire.schema import STRING, Message, layout

ALIKE: Final = frozenset({JOIN_GROUP, SYNC_GROUP, HEARTBEAT})
MOST_GROUPS: Final = 256
MOST_BYTES: Final = 1_024  # behind the member id; who brings more brings an assignment, or has much of its own to say
_MEMBER_ID: Final = "member_id"
_TWO_BYTES_FROM: Final = 128  # a length plus one that takes more than a byte


class _Said(NamedTuple):
    """What stood before the member id and behind it, and what that says; with it, the request of who has no id yet."""

    before: bytes
    behind: bytes
    fields_before: tuple[object, ...]
    fields_behind: tuple[object, ...]
    without_id: Message


def alike(message: type[Message], version: int, read: Read) -> Read:
    """A function (data, at) → message for requests of the `ALIKE` in a flexible version, with `read` for the others."""
    learn = _learner(message, version)
    known: dict[bytes, _Said] = {}  # by the group, as it stands in the request

    def read_alike(data: bytes, at: int) -> Message:
        group = data[at : at + data[at]] if at < len(data) else b""
        said = known.get(group)
        if said is not None:
            before, behind, fields_before, fields_behind, without_id = said
            start, end = at + len(before), len(data) - len(behind)
            # The byte before the member id says how long it is, plus one: this must be all that is in between.
            if (
                start < end
                and end - start == data[start] < _TWO_BYTES_FROM
                and data.startswith(before, at)
                and data.endswith(behind)
            ):
                if end - start == 1:
                    return without_id
                try:
                    member_id = data[start + 1 : end].decode()
                except UnicodeDecodeError:
                    return read(data, at)  # which says what is wrong
                return message(*fields_before, member_id, *fields_behind)  # type: ignore[call-arg]  # a dataclass
        request = read(data, at)
        if (learnt := learn(data, at, len(group), request)) is not None:
            if len(known) >= MOST_GROUPS:
                known.clear()
            known[group] = learnt
        return request

    return read_alike


def _learner(message: type[Message], version: int) -> Callable[[bytes, int, int, Message], _Said | None]:
    """A function that takes apart what was read, with the bytes of its group; None if that cannot be or is too long."""
    numbers = _bytes_between_group_and_member(message, version)
    names = [each.name for each in fields(message)]  # type: ignore[arg-type]  # every message is a dataclass
    place = names.index(_MEMBER_ID)

    def learn(data: bytes, at: int, group_bytes: int, request: Message) -> _Said | None:
        start = at + group_bytes + numbers
        if not 0 < group_bytes < _TWO_BYTES_FROM or not 0 < data[start] < _TWO_BYTES_FROM:
            return None
        end = start + data[start]
        if len(data) - end > MOST_BYTES:
            return None
        values = [getattr(request, name) for name in names]
        before, behind = tuple(values[:place]), tuple(values[place + 1 :])
        without_id = message(*before, "", *behind)  # type: ignore[call-arg]  # a dataclass
        return _Said(data[at:start], data[end:], before, behind, without_id)

    return learn


def _bytes_between_group_and_member(message: type[Message], version: int) -> int:
    """The group comes first, then numbers, then the member id: how many bytes those numbers take."""
    slots = layout(message, version).slots
    place = next(number for number, slot in enumerate(slots) if slot.name == _MEMBER_ID)
    group, *numbers = [slot.shape.kind for slot in slots[:place]]
    assert group is STRING
    assert all(kind.size for kind in numbers)
    return sum(kind.size for kind in numbers)
