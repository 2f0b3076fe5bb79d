"""Log lines of the Java consumer since 1.0, of Connect's workers, and of Slackwater's consumer, which use its wording.

Invariants:
- Every line begins with the consumer's prefix, which contains client, group and instance.
- An event that several lines report counts once: the generation reset that comes with a leave is not a loss.
- `(Re-)joining group` is not an event; the join request with its reason is one, and the completed join another.
"""

import re
from typing import Final

from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.templates.connect import WORKER_EVENTS
from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

_MIN_KEY: Final = 16
"""A key of this length is not found in other programs' lines by chance."""
_GENERATION: Final = "Generation{generationId=<generation>, memberId='<member>', protocol=[[']]<assignor>[[']]}"

_GROUP: Final = (
    Template(
        "joined",
        "2.6+",
        "Successfully joined group with generation ",
        f"Successfully joined group with generation {_GENERATION}",
        EventKind.MEMBER_JOINED,
    ),
    Template(
        "joined",
        "1.0-2.5",
        "Successfully joined group with generation ",
        "Successfully joined group with generation <generation>",
        EventKind.MEMBER_JOINED,
    ),
    Template(
        "synced",
        "2.6+",
        "Successfully synced group in generation ",
        f"Successfully synced group in generation {_GENERATION}",
        EventKind.REBALANCE_COMPLETED,
    ),
    Template("joining", "1.0+", "(Re-)joining group", "(Re-)joining group[[ <*>]]", None),
    Template(
        "join requested",
        "3.0+",
        "Request joining group due to: ",
        "Request joining group due to: <reason>",
        EventKind.JOIN_REQUESTED,
    ),
    *(
        Template(
            "join requested",
            "2.7-2.8",
            "Requesting to re-join the group",
            f"Requesting to re-join the group and trigger rebalance since the {what} has changed",
            EventKind.JOIN_REQUESTED,
            {"reason": f"the {what} has changed"},
        )
        for what in ("assignment metadata", "subscription")
    ),
    Template(
        "assignment finished",
        "2.4+",
        "Finished assignment for group at generation ",
        "Finished assignment for group at generation <generation>: {<*>}",
        EventKind.GENERATION_FORMED,
    ),
    Template(
        "assigned",
        "2.4+",
        "newly assigned partitions",
        "Adding newly assigned partitions:[[ ]]<partitions>",
        EventKind.PARTITIONS_ASSIGNED,
    ),
    Template(
        "assigned",
        "1.0-2.3",
        "newly assigned partitions",
        "Setting newly assigned partitions[[:]] <partitions>",
        EventKind.PARTITIONS_ASSIGNED,
    ),
    Template(
        "revoked",
        "1.0+",
        "previously assigned partitions",
        "Revok[[e]][[ing]] previously assigned partitions[[ <partitions>]]",
        EventKind.PARTITIONS_REVOKED,
    ),
    Template(
        "lost",
        "2.4+",
        "previously assigned partitions",
        "Lost previously assigned partitions <partitions>",
        EventKind.PARTITIONS_LOST,
    ),
    Template("assignor notified", "3.0+", "Notifying assignor about ", "Notifying assignor about <*>", None),
    Template("assignment updated", "2.4+", "Updating assignment with", "Updating assignment with<*>", None),
    Template("reconciling", "3.7+", "Reconciling assignment with ", "Reconciling assignment with <*>", None),
    Template(
        "transitioned",
        "3.7+",
        " transitioned from ",
        "Member <member> with epoch <epoch> transitioned from ACKNOWLEDGING to STABLE.",
        EventKind.REBALANCE_COMPLETED,
        {"group_protocol": "consumer", "generation": "<epoch>"},
    ),
    Template(
        "transitioned to joining",
        "3.7+",
        " transitioned from ",
        "Member <member> with epoch <epoch> transitioned from <why> to JOINING.",
        EventKind.JOIN_REQUESTED,
        {"group_protocol": "consumer", "reason": "<why>"},
    ),
    Template(
        "transitioned to stale",
        "3.7+",
        " transitioned from ",
        "Member <member> with epoch <epoch> transitioned from <*> to PREPARE_LEAVING.",
        EventKind.MEMBER_LEFT,
        {"group_protocol": "consumer", "by": "itself"},
    ),
    Template(
        "transitioned to fenced",
        "3.7+",
        " transitioned from ",
        "Member <member> with epoch <epoch> transitioned from <*> to <error>ENCED.",
        EventKind.SESSION_LOST,
        {"group_protocol": "consumer", "error": "FENCED_MEMBER_EPOCH"},
    ),
    Template(
        "transitioned to fatal",
        "3.7+",
        " transitioned from ",
        "Member <*> transitioned from <*> to FATAL.",
        OtherEventKind.CLIENT_FAILED,
        {"group_protocol": "consumer", "error": "the member is in state FATAL"},
    ),
    Template("transitioned on the way", "3.7+", " transitioned from ", "Member <*> transitioned from <*>", None),
    Template(
        "leaving",
        "2.2+",
        "sending LeaveGroup request to coordinator",
        "Member <member> sending LeaveGroup request to coordinator <node>[[ due to <reason>]]",
        EventKind.MEMBER_LEFT,
        {"by": "itself"},
    ),
    Template(
        "poll overrun",
        "2.1+",
        "onsumer poll timeout has expired.",
        "[[This member will leave the group because ]][[C]][[c]]onsumer poll timeout has expired. This means <*>",
        EventKind.POLL_OVERRUN,
        {"trigger": "poll_timeout"},
    ),
    Template(
        "poll overrun measured",
        "3.7+",
        "exceeded approximately by ",
        "Time between subsequent calls to poll() was longer than the configured max.poll.interval.ms, exceeded "
        "approximately by <over_ms> ms. Member <member> will rejoin the group now.",
        EventKind.POLL_OVERRUN,
        {"trigger": "poll_timeout", "group_protocol": "consumer"},
    ),
    Template(
        "leave refused",
        "2.0+",
        "LeaveGroup request with ",
        f"LeaveGroup request with {_GENERATION} failed with error: <error>",
        None,
    ),
    Template(
        "fenced in the heartbeat thread",
        "2.3+",
        "Caught fenced group.instance.id",
        "Caught fenced group.instance.id <*> error in heartbeat thread",
        EventKind.MEMBER_FENCED,
        {"operation": "heartbeat", "error": "FENCED_INSTANCE_ID"},
    ),
    Template(
        "fenced",
        "2.3-2.5",
        "group.instance.id gets fenced",
        "Received fatal exception: group.instance.id gets fenced",
        EventKind.MEMBER_FENCED,
        {"error": "FENCED_INSTANCE_ID"},
    ),
    Template(
        "heartbeat thread ended",
        "1.0+",
        "eartbeat thread ",
        "Heartbeat thread [[for group <*> ]]failed due to unexpected error[[ <error>]]",
        OtherEventKind.CLIENT_FAILED,
    ),
    Template(
        "heartbeat refused",
        "2.6+",
        "Attempt to heartbeat with ",
        f"Attempt to heartbeat with [[stale ]]{_GENERATION} and group instance id <*> failed due to <error>, ",
        EventKind.HEARTBEAT_REFUSED,
    ),
    Template(
        "heartbeat refused for a rebalance",
        "1.0-2.8",
        "Attempt to heartbeat failed",
        "Attempt to heartbeat failed since group is rebalancing",
        EventKind.HEARTBEAT_REFUSED,
        {"error": "REBALANCE_IN_PROGRESS"},
    ),
    Template(
        "heartbeat refused for the coordinator",
        "1.0+",
        "Attempt to heartbeat failed",
        "Attempt to heartbeat failed since coordinator <node> is either not started or not valid[[.]]",
        EventKind.HEARTBEAT_REFUSED,
        {"error": "NOT_COORDINATOR"},
    ),
    Template(
        "heartbeat refused for the member",
        "1.0-2.5",
        "Attempt to heartbeat failed",
        "Attempt to heartbeat failed [[for ]]since member id <*> is not valid",
        EventKind.SESSION_LOST,
        {"error": "UNKNOWN_MEMBER_ID"},
    ),
    Template(
        "heartbeat refused for the generation",
        "1.0-2.5",
        "Attempt to heartbeat failed",
        "Attempt to heartbeat failed since generation <*> is not",
        EventKind.SESSION_LOST,
        {"error": "ILLEGAL_GENERATION"},
    ),
    Template(
        "heartbeat refused otherwise",
        "1.0-2.5",
        "Attempt to heartbeat failed",
        "Attempt to heartbeat failed <error>",
        EventKind.HEARTBEAT_REFUSED,
    ),
    Template(
        "generation reset by itself",
        "3.0+",
        "Resetting generation ",
        "Resetting generation [[and member id ]]due to: consumer pro-actively leaving the group",
        None,
    ),
    Template(
        "generation reset",
        "3.0+",
        "Resetting generation ",
        "Resetting generation [[and member id ]]due to: encountered <error> from <operation> response",
        EventKind.SESSION_LOST,
    ),
    Template(
        "generation reset otherwise",
        "3.0+",
        "Resetting generation ",
        "Resetting generation [[and member id ]]due to: <why>",
        EventKind.SESSION_LOST,
    ),
    Template("given away", "2.4+", "Giving away all ", "Giving away all assigned partitions <*>", None),
    Template(
        "join refused",
        "2.0+",
        "JoinGroup failed",
        "JoinGroup failed due to fatal error: <error>",
        EventKind.JOIN_REFUSED,
    ),
    Template(
        "join refused for an instance",
        "2.3+",
        "JoinGroup failed",
        "JoinGroup failed: The group instance id <*> has been fenced by another instance",
        EventKind.MEMBER_FENCED,
        {"operation": "join-group", "error": "FENCED_INSTANCE_ID"},
    ),
    Template(
        "join failed",
        "2.0+",
        "JoinGroup failed",
        "JoinGroup failed: <error>[[ Need to re-join the group.]][[ Marking coordinator unknown.]]"
        "[[ Sent generation was <*>]]",
        EventKind.REBALANCE_FAILED,
        {"operation": "join-group"},
    ),
    Template(
        "join refused",
        "1.0-2.5",
        "Attempt to join group failed",
        "Attempt to join group failed due to fatal error: <error>",
        EventKind.JOIN_REFUSED,
    ),
    Template(
        "join failed",
        "1.0-2.5",
        "Attempt to join group",
        "Attempt to join group [[<*> ]]failed <error>",
        EventKind.REBALANCE_FAILED,
        {"operation": "join-group"},
    ),
    Template(
        "sync refused for an instance",
        "2.3+",
        "SyncGroup failed",
        "SyncGroup failed: The group instance id <*> has been fenced by another instance",
        EventKind.MEMBER_FENCED,
        {"operation": "sync-group", "error": "FENCED_INSTANCE_ID"},
    ),
    Template(
        "sync failed",
        "2.0+",
        "SyncGroup failed",
        "SyncGroup failed[[:]][[ due to]] <error>[[ Need to re-join the group.]][[ Marking coordinator unknown.]]"
        "[[ Sent generation was <*>]]",
        EventKind.REBALANCE_FAILED,
        {"operation": "sync-group"},
    ),
    Template(
        "rebalance failed",
        "2.0-2.8",
        "ebalance failed",
        "Rebalance failed.[[ <error>]]",
        EventKind.REBALANCE_FAILED,
    ),
    Template(
        "static leader returned",
        "3.1+",
        "Skipped assignment for returning static leader",
        "Skipped assignment for returning static leader <*>",
        None,
    ),
    Template(
        "requests refused",
        "3.7+",
        " failed due to fenced instance id ",
        "<operation> failed due to fenced instance id <*>: <*>",
        EventKind.MEMBER_FENCED,
        {"error": "FENCED_INSTANCE_ID"},
    ),
    Template(
        "instance id not released",
        "3.7+",
        " failed due to unreleased instance id ",
        "<operation> failed due to unreleased instance id <*>: <*>",
        EventKind.JOIN_REFUSED,
        {"error": "UNRELEASED_INSTANCE_ID"},
    ),
    Template(
        "heartbeat of a consumer refused",
        "3.7+",
        "ConsumerGroupHeartbeatRequest failed",
        "ConsumerGroupHeartbeatRequest failed <error>",
        EventKind.HEARTBEAT_REFUSED,
        {"group_protocol": "consumer"},
    ),
)

