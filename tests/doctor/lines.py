"""One line of every wording in the catalogue's section 14, in every version, and its values.

A row is (line, expected values). Lines are from real logs where there are some; otherwise they are the catalogue's with
names filled in.
"""

from typing import Any, Final

M: Final = "app-1-0b5a1d5e-7a3c-4d0e-9a54-3d1c0f4b2a11"
N: Final = "app-2-5e0c7a9b-2f4d-4f8e-8b6a-9c1d2e3f4a5b"
METADATA: Final = (
    f"MemberMetadata(memberId={M}, groupInstanceId=None, clientId=app-1, clientHost=/10.0.0.1, sessionTimeoutMs=45000, "
    "rebalanceTimeoutMs=300000, supportedProtocols=List(range, cooperative-sticky))"
)
GENERATION: Final = f"Generation{{generationId=5, memberId='{M}', protocol='range'}}"
Row = tuple[str, dict[str, Any]]


def scala(text: str) -> str:
    """A line of the Scala coordinator."""
    return f"[2024-05-01 10:00:00,123] INFO [GroupCoordinator 1]: {text} (kafka.coordinator.group.GroupCoordinator)"


def java(text: str) -> str:
    """A line of the Java coordinator."""
    prefix = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3]"
    return f"[2026-05-01 10:00:00,123] INFO {prefix} {text} (org.apache.kafka.coordinator.group.GroupMetadataManager)"


def consumer(text: str, instance: str = "") -> str:
    """A line of the Java consumer."""
    static = f"instanceId={instance}, " if instance else ""
    return (
        f"[2026-05-01 10:00:00,123] INFO [Consumer {static}clientId=app-1, groupId=g] {text} "
        "(org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)"
    )


def rdkafka(tag: str, text: str, level: int = 7) -> str:
    """A line of librdkafka."""
    return f"%{level}|1794770162.741|{tag}|app-1#consumer-1| [thrd:main]: {text}"


def python(logger: str, text: str) -> str:
    """A line of Python's logging."""
    return f"2026-05-01 10:00:00,123 INFO {logger} {text}"


def sarama(text: str) -> str:
    """A line of sarama."""
    return f"[sarama] 2026/05/01 10:00:00.123456 {text}"


def kafkajs(message: str, rest: str) -> str:
    """A line of kafkajs."""
    head = '{"level":"INFO","timestamp":"2026-05-01T10:00:00.123Z","logger":"kafkajs","message":"'
    return f'{head}{message}",{rest}}}'


