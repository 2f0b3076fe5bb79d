"""Log lines of brokers: the group coordinator's lines of every version, and lines about topics and the broker itself.

Invariants:
- A template is one wording (docs/kafka-behaviours.md, section 14; the rest from the sources of 3.9 and 4.3).
- Lines about the past are recognised but are not events: members that are replayed when a coordinator loads a group,
  and records that a controller replays.
- The epoch of a KIP-848 group is its generation.
"""

from typing import Final

from slackwater.doctor.events.table import OtherEventKind
from slackwater.doctor.templates.wording import Family, Template
from slackwater.group.events import EventKind, EventSource

_PARTITION: Final = "[[ (__consumer_offsets-<*>)]]"
_METADATA: Final = (
    "MemberMetadata(memberId=<member>, groupInstanceId=<instance>, clientId=<client>, clientHost=<host>, "
    "sessionTimeoutMs=<session_timeout_ms>, rebalanceTimeoutMs=<rebalance_timeout_ms>, "
    "supportedProtocols=List(<assignors>))"
)
_LEFT: Final = "has left group through explicit `LeaveGroup` request; client reason: <reason>"
_ITSELF: Final = {"by": "itself"}
_CONSUMER: Final = {"group_protocol": "consumer"}
_CLASSIC: Final = {"group_protocol": "classic"}

