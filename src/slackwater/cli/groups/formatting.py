"""Groups as text and as JSON."""

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
    """A broker's address and id."""
    return f"{broker.host}:{broker.port} (broker {broker.node_id})"


def broker_json(broker: "BrokerNode") -> dict[str, object]:
    """A broker."""
    return {"id": broker.node_id, "host": broker.host, "port": broker.port}


def member_name(member: "MemberDescription", among: Iterable["MemberDescription"]) -> str:
    """A member's instance id, else its client id if that is unique in the group, else its member id."""
    if member.group_instance_id is not None:
        return member.group_instance_id
    same = sum(other.client_id == member.client_id for other in among)
    return member.client_id if same == 1 and member.client_id else member.member_id


def partitions_text(partitions: Iterable["TopicPartition"]) -> str:
    """orders 0-3, 7; payments 1."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return "; ".join(f"{topic} {_ranges(numbers)}" for topic, numbers in topics.items())


def _ranges(numbers: list[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def total_lag(offsets: Iterable["GroupOffset"]) -> int | None:
    """The sum of the known lags; None if there is none."""
    known = [offset.lag for offset in offsets if offset.lag is not None]
    return sum(known) if known else None


def lag_text(offsets: list["GroupOffset"]) -> str:
    """A group's lag as text."""
    total = total_lag(offsets)
    if not offsets:
        return "nothing committed"
    unknown = sum(offset.lag is None for offset in offsets)
    known = count(len(offsets) - unknown, "partition")
    rest = f", {unknown} without an offset" if unknown else ""
    return (f"{total:,} in {known}" if total is not None else "unknown") + rest


def members_text(group: "GroupDescription") -> str:
    """The number of members and of idle members."""
    idle = len(group.idle)
    return f"{len(group.members)}, {idle} of {len(group.members)} idle" if idle else str(len(group.members))


def generation_text(group: "GroupDescription") -> str:
    """The generation, and its source where it is inferred."""
    from slackwater.client.admin.descriptions import GenerationSource

    if group.generation is None:
        return "unknown"
    if group.generation_source is GenerationSource.OFFSETS_TOPIC:
        if group.is_rebalancing:
            return f"{group.generation} was the last completed one (inferred from __consumer_offsets)"
        return f"{group.generation} (from __consumer_offsets)"
    if group.generation_source is GenerationSource.GROUP_EPOCH:
        return f"{group.generation} (the group's epoch)"
    return str(group.generation)


def waiting_text(group: "GroupDescription") -> str | None:
    """The members that a rebalance waits for; None if there is no rebalance."""
    from slackwater.client.admin.descriptions import GenerationSource

    if not group.is_rebalancing:
        return None
    if group.waiting_for is None:
        if group.generation_source is GenerationSource.GROUP_EVENTS:
            return "unknown yet: the broker reports it after a second"
        if group.state == "PreparingRebalance" and not any(member.partitions for member in group.members):
            return "more members (inferred: none of these was in a generation before)"
        return "unknown"
    names = ", ".join(_awaited_name(group, member_id) for member_id in group.waiting_for) or "more members"
    if group.waiting_exact:
        until = f" (until {clock(group.waiting_until_ms)})" if group.waiting_until_ms is not None else ""
        return names + until
    if group.state == "CompletingRebalance":
        return f"{names}, the leader, to assign partitions (inferred)"
    return f"some of {names} (inferred: members of the last generation; which of them have rejoined is not visible)"


def _awaited_name(group: "GroupDescription", member_id: str) -> str:
    member = group.member(member_id)
    if member is None:
        return f"{member_id}, which has a member id but has not joined yet"
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
    """A group's offset and lag in one partition."""
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