_G: Final = {"group": "g"}
_COORDINATOR: Final[tuple[Row, ...]] = (
    (
        scala("Preparing to rebalance group g with old generation 4 (__consumer_offsets-3)"),
        {"kind": "rebalance_started", "old_generation": "4", **_G},
    ),
    (
        scala(
            "Preparing to rebalance group g in state PreparingRebalance with old generation 4 (__consumer_offsets-3) "
            f"(reason: Adding new member {M} with group instanceid None)"
        ),
        {"kind": "rebalance_started", "reason": f"Adding new member {M} with group instanceid None", **_G},
    ),
    (
        java(
            "Preparing to rebalance group g in state PreparingRebalance with old generation 4 "
            f"(reason: explicit `LeaveGroup` request for ({M}) members.)."
        ),
        {"kind": "rebalance_started", "reason": f"explicit `LeaveGroup` request for ({M}) members.", **_G},
    ),
    (
        java("Group g rebalances because of partitions_added of topics [orders, returns]."),
        {"kind": "topics_changed", "why": "partitions_added", "topics": "orders, returns", **_G},
    ),
    (
        scala("Stabilized group g generation 5 (__consumer_offsets-3)"),
        {"kind": "generation_formed", "generation": "5", **_G},
    ),
    (
        scala("Stabilized group g generation 5 (__consumer_offsets-3) with 2 members"),
        {"kind": "generation_formed", "generation": "5", "members": "2", **_G},
    ),
    (
        java("Stabilized group a group with spaces generation 5 with 2 members."),
        {"kind": "generation_formed", "members": "2", "group": "a group with spaces"},
    ),
    (
        scala("Assignment received from leader for group g for generation 5"),
        {"kind": "rebalance_completed", "generation": "5", **_G},
    ),
    (
        scala(
            "Assignment received from leader for group g for generation 5. The group has 2 members, 1 of which are "
            "static."
        ),
        {"kind": "rebalance_completed", "members": "2", "static_members": "1", **_G},
    ),
    (
        java(
            f"Assignment received from leader {M} for group g for generation 5. The group has 2 members, 0 of which "
            "are static."
        ),
        {"kind": "rebalance_completed", "leader": M, "static_members": "0", **_G},
    ),
    (
        scala("Group g with generation 6 is now empty (__consumer_offsets-3)"),
        {"kind": "group_emptied", "generation": "6", **_G},
    ),
    (java("Group g with generation 6 is now empty."), {"kind": "group_emptied", "generation": "6", **_G}),
    (
        scala(f"Member {M} in group g has left, removing it from the group"),
        {"kind": "member_left", "member": M, **_G},
    ),
    (
        scala(f"Member[group.instance.id None, member.id {M}] in group g has left, removing it from the group"),
        {"kind": "member_left", "member": M, **_G},
    ),
    (
        scala(f"Member {METADATA} has left group g through explicit `LeaveGroup` request"),
        {"kind": "member_left", "member": M, "client": "app-1", "session_timeout_ms": "45000", **_G},
    ),
    (
        scala(f"Member {METADATA} has left group g through explicit `LeaveGroup`; client reason: not provided"),
        {"kind": "member_left", "assignors": "range, cooperative-sticky", "reason": "not provided", **_G},
    ),
    (
        java(
            f"[Group g] Member {M} has left group through explicit `LeaveGroup` request; client reason: consumer poll "
            "timeout has expired."
        ),
        {"kind": "member_left", "member": M, "reason": "consumer poll timeout has expired.", **_G},
    ),
    (
        scala(f"Member {M} in group g has failed, removing it from the group"),
        {"kind": "member_expired", "member": M, **_G},
    ),
    (
        java(f"Member {M} in group g has failed, removing it from the group."),
        {"kind": "member_expired", "member": M, **_G},
    ),
    (scala(f"Pending member {M} is leaving group g."), {"kind": "member_left", "pending": "true", "member": M, **_G}),
    (
        scala(f"Pending member with memberId={M} has left group g through explicit `LeaveGroup` request"),
        {"kind": "member_left", "pending": "true", "member": M, **_G},
    ),
    (
        scala(f"Pending member {M} in group g has been removed after session timeout expiration."),
        {"kind": "pending_member_expired", "member": M, **_G},
    ),
    (
        java(
            f"[Group g] Pending member {M} has left group through explicit `LeaveGroup` request; client reason: not "
            "provided"
        ),
        {"kind": "member_left", "pending": "true", "member": M, **_G},
    ),
    (
        scala(f"Group g removed dynamic members who haven't joined: Set({M}, {N})"),
        {"kind": "member_dropped", "member_ids": f"Set({M}, {N})", **_G},
    ),
    (
        java(f"Group g removed dynamic members who haven't joined: [{M}, {N}]"),
        {"kind": "member_dropped", "member_ids": f"[{M}, {N}]", **_G},
    ),
    (
        java(f"Group g removed members who haven't sent their sync requests: [{M}]"),
        {"kind": "member_unsynced", "member_ids": f"[{M}]", **_G},
    ),
    (
        scala(
            "Dynamic member with unknown member id joins group g in Stable state. Created a new member id "
            f"{M} and request the member to rejoin with this id."
        ),
        {"kind": "member_id_issued", "member": M, "state_before": "Stable", **_G},
    ),
    (
        java(
            "Dynamic member with unknown member id joins group g in Empty state. Created a new member id "
            f"{M} and requesting the member to rejoin with this id."
        ),
        {"kind": "member_id_issued", "member": M, "state_before": "Empty", **_G},
    ),
    (
        java(
            "[GroupId g] Dynamic member with unknown member id joins the consumer group. Created a new member id "
            f"{M} and requesting the member to rejoin with this id."
        ),
        {"kind": "member_id_issued", "member": M, "group_protocol": "consumer", **_G},
    ),
    (
        scala(
            "Dynamic Member with unknown member id joins group g in Empty state. Created a new member id "
            f"{M} for this member and add to the group."
        ),
        {"kind": "member_joined", "member": M, **_G},
    ),
    (
        java(
            "Dynamic member with unknown member id joins group g in state Empty. Created a new member id "
            f"{M} and added the member to the group."
        ),
        {"kind": "member_joined", "member": M, "state_before": "Empty", **_G},
    ),
    (
        java(f"Pending dynamic member with id {M} joins group g in Stable state. Adding to the group now."),
        {"kind": "member_joined", "member": M, **_G},
    ),
    (
        scala(
            "Static member with groupInstanceId=i and unknown member id joins group g in Stable state. Created a new "
            f"member id {M} for this member and add to the group."
        ),
        {"kind": "member_joined", "instance": "i", "member": M, **_G},
    ),
    (
        java(
            "Static member with groupInstanceId=i and unknown member id joins group g in Stable state. Created a new "
            f"member id {M} for this member and added to the group."
        ),
        {"kind": "member_joined", "instance": "i", "member": M, **_G},
    ),
    (
        scala(
            f"Static member Some(i) of group g with unknown member id rejoins, assigning new member id {M}, while old "
            f"member id {N} will be removed."
        ),
        {"kind": "member_replaced", "instance": "Some(i)", "member": M, "old_member": N, **_G},
    ),
    (
        java(
            "Static member with groupInstanceId=i and unknown member id joins group g in Stable state. Replacing "
            f"previously mapped member {N} with this groupInstanceId."
        ),
        {"kind": "member_replaced", "instance": "i", "old_member": N, **_G},
    ),
    (
        scala(
            "Static member which joins during Stable stage and doesn't affect selectProtocol will not trigger "
            "rebalance."
        ),
        {},
    ),
    (
        java(
            "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger "
            "a rebalance."
        ),
        {},
    ),
    (
        scala(
            f"Request memberId={M} for static member with groupInstanceId=i is fenced by current memberId={N} during "
            "operation heartbeat"
        ),
        {"kind": "member_fenced", "member": M, "holder": N, "operation": "heartbeat", "instance": "i"},
    ),
    (
        java(
            f"Request memberId={M} for static member with groupInstanceId=i is fenced by existing memberId={N} during "
            "operation txn-offset-commit"
        ),
        {"kind": "member_fenced", "holder": N, "operation": "txn-offset-commit"},
    ),
    (
        scala(
            f"given member.id {M} is identified as a known static member i, but not matching the expected member.id "
            f"{N} during heartbeat, will be fenced"
        ),
        {"kind": "member_fenced", "member": M, "holder": N, "operation": "heartbeat"},
    ),
    (
        scala("Group g could not complete rebalance because no members rejoined"),
        {"kind": "rebalance_failed", **_G},
    ),
    (
        java("Group g could not complete rebalance because no members rejoined."),
        {"kind": "rebalance_failed", **_G},
    ),
    (
        scala(
            f"Group leader [member.id: {M}, group.instance.id: None] failed to join before rebalance timeout, while "
            f"new leader {N} was elected."
        ),
        {"kind": "leader_changed", "old_leader": M, "leader": N},
    ),
    (
        java(
            f"Group leader [memberId: {M}, groupInstanceId: None] failed to join before the rebalance timeout. Member "
            f"{N} was elected as the new leader."
        ),
        {"kind": "leader_changed", "old_leader": M, "leader": N},
    ),
    (
        scala("Elected as the group coordinator for partition 3 in epoch 7"),
        {"kind": "coordinator_elected", "partition": "3", "epoch": "7"},
    ),
    (
        scala("Resigned as the group coordinator for partition 3 in epoch OptionalInt[7]"),
        {"kind": "coordinator_resigned", "partition": "3"},
    ),
    (scala("Loading group metadata for g with generation 5"), {"kind": "group_loaded", "generation": "5", **_G}),
    (scala("Unloading group metadata for g with generation 5"), {"kind": "group_unloaded", **_G}),
    (java("Loaded classic group g with 3 members."), {"kind": "group_loaded", "members": "3", **_G}),
    (java("Loaded consumer group g with 3 members."), {"kind": "group_loaded", "members": "3", **_G}),
    (java("[GroupId=g] Unloading group metadata for generation 5."), {"kind": "group_unloaded", **_G}),
    (java("[GroupId=g] Unloaded group metadata for group epoch 5."), {"kind": "group_unloaded", **_G}),
    (
        "[2024-05-01 10:00:00,123] INFO Loaded member " + METADATA + " in group g with generation 5. "
        "(kafka.coordinator.group.GroupMetadata$)",
        {},
    ),
)