_OFFSETS: Final = (
    Template(
        "commit refused for an instance",
        "2.3+",
        "OffsetCommit failed with ",
        f"OffsetCommit failed with {_GENERATION} due to group instance id <*> fenced",
        EventKind.MEMBER_FENCED,
        {"operation": "offset-commit", "error": "FENCED_INSTANCE_ID"},
    ),
    Template(
        "commit refused",
        "2.6+",
        "OffsetCommit failed with ",
        f"OffsetCommit failed with {_GENERATION}: <error>",
        EventKind.COMMIT_REFUSED,
    ),
    Template(
        "partition's commit refused",
        "1.0+",
        "Offset commit failed on partition ",
        "Offset commit failed on partition <*> at offset <*>: <error>",
        EventKind.COMMIT_REFUSED,
    ),
    Template(
        "commit of a stranger",
        "2.6+",
        "Failing OffsetCommit request since",
        "Failing OffsetCommit request since the consumer is not part of an active group",
        EventKind.COMMIT_REFUSED,
        {"error": "UNKNOWN_MEMBER_ID"},
    ),
    Template(
        "automatic commit failed",
        "1.0+",
        "ynchronous auto-commit of offsets ",
        "[[As]][[S]]ynchronous auto-commit of offsets [[{<*>} ]]failed: <error>",
        EventKind.COMMIT_REFUSED,
    ),
    Template(
        "commit failed",
        "0.11+",
        "Offset commit with offsets ",
        "Offset commit with offsets <*> failed[[: <error>]]",
        EventKind.COMMIT_REFUSED,
    ),
    Template(
        "automatic commit not answered",
        "1.0+",
        "ynchronous auto-commit of offsets ",
        "[[As]][[S]]ynchronous auto-commit of offsets {<*>} failed due to retriable error: <error>",
        EventKind.COMMIT_REFUSED,
    ),
    Template("automatic commit late", "1.0+", "uto-commit of offsets ", "<*>uto-commit of offsets <*>", None),
    Template("offset set", "1.0+", "etting ", "[[S]][[Res]]etting <*>offset for partition <*>", None),
    Template("no offset", "1.0+", "Found no committed offset", "Found no committed offset for partition <*>", None),
    Template("epoch reset", "2.0+", "Resetting the last seen epoch", "Resetting the last seen epoch of <*>", None),
    Template("epoch left out", "3.7+", "won't include epoch in", "Member <*> won't include epoch in <*>", None),
)

