"""Groups as they are shown, in words and in JSON."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from slackwater.cli.printing import count
from slackwater.cli.times import clock

if TYPE_CHECKING:
    from slackwater.client.admin import GroupDescription, GroupOffset, MemberDescription
    from slackwater.client.network.cluster import BrokerNode
    from slackwater.group.topic_partition import TopicPartition

STATES: Final = {"Stable": "green", "PreparingRebalance": "yellow", "CompletingRebalance": "yellow", "Empty": "dim"}


def broker_name(broker: "BrokerNode") -> str:
    """Where a broker is, and its id."""
    return f"{broker.host}:{broker.port} (broker {broker.node_id})"


def broker_json(broker: "BrokerNode") -> dict[str, object]:
    """A broker."""
    return {"id": broker.node_id, "host": broker.host, "port": broker.port}


def member_name(member: "MemberDescription", among: Iterable["MemberDescription"]) -> str:
    """What to call a member: by its instance or client id where that is its own, else by its member id."""
    if member.group_instance_id is not None:
        return member.group_instance_id
    alike = sum(one.client_id == member.client_id for one in among)
    return member.client_id if alike == 1 and member.client_id else member.member_id


def partitions_text(partitions: Iterable["TopicPartition"]) -> str:
    """orders 0-3, 7; payments 1."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return "; ".join(f"{topic} {_ranges(numbers)}" for topic, numbers in topics.items())


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def total_lag(offsets: Iterable["GroupOffset"]) -> int | None:
    """All that is known of a group's lag; None where it has committed nothing."""
    known = [one.lag for one in offsets if one.lag is not None]
    return sum(known) if known else None


def lag_text(offsets: list["GroupOffset"]) -> str:
    """A group's lag in words."""
    total = total_lag(offsets)
    if not offsets:
        return "nothing committed"
    unknown = sum(one.lag is None for one in offsets)
    known = count(len(offsets) - unknown, "partition")
    rest = f", {unknown} without an offset" if unknown else ""
    return (f"{total:,} in {known}" if total is not None else "unknown") + rest


def members_text(group: "GroupDescription") -> str:
    """How many, and how many of them have nothing to do."""
    idle = len(group.idle)
    return f"{len(group.members)}, {idle} of {len(group.members)} idle" if idle else str(len(group.members))


def generation_text(group: "GroupDescription") -> str:
    """The generation, and how it is known if that matters."""
    from slackwater.client.admin.descriptions import GenerationSource

    if group.generation is None:
        return "not known"
    if group.generation_source is GenerationSource.OFFSETS_TOPIC:
        if group.is_rebalancing:
            return f"{group.generation} was the last that was completed (inferred from __consumer_offsets)"
        return f"{group.generation} (from __consumer_offsets)"
    if group.generation_source is GenerationSource.GROUP_EPOCH:
        return f"{group.generation} (the group's epoch)"
    return str(group.generation)


def waiting_text(group: "GroupDescription") -> str | None:
    """Whom a rebalance waits for; None if none is under way."""
    from slackwater.client.admin.descriptions import GenerationSource

    if not group.is_rebalancing:
        return None
    if group.waiting_for is None:
        if group.generation_source is GenerationSource.GROUP_EVENTS:
            return "not told yet: the broker says it after a second"
        if group.state == "PreparingRebalance" and not any(one.partitions for one in group.members):
            return "more members (inferred: none of these was in a generation before)"
        return "not known"
    names = ", ".join(_waited_for(group, member_id) for member_id in group.waiting_for) or "more members"
    if group.waiting_exact:
        until = f" (until {clock(group.waiting_until_ms)})" if group.waiting_until_ms is not None else ""
        return names + until
    if group.state == "CompletingRebalance":
        return f"{names}, the leader, to assign partitions (inferred)"
    return f"some of {names} (inferred: they were in the last generation, and who has rejoined looks the same)"


def _waited_for(group: "GroupDescription", member_id: str) -> str:
    member = group.member(member_id)
    if member is None:
        return f"{member_id}, which has its id and has not joined yet"
    return member_name(member, group.members)


def group_json(group: "GroupDescription") -> dict[str, object]:
    """A group without its members and offsets."""
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor or None,
        "generation": group.generation,
        "generation_source": group.generation_source,
        "coordinator": broker_json(group.coordinator),
        "member_count": len(group.members),
        "idle": len(group.idle),
        "waiting_for": None if group.waiting_for is None else list(group.waiting_for),
        "waiting_exact": group.waiting_exact if group.waiting_for is not None else None,
        "waiting_until_ms": group.waiting_until_ms,
    }


def member_json(member: "MemberDescription") -> dict[str, object]:
    """A member."""
    return {
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "topics": None if member.topics is None else list(member.topics),
        "partitions": None
        if member.partitions is None
        else [{"topic": topic, "partition": number} for topic, number in member.partitions],
    }


def offset_json(offset: "GroupOffset") -> dict[str, object]:
    """How far a group has come in one partition."""
    return {
        "topic": offset.partition.topic,
        "partition": offset.partition.partition,
        "committed": offset.committed,
        "metadata": offset.metadata,
        "log_start": offset.log_start,
        "log_end": offset.log_end,
        "lag": offset.lag,
        "member": offset.member.member_id if offset.member is not None else None,
    }