_CLASSIC_GROUPS: Final = (
    Template(
        "stabilized",
        "1.0+",
        "Stabilized group ",
        f"Stabilized group <group> generation <generation>{_PARTITION}[[ with <members> members]][[.]]",
        EventKind.GENERATION_FORMED,
        _CLASSIC,
    ),
    Template(
        "assignment received",
        "1.0+",
        "Assignment received from leader",
        "Assignment received from leader[[ <leader>]] for group <group> for generation <generation>"
        "[[. The group has <members> members, <static_members> of which are static.]]",
        EventKind.REBALANCE_COMPLETED,
        _CLASSIC,
    ),
    Template(
        "preparing",
        "1.0+",
        "Preparing to rebalance group ",
        "Preparing to rebalance group <group> [[in state <*> ]]with old generation <old_generation>"
        f"{_PARTITION}[[ (reason: <reason>)]][[.]]",
        EventKind.REBALANCE_STARTED,
        {"generation": "<old_generation>"},
    ),
    Template(
        "preparing",
        "0.9-0.11",
        "Preparing to restabilize group ",
        "Preparing to restabilize group <group> with old generation <old_generation>[[.]]",
        EventKind.REBALANCE_STARTED,
        {"generation": "<old_generation>"},
    ),
    Template(
        "empty",
        "0.9-0.10.0",
        " is dead and removed",
        "Group <group> generation <generation> is dead and removed[[.]]",
        EventKind.GROUP_EMPTIED,
    ),
    Template(
        "topics changed",
        "Slackwater",
        " rebalances because of ",
        "Group <group> rebalances because of <why> of topics [<topics>].",
        OtherEventKind.TOPICS_CHANGED,
    ),
    Template(
        "id issued",
        "3.0+",
        "to rejoin with this id",
        "Dynamic member with unknown member id joins group <group> in <state_before> state. Created a new member id "
        "<member> and request[[ing]] the member to rejoin with this id.",
        EventKind.MEMBER_ID_ISSUED,
    ),
    Template(
        "id issued by a consumer group",
        "4.0+",
        "to rejoin with this id",
        "[GroupId <group>] Dynamic member with unknown member id joins the consumer group. Created a new member id "
        "<member> and requesting the member to rejoin with this id.",
        EventKind.MEMBER_ID_ISSUED,
        _CONSUMER,
    ),
    Template(
        "id required",
        "2.2-2.8",
        "requires a member id",
        "Dynamic member with unknown member id requires a member id <*>",
        None,
    ),
    Template(
        "pending member joins",
        "3.0+",
        "Pending dynamic member with id ",
        "Pending dynamic member with id <member> joins group <group> in <state_before> state. Adding to the group now.",
        EventKind.MEMBER_JOINED,
    ),
    Template(
        "static member added",
        "3.0+",
        "Static member with groupInstanceId=",
        "Static member with groupInstanceId=<instance> and unknown member id joins group <group> in <state_before> "
        "state. Created a new member id <member> for this member and add[[ed]] to the group.",
        EventKind.MEMBER_JOINED,
    ),
    Template(
        "static member replaced",
        "3.0+",
        "Static member with groupInstanceId=",
        "Static member with groupInstanceId=<instance> and unknown member id joins group <group> in <state_before> "
        "state. Replacing previously mapped member <old_member> with this groupInstanceId.",
        EventKind.MEMBER_REPLACED,
    ),
    Template(
        "dynamic member added",
        "3.0-3.9",
        "for this member and add to the group",
        "Dynamic [[M]][[m]]ember with unknown member id joins group <group> in <state_before> state. Created a new "
        "member id <member> for this member and add to the group.",
        EventKind.MEMBER_JOINED,
    ),
    Template(
        "dynamic member added",
        "4.0+",
        "and added the member to the group",
        "Dynamic member with unknown member id joins group <group> in state <state_before>. Created a new member id "
        "<member> and added the member to the group.",
        EventKind.MEMBER_JOINED,
    ),
    Template(
        "static member replaced",
        "2.4-2.8",
        "with unknown member id rejoins, assigning new member id ",
        "Static member <instance> of group <group> with unknown member id rejoins, assigning new member id <member>, "
        "while old member [[id ]]<old_member> will be removed.",
        EventKind.MEMBER_REPLACED,
    ),
    Template(
        "no rebalance for a static member",
        "2.3+",
        "Static member which joins during Stable stage",
        "Static member which joins during Stable stage and doesn't affect <*> will not trigger [[a ]]rebalance.",
        None,
    ),
    Template(
        "fenced",
        "3.0+",
        "for static member with groupInstanceId=",
        "Request memberId=<member> for static member with groupInstanceId=<instance> is fenced by <*> "
        "memberId=<holder> during operation <operation>",
        EventKind.MEMBER_FENCED,
    ),
    Template(
        "fenced",
        "2.3-2.8",
        "will be fenced",
        "given member.id <member> is identified as a known static member <instance>, but not matching the expected "
        "member.id <holder> during <operation>, will be fenced[[.]]",
        EventKind.MEMBER_FENCED,
    ),
    Template(
        "failed",
        "1.0+",
        "has failed, removing it from the group",
        "Member <member> in group[[ ]]<group> has failed, removing it from the group[[.]]",
        EventKind.MEMBER_EXPIRED,
        {"timer": "session"},
    ),
    Template(
        "left with a reason",
        "4.0+",
        "has left group through explicit",
        f"[Group <group>] Member <member> {_LEFT}",
        EventKind.MEMBER_LEFT,
        _ITSELF,
    ),
    Template(
        "left with its metadata",
        "3.0-3.9",
        "Member MemberMetadata(memberId=",
        f"Member {_METADATA} has left group <group> through explicit `LeaveGroup`[[ request]]"
        "[[; client reason: <reason>]]",
        EventKind.MEMBER_LEFT,
        _ITSELF,
    ),
    Template(
        "left with its ids",
        "2.4-2.8",
        "has left, removing it from the group",
        "Member[group.instance.id <instance>, member.id <member>] in group <group> has left, removing it from the "
        "group",
        EventKind.MEMBER_LEFT,
        _ITSELF,
    ),
    Template(
        "left",
        "1.0-2.3",
        "has left, removing it from the group",
        "Member <member> in group <group> has left, removing it from the group",
        EventKind.MEMBER_LEFT,
        _ITSELF,
    ),
    Template(
        "pending member left",
        "4.0+",
        "has left group through explicit",
        f"[Group <group>] Pending member <member> {_LEFT}",
        EventKind.MEMBER_LEFT,
        {"by": "itself", "pending": "true"},
    ),
    Template(
        "pending member left",
        "3.0-3.9",
        "Pending member with memberId=",
        "Pending member with memberId=<member> has left group <group> through explicit `LeaveGroup` request"
        "[[; client reason: <reason>]]",
        EventKind.MEMBER_LEFT,
        {"by": "itself", "pending": "true"},
    ),
    Template(
        "pending member left",
        "2.3-2.8",
        "Pending member ",
        "Pending member <member> is leaving group <group>.",
        EventKind.MEMBER_LEFT,
        {"by": "itself", "pending": "true"},
    ),
    Template(
        "pending member expired",
        "2.2+",
        "Pending member ",
        "Pending member <member> in group <group> has been removed after session timeout expiration.",
        EventKind.PENDING_MEMBER_EXPIRED,
    ),
    Template(
        "dropped",
        "2.5+",
        "dynamic members who haven't joined",
        "Group <group> remove[[d]] dynamic members who haven't joined: <member_ids>",
        EventKind.MEMBER_DROPPED,
        {"timer": "rebalance", "trigger": "rebalance_timeout"},
    ),
    Template(
        "unsynced",
        "3.1+",
        "removed members who haven't sent their sync request",
        "Group <group> removed members who haven't sent their sync request[[s]]: <member_ids>",
        EventKind.MEMBER_UNSYNCED,
        {"timer": "sync", "trigger": "sync_timeout"},
    ),
    Template(
        "leader failed to join",
        "2.3-3.9",
        "failed to join before rebalance timeout",
        "Group leader [member.id: <old_leader>, group.instance.id: <*>] failed to join before rebalance timeout, "
        "while new leader <leader> was elected.",
        EventKind.LEADER_CHANGED,
        {"why": "failed to join before the rebalance timeout"},
    ),
    Template(
        "leader failed to join",
        "4.0+",
        "failed to join before the rebalance timeout",
        "Group leader [memberId: <old_leader>, groupInstanceId: <*>] failed to join before the rebalance timeout. "
        "Member <leader> was elected as the new leader.",
        EventKind.LEADER_CHANGED,
        {"why": "failed to join before the rebalance timeout"},
    ),
    Template(
        "leader failed and no member joined",
        "2.3+",
        "failed to join before",
        "Group leader [<*>: <old_leader>, <*>] failed to join before [[the ]]rebalance timeout[[,]] and the group "
        "couldn't proceed to [[the ]]next generation because no member joined.",
        EventKind.LEADER_CHANGED,
        {"why": "failed to join before the rebalance timeout"},
    ),
    Template(
        "no members rejoined",
        "2.3+",
        "could not complete rebalance because no members rejoined",
        "Group <group> could not complete rebalance because no members rejoined[[.]]",
        EventKind.REBALANCE_FAILED,
        {"error": "no members rejoined"},
    ),
    Template(
        "empty",
        "1.0+",
        " is now empty",
        f"Group <group> with generation <generation> is now empty{_PARTITION}[[.]]",
        EventKind.GROUP_EMPTIED,
    ),
)