_COORDINATOR: Final = (
    Template(
        "coordinator found",
        "1.0+",
        "Discovered group coordinator ",
        "Discovered group coordinator <node>",
        EventKind.COORDINATOR_FOUND,
    ),
    Template(
        "session timed out",
        "2.7+",
        "is unavailable or invalid due to cause: session timed out",
        "Group coordinator <node> is unavailable or invalid due to cause: session timed out <why>.[[ ]]isDisconnected: "
        "<*>",
        EventKind.SESSION_LOST,
        {"error": "session timed out without receiving a heartbeat response"},
    ),
    Template(
        "coordinator lost",
        "2.7+",
        "is unavailable or invalid",
        "Group coordinator <node> is unavailable or invalid due to cause: <why>.[[ ]][[isDisconnected: <*>. ]]"
        "Rediscovery will be attempted.",
        EventKind.COORDINATOR_LOST,
    ),
    Template(
        "coordinator lost",
        "1.0-2.6",
        "is unavailable or invalid",
        "Group coordinator <node> is unavailable or invalid, will attempt rediscovery",
        EventKind.COORDINATOR_LOST,
    ),
    Template(
        "coordinator marked dead",
        "1.0-2.0",
        "Marking the coordinator ",
        "Marking the coordinator <node> dead[[ <*>]]",
        EventKind.COORDINATOR_LOST,
    ),
    Template(
        "disconnect requested",
        "2.7+",
        "Requesting disconnect from last known coordinator",
        "Requesting disconnect from last known coordinator <*>",
        None,
    ),
    Template("disconnected", "3.7+", "disconnected from the group coordinator", "Consumer has been <*>", None),
    Template("lookup failed", "1.0+", "oordinator lookup failed", "<*>oordinator lookup failed<*>", None),
    Template("lookup refused", "3.7+", "FindCoordinator request failed", "FindCoordinator request failed <*>", None),
)