_U: Final = "8dWEJXlpRsqPWIReOrdO4Q"
_CONSUMER_GROUPS: Final[tuple[Row, ...]] = (
    (
        java(f"[GroupId g] Member {_U} joins the consumer group using the consumer protocol."),
        {"kind": "member_joined", "member": _U, "group_protocol": "consumer", **_G},
    ),
    (
        java(f"[GroupId g] Static member {_U} with instance id i joins the consumer group using the classic protocol."),
        {"kind": "member_joined", "member": _U, "instance": "i", "group_protocol": "classic", **_G},
    ),
    (
        java(
            "[GroupId g] Static member with instance id i re-joins the consumer group using the consumer protocol. "
            f"Created a new member {_U} to replace the existing member {N}."
        ),
        {"kind": "member_replaced", "member": _U, "old_member": N, **_G},
    ),
    (java("[GroupId g] Bumped group epoch to 7."), {"kind": "generation_formed", "generation": "7", **_G}),
    (
        java("[GroupId g] Bumped group epoch to 7 with metadata hash -12."),
        {"kind": "generation_formed", "generation": "7", "group_protocol": "consumer", **_G},
    ),
    (
        java("[GroupId g] Computed a new target assignment for epoch 7 with 'uniform' assignor in 3ms."),
        {"kind": "rebalance_completed", "assignor": "uniform", "duration_ms": "3", **_G},
    ),
    (java(f"[GroupId g] Member {_U} left the consumer group."), {"kind": "member_left", "member": _U, **_G}),
    (
        java(f"[GroupId g] Static Member {_U} with instance id i temporarily left the consumer group."),
        {"kind": "member_left", "instance": "i", "why": "temporarily", **_G},
    ),
    (
        java(f"[GroupId g] Static member {_U} with instance id i temporarily left the consumer group."),
        {"kind": "member_left", "instance": "i", "why": "temporarily", **_G},
    ),
    (
        java(f"[GroupId g] Member {_U} fenced from the group because the member session expired."),
        {"kind": "member_expired", "member": _U, **_G},
    ),
    (
        java(f"[GroupId g] Member {_U} fenced from the group because the member session expired.."),
        {"kind": "member_expired", "member": _U, **_G},
    ),
    (
        java(
            f"[GroupId g] Member {_U} fenced from the group because it failed to transition from epoch 6 within 400ms."
        ),
        {"kind": "member_dropped", "epoch": "6", "timer_ms": "400", **_G},
    ),
    (
        java(
            f"[GroupId g] Member {_U} fenced from the group because the classic member failed to join within the "
            "rebalance timeout."
        ),
        {"kind": "member_dropped", "timer": "rebalance", **_G},
    ),
    (
        java(f"[GroupId g] Member {_U} fenced from the group because the member failed to sync within timeout."),
        {"kind": "member_unsynced", "member": _U, **_G},
    ),
)