_CONSUMER_GROUPS: Final = (
    Template(
        "epoch bumped",
        "3.7+",
        "Bumped group epoch to ",
        "[GroupId <group>] Bumped group epoch to <generation>[[ with metadata hash <*>]].",
        EventKind.GENERATION_FORMED,
        _CONSUMER,
    ),
    Template(
        "target computed",
        "3.7+",
        "Computed a new target assignment for epoch ",
        "[GroupId <group>] Computed a new target assignment for epoch <generation> with '<assignor>' assignor in "
        "<duration_ms>ms.",
        EventKind.REBALANCE_COMPLETED,
        _CONSUMER,
    ),
    Template(
        "consumer joined",
        "3.7+",
        "joins the consumer group using the ",
        "[GroupId <group>] Member <member> joins the consumer group[[ using the <group_protocol> protocol]].",
        EventKind.MEMBER_JOINED,
    ),
    Template(
        "static consumer joined",
        "3.7+",
        "joins the consumer group using the ",
        "[GroupId <group>] Static member <member> with instance id <instance> joins the consumer group using the "
        "<group_protocol> protocol.",
        EventKind.MEMBER_JOINED,
    ),
    Template(
        "static consumer returned",
        "3.7+",
        "joins the consumer group using the ",
        "[GroupId <group>] Static member with instance id <instance> re-joins the consumer group using the "
        "<group_protocol> protocol. Created a new member <member> to replace the existing member <old_member>.",
        EventKind.MEMBER_REPLACED,
    ),
    Template(
        "consumer left",
        "3.7+",
        " left the consumer group",
        "[GroupId <group>] Member <member> left the consumer group.",
        EventKind.MEMBER_LEFT,
        {"by": "itself", "group_protocol": "consumer"},
    ),
    Template(
        "static consumer left for a while",
        "3.7+",
        " left the consumer group",
        "[GroupId <group>] Static [[M]][[m]]ember <member> with instance id <instance> temporarily left the consumer "
        "group.",
        EventKind.MEMBER_LEFT,
        {"by": "itself", "group_protocol": "consumer", "why": "temporarily"},
    ),
    Template(
        "static consumer left",
        "3.7+",
        " left the consumer group",
        "[GroupId <group>] Static [[M]][[m]]ember <member> with instance id <instance> left the consumer group.",
        EventKind.MEMBER_LEFT,
        {"by": "itself", "group_protocol": "consumer"},
    ),
    Template(
        "consumer's session expired",
        "3.7+",
        "fenced from the group because the member session expired",
        "[GroupId <group>] Member <member> fenced from the group because the member session expired.[[.]]",
        EventKind.MEMBER_EXPIRED,
        {"timer": "session", "group_protocol": "consumer"},
    ),
    Template(
        "consumer did not follow",
        "3.7+",
        "fenced from the group because it failed to transition",
        "[GroupId <group>] Member <member> fenced from the group because it failed to transition from epoch <epoch> "
        "within <timer_ms>ms.",
        EventKind.MEMBER_DROPPED,
        {"timer": "rebalance", "trigger": "rebalance_timeout", "group_protocol": "consumer"},
    ),
    Template(
        "classic member did not join",
        "3.8+",
        "fenced from the group because the classic member failed to join",
        "[GroupId <group>] Member <member> fenced from the group because the classic member failed to join within the "
        "rebalance timeout.[[.]]",
        EventKind.MEMBER_DROPPED,
        {"timer": "rebalance", "trigger": "rebalance_timeout", "group_protocol": "consumer"},
    ),
    Template(
        "classic member did not sync",
        "3.8+",
        "fenced from the group because the member failed to sync",
        "[GroupId <group>] Member <member> fenced from the group because the member failed to sync within "
        "timeout.[[.]]",
        EventKind.MEMBER_UNSYNCED,
        {"timer": "sync", "trigger": "sync_timeout", "group_protocol": "consumer"},
    ),
    Template(
        "instance id refused",
        "3.8+",
        "cannot join the group because the instance id is owned by",
        "[GroupId <group>] Static member <member> with instance id <instance> cannot join the group because the "
        "instance id is owned by member <holder>.",
        EventKind.JOIN_REFUSED,
        {"error": "UNRELEASED_INSTANCE_ID", "group_protocol": "consumer"},
    ),
    Template(
        "static consumer fenced",
        "3.8+",
        " is fenced by existing member ",
        "[GroupId <group>] Static member <member> with instance id <instance> is fenced by existing member <holder>.",
        EventKind.MEMBER_FENCED,
        _CONSUMER,
    ),
    Template(
        "left a consumer group",
        "3.8+",
        "has left group through explicit",
        f"[GroupId <group>] Dynamic [[M]][[m]]ember <member> {_LEFT}",
        EventKind.MEMBER_LEFT,
        {"by": "itself", "group_protocol": "consumer"},
    ),
    Template(
        "static member left a consumer group",
        "3.8+",
        "has left group through explicit",
        f"[GroupId <group>] Static [[M]][[m]]ember <member> with instance id <instance> {_LEFT}",
        EventKind.MEMBER_LEFT,
        {"by": "itself", "group_protocol": "consumer"},
    ),
    Template(
        "subscription updated",
        "3.7+",
        " updated its subscribed ",
        "[GroupId <group>] Member <member> updated its subscribed topics to: [<topics>].",
        EventKind.MEMBER_REJOINED,
        {"metadata_changed": "true", "group_protocol": "consumer"},
    ),
    Template(
        "pattern updated",
        "4.0+",
        " updated its subscribed ",
        "[GroupId <group>] Member <member> updated its subscribed regex to: <reason>.",
        EventKind.MEMBER_REJOINED,
        {"metadata_changed": "true", "group_protocol": "consumer"},
    ),
    Template(
        "group converted",
        "3.8+",
        "] Converted the ",
        "[GroupId <group>] Converted the [[empty ]]<why> group to a <group_protocol> group.",
        OtherEventKind.GROUP_CONVERTED,
    ),
    Template(
        "group not converted",
        "3.8+",
        "grade classic group ",
        "Cannot <*>grade classic group <group> to consumer group<error>.",
        EventKind.JOIN_REFUSED,
    ),
    Template(
        "group not converted",
        "3.8+",
        "grade ",
        "Cannot <*>grade [[the ]]consumer group <group>[[ to classic group]]<error>.",
        EventKind.JOIN_REFUSED,
    ),
    Template(
        "migration disabled",
        "3.8+",
        "Cannot join the consumer group ",
        "Cannot join the consumer group <group> with the classic protocol because <error>.",
        EventKind.JOIN_REFUSED,
    ),
    Template(
        "assignment state",
        "3.7+",
        " new assignment state: ",
        "[GroupId <group>] Member <member> new assignment state: <*>",
        None,
    ),
    Template(
        "metadata hash",
        "4.1+",
        "Computed new ",
        "[GroupId <group>] Computed new <*>",
        None,
    ),
)

