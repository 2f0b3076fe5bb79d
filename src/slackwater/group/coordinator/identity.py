"""Checks that a request comes from a member, and from the one that holds the instance id it names."""

from slackwater.group.coordinator.effect_collector import EffectCollector
from slackwater.group.coordinator.group import ClassicGroup
from slackwater.group.errors import Error
from slackwater.group.events import EventKind, MemberFenced


def check_identity(
    collector: EffectCollector, group: ClassicGroup, member_id: str, instance_id: str | None, operation: str
) -> Error:
    """Return NONE for a member, else its error; a fenced instance id also emits an event."""
    error = group.check_identity(member_id, instance_id)
    if error is Error.FENCED_INSTANCE_ID:
        emit_fenced(collector, group, member_id, instance_id, operation)
    return error


def emit_fenced(
    collector: EffectCollector,
    group: ClassicGroup,
    member_id: str,
    instance_id: str | None,
    operation: str,
    *,
    holder: str | None = None,
) -> None:
    """Emit that a request used an instance id of another member: `holder`, or the one that holds it now."""
    holder = holder or group.static_members.get(instance_id or "")
    detail = MemberFenced(operation, holder)
    collector.emit(group, EventKind.MEMBER_FENCED, detail, member_id=member_id, instance_id=instance_id)