_JAVA_CONSUMER: Final[tuple[Row, ...]] = (
    (
        consumer("Discovered group coordinator host:9092 (id: 2147483646 rack: null)"),
        {"kind": "coordinator_found", "node": "host:9092 (id: 2147483646 rack: null)", "client": "app-1", **_G},
    ),
    (consumer("(Re-)joining group"), {}),
    (consumer("Successfully joined group with generation 5"), {"kind": "member_joined", "generation": "5", **_G}),
    (
        consumer(f"Successfully joined group with generation {GENERATION}", instance="i"),
        {"kind": "member_joined", "generation": "5", "member": M, "instance": "i", "assignor": "range", **_G},
    ),
    (
        consumer(f"Successfully synced group in generation {GENERATION}"),
        {"kind": "rebalance_completed", "generation": "5", "member": M, **_G},
    ),
    (
        consumer(f"Finished assignment for group at generation 5: {{{M}=Assignment(partitions=[t-0])}}"),
        {"kind": "generation_formed", "generation": "5", **_G},
    ),
    (
        consumer("Setting newly assigned partitions: t-0, t-1"),
        {"kind": "partitions_assigned", "partitions": "t-0, t-1"},
    ),
    (
        consumer("Setting newly assigned partitions [t-0, t-1]"),
        {"kind": "partitions_assigned", "partitions": "[t-0, t-1]"},
    ),
    (consumer("Revoking previously assigned partitions [t-0]"), {"kind": "partitions_revoked", "partitions": "[t-0]"}),
    (consumer("Adding newly assigned partitions: t-0, t-1"), {"kind": "partitions_assigned", "partitions": "t-0, t-1"}),
    (consumer("Adding newly assigned partitions:"), {"kind": "partitions_assigned"}),
    (consumer("Revoke previously assigned partitions t-0, t-1"), {"kind": "partitions_revoked"}),
    (consumer("Lost previously assigned partitions t-0"), {"kind": "partitions_lost", "partitions": "t-0"}),
    (consumer("Updating assignment with"), {}),
    (
        consumer("Request joining group due to: group is already rebalancing"),
        {"kind": "join_requested", "reason": "group is already rebalancing", **_G},
    ),
    (
        consumer("Attempt to heartbeat failed since group is rebalancing"),
        {"kind": "heartbeat_refused", "error": "REBALANCE_IN_PROGRESS"},
    ),
    (
        consumer("Attempt to heartbeat failed since coordinator host:9092 (id: 1) is either not started or not valid"),
        {"kind": "heartbeat_refused", "error": "NOT_COORDINATOR"},
    ),
    (
        consumer(
            f"Attempt to heartbeat with {GENERATION} and group instance id Optional.empty failed due to "
            "UNKNOWN_MEMBER_ID, resetting generation"
        ),
        {"kind": "heartbeat_refused", "error": "UNKNOWN_MEMBER_ID", "generation": "5", "member": M},
    ),
    (
        consumer(
            f"Attempt to heartbeat with stale {GENERATION} and group instance id Optional[i] failed due to "
            "UNKNOWN_MEMBER_ID, ignoring the error"
        ),
        {"kind": "heartbeat_refused", "error": "UNKNOWN_MEMBER_ID"},
    ),
    (
        consumer("Resetting generation due to: encountered ILLEGAL_GENERATION from HEARTBEAT response"),
        {"kind": "session_lost", "error": "ILLEGAL_GENERATION", "operation": "HEARTBEAT"},
    ),
    (
        consumer("Resetting generation and member id due to: encountered UNKNOWN_MEMBER_ID from SYNC_GROUP response"),
        {"kind": "session_lost", "error": "UNKNOWN_MEMBER_ID"},
    ),
    (consumer("Resetting generation and member id due to: consumer pro-actively leaving the group"), {}),
    (
        consumer(
            "Giving away all assigned partitions as lost since generation/memberID has been reset,indicating that "
            "consumer is in old state or no longer part of the group"
        ),
        {},
    ),
    (
        consumer(f"Member {M} sending LeaveGroup request to coordinator host:9092 (id: 1 rack: null)"),
        {"kind": "member_left", "member": M, **_G},
    ),
    (
        consumer(
            f"Member {M} sending LeaveGroup request to coordinator host:9092 (id: 1 rack: null) due to the consumer is "
            "being closed"
        ),
        {"kind": "member_left", "reason": "the consumer is being closed", **_G},
    ),
    (
        consumer("consumer poll timeout has expired. This means the time between subsequent calls to poll() was …"),
        {"kind": "poll_overrun", **_G},
    ),
    (
        consumer(
            "This member will leave the group because consumer poll timeout has expired. This means the time between …"
        ),
        {"kind": "poll_overrun", **_G},
    ),
    (
        consumer("Consumer poll timeout has expired. This means the time between subsequent calls to poll() was …"),
        {"kind": "poll_overrun", **_G},
    ),
    (
        consumer("Group coordinator host:9092 (id: 1 rack: null) is unavailable or invalid, will attempt rediscovery"),
        {"kind": "coordinator_lost", "node": "host:9092 (id: 1 rack: null)"},
    ),
    (
        consumer(
            "Group coordinator host:9092 (id: 1 rack: null) is unavailable or invalid due to cause: "
            "null.isDisconnected: true. Rediscovery will be attempted."
        ),
        {"kind": "coordinator_lost", "why": "null"},
    ),
    (
        consumer(
            "Group coordinator host:9092 (id: 1 rack: null) is unavailable or invalid due to cause: coordinator "
            "unavailable. isDisconnected: true. Rediscovery will be attempted."
        ),
        {"kind": "coordinator_lost", "why": "coordinator unavailable"},
    ),
    (
        consumer(
            "Group coordinator host:9092 (id: 1 rack: null) is unavailable or invalid due to cause: session timed out "
            "without receiving a heartbeat response. isDisconnected: false. Rediscovery will be attempted."
        ),
        {"kind": "session_lost"},
    ),
    (
        consumer(
            f"JoinGroup failed: The coordinator is not aware of this member. Need to re-join the group. Sent "
            f"generation was {GENERATION}"
        ),
        {"kind": "rebalance_failed", "error": "The coordinator is not aware of this member."},
    ),
    (
        consumer("JoinGroup failed due to fatal error: The group member's supported protocols are incompatible."),
        {"kind": "join_refused", "error": "The group member's supported protocols are incompatible."},
    ),
    (
        consumer(
            f"SyncGroup failed: The group began another rebalance. Need to re-join the group. Sent generation was "
            f"{GENERATION}"
        ),
        {"kind": "rebalance_failed", "error": "The group began another rebalance."},
    ),
    (
        consumer(f"Member {_U} with epoch 6 transitioned from ACKNOWLEDGING to STABLE."),
        {"kind": "rebalance_completed", "member": _U, "generation": "6"},
    ),
    (
        consumer(f"Member {_U} with epoch 0 transitioned from UNSUBSCRIBED to JOINING."),
        {"kind": "join_requested", "member": _U},
    ),
    (consumer(f"Member {_U} with epoch 6 transitioned from STABLE to RECONCILING."), {}),
    (consumer("Reconciling assignment with local epoch 3"), {}),
)