_LOADING_AND_DELETION: Final = (
    Template(
        "elected",
        "2.4-3.9",
        "Elected as the group coordinator for partition ",
        "Elected as the group coordinator for partition <partition>[[ in epoch <epoch>]]",
        OtherEventKind.COORDINATOR_ELECTED,
    ),
    Template(
        "resigned",
        "2.4-3.9",
        "Resigned as the group coordinator for partition ",
        "Resigned as the group coordinator for partition <partition><*>",
        OtherEventKind.COORDINATOR_RESIGNED,
    ),
    Template(
        "loading a group",
        "1.0-3.9",
        "oading group metadata for ",
        "Loading group metadata for <group> with generation <generation>",
        EventKind.GROUP_LOADED,
    ),
    Template(
        "unloading a group",
        "1.0-3.9",
        "oading group metadata for ",
        "Unloading group metadata for <group> with generation <generation>",
        EventKind.GROUP_UNLOADED,
    ),
    Template(
        "loaded a classic group",
        "4.0+",
        "Loaded classic group ",
        "Loaded classic group <group> with <members> members.",
        EventKind.GROUP_LOADED,
        _CLASSIC,
    ),
    Template(
        "loaded a consumer group",
        "4.0+",
        "Loaded consumer group ",
        "Loaded consumer group <group> with <members> members.",
        EventKind.GROUP_LOADED,
        _CONSUMER,
    ),
    Template(
        "unloading a classic group",
        "4.0+",
        "oading group metadata for ",
        "[GroupId=<group>] Unloading group metadata for generation <generation>.",
        EventKind.GROUP_UNLOADED,
        _CLASSIC,
    ),
    Template(
        "unloaded a consumer group",
        "4.0+",
        "Unloaded group metadata for group epoch ",
        "[GroupId=<group>] Unloaded group metadata for group epoch <generation>.",
        EventKind.GROUP_UNLOADED,
        _CONSUMER,
    ),
    Template(
        "partition loaded",
        "4.0+",
        "Finished loading of metadata from ",
        "Finished loading of metadata from __consumer_offsets-<partition> with epoch <epoch> in <duration_ms>ms <*>",
        OtherEventKind.COORDINATOR_LOADED,
    ),
    Template(
        "partition unloaded",
        "4.0+",
        "Finished unloading metadata for ",
        "Finished unloading metadata for __consumer_offsets-<partition> with epoch <*>",
        OtherEventKind.COORDINATOR_RESIGNED,
    ),
    Template(
        "groups deleted",
        "2.0-3.9",
        "The following groups were deleted: ",
        "The following groups were deleted: <group>. A total of <count> offsets were removed.",
        EventKind.GROUP_DELETED,
    ),
    Template(
        "offsets of a group deleted",
        "2.4-3.9",
        "The following offsets of the group ",
        "The following offsets of the group <group> were deleted: <partitions>. A total of <count> offsets were "
        "removed.",
        EventKind.OFFSETS_DELETED,
    ),
)

