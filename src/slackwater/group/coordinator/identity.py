"""Who a request comes from: is it a member, and does it hold the instance id it names?

Rules kept here
- Whoever uses an instance id that another member holds is told apart from the unknown, and everybody hears of it.
"""

from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.group import ClassicGroup
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, MemberFenced


def identify(
    turn: EffectCollector, group: ClassicGroup, member_id: str, instance_id: str | None, operation: str
) -> Error:
    """NONE for a member, else the error it is told."""
    error = group.identify(member_id, instance_id)
    if error is Error.FENCED_INSTANCE_ID:
        tell_fenced(turn, group, member_id, instance_id, operation)
    return error


def tell_fenced(
    turn: EffectCollector,
    group: ClassicGroup,
    member_id: str,
    instance_id: str | None,
    operation: str,
    *,
    holder: str | None = None,
) -> None:
    """Tell that somebody used an instance id that another member holds; `holder` if it is about to."""
    holder = holder or group.static_members.get(instance_id or "")
    turn.tell(
        group, EventKind.MEMBER_FENCED, MemberFenced(operation, holder), member_id=member_id, instance_id=instance_id
    )