_PARTITIONS: Final = "TopicPartition(topic='t', partition=0)"
_OTHERS: Final[tuple[Row, ...]] = (
    (
        rdkafka(
            "SESSTMOUT",
            "Consumer group session timed out (in join-state steady) after 6001 ms without a successful response from "
            "the group coordinator (broker 1, last error was Success): revoking assignment and rejoining group",
            4,
        ),
        {"kind": "session_lost", "duration_ms": "6001", "client": "app-1"},
    ),
    (
        rdkafka(
            "MAXPOLL",
            "Application maximum poll interval (5000ms) exceeded by 250ms (adjust max.poll.interval.ms for "
            "long-running message processing): leaving group",
            4,
        ),
        {"kind": "poll_overrun", "limit_ms": "5000", "over_ms": "250", "client": "app-1"},
    ),
    (
        (
            "2026-05-01 10:00:00,123 WARNING consumer MAXPOLL [app-1#consumer-1] [thrd:main]: Application maximum poll "
            "interval (5000ms) exceeded by 250ms (adjust max.poll.interval.ms): leaving group"
        ),
        {"kind": "poll_overrun", "over_ms": "250", "client": "app-1"},
    ),
    (
        rdkafka(
            "COMMITFAIL",
            "Offset commit (unassigned partitions) failed for 2/2 partition(s) in join-state wait-unassign-call: "
            "Broker: Unknown member: t[0]@5",
            4,
        ),
        {"kind": "commit_refused"},
    ),
    (
        rdkafka("ASSIGNOR", 'Group "g": failed to run assignor "range" for 2 member(s): Local: Invalid argument', 3),
        {"kind": "rebalance_failed", "assignor": "range", **_G},
    ),
    (
        rdkafka(
            "REBALANCE",
            'Group "g" is rebalancing (EAGER) in state up (join-state steady) with 3 assigned partition(s): rebalance '
            "in progress",
        ),
        {"kind": "join_requested", "reason": "rebalance in progress", "why": "EAGER", **_G},
    ),
    (
        rdkafka(
            "REBALANCE",
            'Group "g" initiating rebalance (COOPERATIVE) in state up (join-state steady) with 3 assigned '
            "partition(s) (lost): max.poll.interval.ms exceeded",
        ),
        {"kind": "join_requested", "reason": "max.poll.interval.ms exceeded", **_G},
    ),
    (
        rdkafka(
            "JOINGROUP",
            f"JoinGroup response: GenerationId 5, Protocol range, LeaderId {N} (me), my MemberId {M}, member metadata "
            "count 2: (no error)",
        ),
        {"kind": "member_joined", "generation": "5", "member": M, "leader": N, "assignor": "range"},
    ),
    (
        rdkafka(
            "JOINGROUP",
            f"JoinGroup response: GenerationId -1, Protocol , LeaderId , my MemberId {M}, member metadata count 0: "
            "Broker: Group member needs a valid member ID",
        ),
        {},
    ),
    (
        rdkafka("ASSIGN", 'Group "g": new assignment of 3 partition(s) in join-state wait-assign-call'),
        {"kind": "partitions_assigned", "count": "3", **_G},
    ),
    (
        rdkafka(
            "LOST", 'Group "g": current assignment of 3 partition(s) lost: max.poll.interval.ms exceeded: revoking'
        ),
        {"kind": "partitions_lost", "count": "3", **_G},
    ),
    (
        rdkafka(
            "HEARTBEAT",
            'Group "g" heartbeat error response in state up (join-state steady, 3 partition(s) assigned): Broker: '
            "Unknown member",
        ),
        {"kind": "heartbeat_refused", **_G},
    ),
    (rdkafka("LEAVE", 'Group "g": leave (in state up)'), {"kind": "member_left", **_G}),
    (rdkafka("LEAVE", "Leaving group"), {"kind": "member_left"}),
    (
        python("kafka.coordinator", f"Successfully joined group g <Generation 5 (member_id: {M}, protocol: range)>"),
        {"kind": "member_joined", "generation": "5", "member": M, **_G},
    ),
    (
        "INFO:kafka.coordinator:Successfully joined group g with generation 5",
        {"kind": "member_joined", "generation": "5", **_G},
    ),
    (
        python("kafka.coordinator.heartbeat", "Group g is rebalancing; rejoining."),
        {"kind": "heartbeat_refused", "error": "REBALANCE_IN_PROGRESS", **_G},
    ),
    (
        python("kafka.coordinator.heartbeat", "Consumer poll timeout has expired. This means the time between …"),
        {"kind": "poll_overrun"},
    ),
    (
        python("kafka.coordinator", f"Leaving consumer group g (member {M})."),
        {"kind": "member_left", "member": M, **_G},
    ),
    (
        python(
            "kafka.coordinator", "Attempt to join group g failed due to fatal error: InconsistentGroupProtocolError"
        ),
        {"kind": "join_refused", "error": "InconsistentGroupProtocolError", **_G},
    ),
    (
        python("kafka.coordinator.heartbeat", "Heartbeat failed for group g due to fenced id error: i"),
        {"kind": "member_fenced", "instance": "i", **_G},
    ),
    (
        python("kafka.coordinator.consumer", f"Revoking previously assigned partitions {{{_PARTITIONS}}} for group g"),
        {"kind": "partitions_revoked", "partitions": f"{{{_PARTITIONS}}}", **_G},
    ),
    (
        python("kafka.coordinator.consumer", f"Group g lost membership; forcibly revoking {{{_PARTITIONS}}}"),
        {"kind": "partitions_lost", **_G},
    ),
    (
        python("aiokafka.consumer.group_coordinator", f"Joined group 'g' (generation 5) with member_id {M}"),
        {"kind": "member_joined", "generation": "5", "member": M, **_G},
    ),
    (
        python("aiokafka.consumer.group_coordinator", "Heartbeat failed for group g because it is rebalancing"),
        {"kind": "heartbeat_refused", "error": "REBALANCE_IN_PROGRESS", **_G},
    ),
    (
        python("aiokafka.consumer.group_coordinator", "Heartbeat session expired - marking coordinator dead"),
        {"kind": "session_lost"},
    ),
    (python("aiokafka.consumer.group_coordinator", "LeaveGroup request succeeded"), {"kind": "member_left"}),
    (
        python("aiokafka.consumer.group_coordinator", "Marking the coordinator dead (node 1)for group g."),
        {"kind": "coordinator_lost", "node": "1", **_G},
    ),
    (
        sarama(f"consumergroup/session/{M}/5 released"),
        {"kind": "partitions_revoked", "member": M, "generation": "5"},
    ),
    (
        sarama(
            "consumergroup/g loop check partition number goroutine find partitions in topics [t] changed from 3 to 6"
        ),
        {"kind": "join_requested", "count": "6", **_G},
    ),
    (sarama("client/coordinator coordinator for g is #1 (host:9092)"), {"kind": "coordinator_found", **_G}),
    (
        kafkajs(
            "[ConsumerGroup] Consumer has joined the group",
            f'"groupId":"g","memberId":"{M}","leaderId":"{N}","isLeader":false,"memberAssignment":{{"t":[0,1]}},'
            '"groupProtocol":"RoundRobinAssigner","duration":3012',
        ),
        {"kind": "member_joined", "member": M, "leader": N, "partitions": '"t":[0,1]', **_G},
    ),
    (
        kafkajs(
            "[Runner] The coordinator is not aware of this member, re-joining the group",
            f'"groupId":"g","memberId":"{M}","error":"The coordinator is not aware of this member"',
        ),
        {"kind": "session_lost", "error": "UNKNOWN_MEMBER_ID", **_G},
    ),
    (
        (
            "[2026-05-01 10:00:00,123] INFO [QuorumController id=1] CreateTopics result(s): CreatableTopic(name='t', "
            "numPartitions=4, replicationFactor=1, assignments=[], configs=[]): SUCCESS (o.a.k.X)"
        ),
        {"kind": "topic_created", "topic": "t", "count": "4"},
    ),
    (
        (
            "[2026-05-01 10:00:00,123] INFO Created log for partition my-topic-11 in /data/my-topic-11 with {}"
            " (kafka.log.LogManager)"
        ),
        {"kind": "partition_created", "topic": "my-topic", "partition": "11"},
    ),
)