_IGNORED_LINES: Final = (
    Template("metadata moved", "4.0+", "cheduling ", "Scheduling <*>loading of metadata <*>", None),
    Template("unloading", "4.0+", "unloading metadata for ", "<*> unloading metadata for <*>", None),
    Template("unloading ignored", "4.0+", "Ignored ", "Ignored <*>", None),
    Template("tombstones", "4.0+", "Generated ", "Generated <*> records <*>", None),
    Template("events closing", "4.0+", "vent processor", "<*>vent processor<*>.", None),
    Template("starting", "1.0+", "tart", "Start[[ing up]][[up complete]].", None),
    Template("stopping", "1.0+", "Shut", "Shut[[ting down]][[down complete]].", None),
    Template("runtime closing", "4.0+", "oordinator runtime", "Clos<*>oordinator runtime.", None),
    Template("runtime closed", "4.0+", "oordinator runtime", "Coordinator runtime closed.", None),
    Template("offsets removed", "2.0-3.9", "Removed ", "Removed <*> offsets associated with <*>", None),
    Template("empty assignments", "3.0+", "empty assignment", "S<*>ing empty assignment<*>", None),
    Template("late timer", "3.0+", "Received ", "Received <*>notification of <*>", None),
    Template(
        "heartbeat of an unknown member", "3.0+", "Member ", "Member <*> has already been removed from the group.", None
    ),
    Template("heartbeat of an unknown member", "3.0+", "Member id ", "Member id <*> was not found in <*>", None),
    Template("assignor chosen", "4.0+", "Supported assignors", "<*>Supported assignors<*>", None),
)