_SUBSCRIPTION: Final = (
    Template(
        "subscribed",
        "1.0+",
        "Subscribed to topic(s): ",
        "Subscribed to topic(s): <topics>",
        OtherEventKind.CLIENT_SUBSCRIBED,
    ),
    Template(
        "subscribed to a pattern",
        "1.0+",
        "Subscribed to pattern: ",
        "Subscribed to pattern: '<reason>'",
        OtherEventKind.CLIENT_SUBSCRIBED,
    ),
    Template("unsubscribed", "2.0+", "Unsubscribed ", "Unsubscribed <*>", None),
)

# Lines that only Slackwater's consumer and Spark member log.
_SLACKWATER: Final = (
    Template(
        "started",
        "0.2+",
        "Starting the Slackwater ",
        "Starting the Slackwater [[consumer]][[source for Spark]], version <version>",
        OtherEventKind.CLIENT_STARTED,
    ),
    Template(
        "setting", "0.2+", "Configured with ", "Configured with <setting> = <value>", OtherEventKind.CLIENT_SETTING
    ),
    Template(
        "poll delay measured",
        "0.2+",
        "longer than max.poll.interval.ms = ",
        "No poll() for <*> ms, <over_ms> ms longer than max.poll.interval.ms = <limit_ms>. <*>",
        EventKind.POLL_OVERRUN,
        {"trigger": "poll_timeout"},
    ),
    Template(
        "slow listener", "0.2+", " of the rebalance listener took ", "<*> of the rebalance listener took <*> ms", None
    ),
    Template("closed", "0.2+", "The consumer is closed", "The consumer is closed", OtherEventKind.CLIENT_CLOSED),
    Template(
        "settings ignored",
        "0.2+",
        "Settings of other clients are ignored",
        "Settings of other clients are ignored: <*>",
        None,
    ),
)