LINES: Final = (*_COORDINATOR, *_CONSUMER_GROUPS, *_JAVA_CONSUMER, *_OTHERS)

REASONS: Final = (
    (f"Adding new member {M} with group instance id None", "member_join"),
    (f"Adding new member {M} with group instanceid None", "member_join"),
    (f"Adding new member {M} with group instance id Some(i); client reason: ", "member_join"),
    (f"Adding new member {M} with group instance id null; client reason: not provided", "member_join"),
    (f"Updating metadata for member {M}", "unknown"),
    (f"Updating metadata for member {M} during Stable; client reason: not provided", "unknown"),
    (f"leader {M} re-joining group during Stable", "leader_rejoin"),
    (f"Leader {M} re-joining group during Stable; client reason: cached metadata has changed", "leader_rejoin"),
    (f"removing member {M} on heartbeat expiration", "session_timeout"),
    (f"removing member {M} on heartbeat expiration.", "session_timeout"),
    (f"removing member {M} on LeaveGroup", "member_leave"),
    (f"Removing member {M} on LeaveGroup; client reason: the consumer is being closed", "member_leave"),
    (f"explicit `LeaveGroup` request for ({M}, {N}) members.", "member_leave"),
    (f"Removing Set({M}) on pending sync request expiration", "sync_timeout"),
    (f"Updating metadata for static member {M} with instance id i; client reason: not provided", "static_changed"),
    (
        (
            f"Group's selectedProtocol will change because static member {M} with instance id i joined with change of "
            "protocol; client reason: not provided"
        ),
        "static_changed",
    ),
    (
        "Freshly-loaded group is over capacity (3). Rebalancing in order to give a chance for consumers to …",
        "over_capacity",
    ),
    ("Downgrade group g from consumer to classic.", "protocol_change"),
)
"""Every reason of section 14, with its trigger."""