COORDINATOR: Final = Family(
    name="group coordinator",
    source=EventSource.BROKER_LOG,
    markers=("[GroupCoordinator ",),
    prefix=r"^(.*?)\[GroupCoordinator (?:id=)?(\d+)[^\]]*\]:? ",
    prefix_slots=("head", "node"),
    words=("[GroupCoordinator ",),
    templates=(*_CLASSIC_GROUPS, *_CONSUMER_GROUPS, *_LOADING_AND_DELETION, *_IGNORED_LINES),
)

GROUP_METADATA: Final = Family(
    name="group metadata manager",
    source=EventSource.BROKER_LOG,
    markers=(
        "[GroupMetadataManager brokerId=",
        "[Group Metadata Manager on Broker ",
        "Loaded member ",
        "Static member MemberMetadata(",
        "will respond with instance fenced error",
    ),
    prefix=r"^(.*?)(?:\[Group ?Metadata ?Manager (?:brokerId=|on Broker )\d+\]:? )?",
    prefix_slots=("head",),
    words=("[GroupMetadataManager", "[Group Metadata Manager"),
    templates=(
        Template(
            "fenced",
            "2.4-2.8",
            "will respond with instance fenced error",
            "given member.id <member> is identified as a known static member <instance>, but not matching the expected "
            "member.id <holder> during <operation>, will respond with instance fenced error",
            EventKind.MEMBER_FENCED,
        ),
        Template("member replayed", "2.4-3.9", "Loaded member ", "Loaded member <*> in group <*>", None),
        Template(
            "member loaded",
            "2.3-2.6",
            "Static member MemberMetadata(",
            "Static member MemberMetadata(<*>).groupInstanceId of group <group> loaded with member id <*> at "
            "generation <generation>[[.]]",
            None,
        ),
        Template(
            "offsets partition loaded",
            "1.0-3.9",
            "Finished loading offsets",
            "Finished loading offsets and group metadata from __consumer_offsets-<partition> in <duration_ms> "
            "milliseconds<*>",
            OtherEventKind.COORDINATOR_LOADED,
        ),
        Template("offsets partition moved", "1.0-3.9", "cheduling ", "Scheduling <*>", None),
        Template("offsets partition unloaded", "1.0-3.9", "Finished unloading ", "Finished unloading <*>", None),
        Template(
            "offsets expired",
            "1.0-3.9",
            "Removed ",
            "Removed <count> expired offsets in <duration_ms> milliseconds.",
            None,
        ),
        Template(
            "group removed",
            "1.0-3.9",
            "transitioned to Dead",
            "Group <group> transitioned to Dead in generation <generation>",
            EventKind.GROUP_DELETED,
        ),
    ),
)