JAVA_CONSUMER: Final = Family(
    name="Java consumer",
    source=EventSource.CLIENT_LOG,
    markers=("[Consumer clientId=", "[Consumer instanceId=", "[Worker clientId="),
    prefix=r"^(.*?)\[(?:Consumer|Worker) (?:instanceId=(.+?), )?clientId=(.*?), groupId=(.*?)\] ",
    prefix_slots=("head", "instance", "client", "group"),
    words=(" group ", "oordinator", "ebalanc", "Member ", "eneration", "ssigned", " heartbeat"),
    templates=(*_GROUP, *_OFFSETS, *_COORDINATOR, *_SUBSCRIPTION, *_SLACKWATER, *WORKER_EVENTS),
)

_WITHOUT_PREFIX: Final = tuple(
    template
    for template in (*_GROUP, *_OFFSETS, *_COORDINATOR)
    if template.kind is not None and len(template.key) >= _MIN_KEY and not template.wording.startswith("<")
)

_WITH_GROUP_AT_THE_END: Final = (
    Template(
        "revoked",
        "all",
        "Revoking previously assigned partitions ",
        "Revoking previously assigned partitions <partitions> for group <group>",
        EventKind.PARTITIONS_REVOKED,
    ),
    Template(
        "assigned",
        "all",
        "Setting newly assigned partitions ",
        "Setting newly assigned partitions <partitions> for group <group>",
        EventKind.PARTITIONS_ASSIGNED,
    ),
)
"""The same wording in the older Java consumer and in the Python clients, with the group."""