BROKER_AND_TOPICS: Final = Family(
    name="broker",
    source=EventSource.BROKER_LOG,
    markers=(
        "Created log for partition ",
        "scheduled for deletion",
        "Topics result",
        "Kafka Server started",
        "[KafkaServer id=",
        "to SHUTTING_DOWN",
    ),
    prefix=r"^(.*?)",
    prefix_slots=("head",),
    words=(),
    templates=(
        Template(
            "log created",
            "2.0+",
            "Created log for partition ",
            "Created log for partition <topic>-<partition> in <*>",
            OtherEventKind.PARTITION_CREATED,
        ),
        Template(
            "log deleted",
            "1.0+",
            "scheduled for deletion",
            "Log for partition <topic>-<partition> is renamed to <*> and is scheduled for deletion",
            OtherEventKind.PARTITION_DELETED,
        ),
        Template(
            "topic created",
            "3.0+",
            "CreateTopics result",
            "CreateTopics result(s): CreatableTopic(name='<topic>', numPartitions=<count>, <*>): SUCCESS",
            OtherEventKind.TOPIC_CREATED,
        ),
        Template(
            "topic deleted",
            "3.0+",
            "DeleteTopics result",
            "DeleteTopics result(s): {id: <*>, name: <topic>, result: SUCCESS}",
            OtherEventKind.TOPIC_DELETED,
        ),
        Template(
            "server started",
            "3.0+",
            "Kafka Server started",
            "[KafkaRaftServer nodeId=<node>] Kafka Server started",
            OtherEventKind.BROKER_STARTED,
        ),
        Template(
            "server started", "1.0-3.9", "] started", "[KafkaServer id=<node>] started", OtherEventKind.BROKER_STARTED
        ),
        Template(
            "server stopping",
            "3.0+",
            "to SHUTTING_DOWN",
            "[BrokerServer id=<node>] Transition from <*> to SHUTTING_DOWN",
            OtherEventKind.BROKER_STOPPING,
        ),
        Template(
            "server stopping",
            "1.0-3.9",
            "] shutting down",
            "[KafkaServer id=<node>] shutting down",
            OtherEventKind.BROKER_STOPPING,
        ),
    ),
)