_LEAVES_WITHOUT_GROUP: Final = (
    Template(
        "left late",
        "2.4+",
        "sending LeaveGroup request to coordinator",
        "Member <member> sending LeaveGroup request to coordinator <node> due to consumer poll timeout has expired<*>",
        EventKind.POLL_OVERRUN,
        {"trigger": "poll_timeout"},
    ),
)
"""The overrun itself: a leave without a group is not kept, a failure is."""

JAVA_TEXT: Final = Family(
    name="Java consumer's messages alone",
    source=EventSource.CLIENT_LOG,
    markers=tuple(dict.fromkeys(template.key for template in _WITHOUT_PREFIX)),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(),
    tries_later_families=True,
    templates=(*_LEAVES_WITHOUT_GROUP, *_WITH_GROUP_AT_THE_END, *_WITHOUT_PREFIX),
)
"""Lines whose `[Consumer clientId=…, groupId=…]` a layout or a person left out."""

_FAILURES: Final = (
    Template(
        "exception in a thread",
        "any",
        "Exception in thread ",
        'Exception in thread "<*>" <error>[[: <why>]]',
        OtherEventKind.CLIENT_FAILED,
    ),
)

JAVA_PROCESS: Final = Family(
    name="Java process",
    source=EventSource.CLIENT_LOG,
    markers=("ConsumerConfig values:", "kafka.consumer for ", "Exception in thread "),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(),
    tries_later_families=True,
    templates=(
        Template(
            "consumer configured",
            "1.0+",
            "ConsumerConfig values:",
            "ConsumerConfig values:",
            OtherEventKind.CLIENT_STARTED,
        ),
        Template(
            "consumer closed",
            "2.0+",
            "kafka.consumer for ",
            "App info kafka.consumer for <client> unregistered",
            OtherEventKind.CLIENT_CLOSED,
        ),
        *_FAILURES,
    ),
)

SETTINGS: Final = (
    "client.id",
    "enable.auto.commit",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
"""Of the settings that a Java client prints when it starts, those that matter to a group."""

BROKER_SETTINGS: Final = (
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.session.timeout.ms",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
)
"""Of those that a broker prints."""


def _settings(name: str, source: EventSource, names: tuple[str, ...], kind: OtherEventKind) -> Family:
    return Family(
        name=name,
        source=source,
        markers=tuple(f"\t{setting} = " for setting in names),
        prefix="^\\s*(" + "|".join(map(re.escape, names)) + ")",
        prefix_slots=("setting",),
        words=(),
        suffix=r"\s*$",
        templates=(Template(name, "1.0+", "", " = <value>", kind),),
    )


JAVA_SETTINGS: Final = _settings("client's setting", EventSource.CLIENT_LOG, SETTINGS, OtherEventKind.CLIENT_SETTING)
BROKER_PRINTED: Final = _settings(
    "broker's setting", EventSource.BROKER_LOG, BROKER_SETTINGS, OtherEventKind.BROKER_SETTING
)
