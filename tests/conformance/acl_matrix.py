"""The ACL matrix: each API with principals that are allowed, denied, partly allowed, by prefix and by deny rules.

`acl_transcripts/` has the responses of Apache Kafka 4.3.1 with StandardAuthorizer, one file per API.
`scripts/record_acl_transcripts.py` records them; `test_acl_matrix.py` compares our broker's responses.

Invariants:
- Every case has a user of its own, named like the case, so all rules can exist at the same time.
- A request names the resources `a`, `b` and `x`; topic `x` does not exist. Probes that change topics or transactions
  have their own in every case.
- `normalized` removes what differs between any two brokers: addresses, ids, sizes, settings, messages of errors that
  are not about authorization.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from slackwater.security.acls import CLUSTER_NAME, AclOperation, AclPermissionType, AclResourceType, PatternType
from slackwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from slackwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from slackwater.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from slackwater.wire.messages.alter_configs import AlterableConfig as ReplacedConfig
from slackwater.wire.messages.alter_configs import AlterConfigsRequest
from slackwater.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from slackwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from slackwater.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from slackwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from slackwater.wire.messages.create_acls import AclCreation, CreateAclsRequest
from slackwater.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from slackwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from slackwater.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from slackwater.wire.messages.delete_groups import DeleteGroupsRequest
from slackwater.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from slackwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from slackwater.wire.messages.describe_acls import DescribeAclsRequest
from slackwater.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from slackwater.wire.messages.describe_cluster import DescribeClusterRequest
from slackwater.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from slackwater.wire.messages.describe_groups import DescribeGroupsRequest
from slackwater.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from slackwater.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from slackwater.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from slackwater.wire.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from slackwater.wire.messages.describe_transactions import DescribeTransactionsRequest
from slackwater.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from slackwater.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from slackwater.wire.messages.end_txn import EndTxnRequest
from slackwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from slackwater.wire.messages.find_coordinator import FindCoordinatorRequest
from slackwater.wire.messages.heartbeat import HeartbeatRequest
from slackwater.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from slackwater.wire.messages.init_producer_id import InitProducerIdRequest
from slackwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from slackwater.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from slackwater.wire.messages.list_config_resources import ListConfigResourcesRequest
from slackwater.wire.messages.list_groups import ListGroupsRequest
from slackwater.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from slackwater.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from slackwater.wire.messages.list_transactions import ListTransactionsRequest
from slackwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from slackwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from slackwater.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from slackwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from slackwater.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from slackwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from slackwater.wire.messages.sync_group import SyncGroupRequest
from slackwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from slackwater.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from slackwater.wire.records.record import Record, encode_batch
from slackwater.wire.schema import NO_UUID, Request

DIRECTORY: Final = Path(__file__).parent / "acl_transcripts"
ADMIN: Final = "admin"
SHARED: Final = "t"
OPEN: Final = "open"  # the names of a transaction that no probe changes
GROUPS: Final = ("t-a", "t-b")
MAX_REPEATS: Final = 50
_RETRIED: Final = (14, 15, 16, 19)  # loading, not available, not this broker; Kafka does not know the producer yet
UNKNOWN_PRODUCER: Final = (4_000, 0)
TRANSACTION_TIMEOUT_MS: Final = 900_000  # no transaction expires during a recording
SETTINGS: Final[Mapping[str, object]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN};User:ANONYMOUS",
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": 0,
}
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AUTHORIZATION_ERRORS: Final = (0, 29, 30, 31, 53, 65)
READ, WRITE, CREATE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
ALTER, DESCRIBE, ALL = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.ALL
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
TOPIC, GROUP, CLUSTER, TXN = (
    AclResourceType.TOPIC,
    AclResourceType.GROUP,
    AclResourceType.CLUSTER,
    AclResourceType.TRANSACTIONAL_ID,
)
Rule = tuple[
    AclResourceType, str, PatternType, str, AclOperation, AclPermissionType
]  # without the principal; the text is the host


@dataclass(frozen=True)
class Resources:
    """What `prepare` has created: the ids of topics, and the producers of open transactions by base name."""

    ids: Mapping[str, bytes]
    producers: Mapping[str, tuple[int, int]]

    def names(self, base: str) -> "Names":
        return Names(base, self.ids, self.producers.get(base, UNKNOWN_PRODUCER))


@dataclass(frozen=True)
class Names:
    """The names in a request of one case, and the ids of its topics."""

    base: str
    ids: Mapping[str, bytes] = field(default_factory=dict)
    producer: tuple[int, int] = UNKNOWN_PRODUCER  # id and epoch of the open transaction

    @property
    def transactional_id(self) -> str:
        """The transactional id of the open transaction, if the case has one."""
        return self.all[1]

    @property
    def all(self) -> tuple[str, str, str]:
        return f"{self.base}-a", f"{self.base}-b", f"{self.base}-x"

    def id(self, name: str) -> bytes:
        return self.ids.get(name) or name.encode()[-16:].ljust(16, b"?")


@dataclass(frozen=True)
class Probe:
    """A request and the rights that it needs; the last right is the one that the variants vary."""

    name: str
    version: int
    build: Callable[[Names], Request]
    rights: tuple[tuple[AclResourceType, AclOperation], ...]
    changes: bool = False  # the request changes its topics or groups
    has_transaction: bool = False  # its names have an open transaction: topics `a` and `b`, group `b`

    @property
    def shared_base(self) -> str:
        return OPEN if self.has_transaction else SHARED


@dataclass(frozen=True)
class Case:
    """A probe with the rules of its user."""

    probe: Probe
    variant: str
    rules: tuple[Rule, ...]

    @property
    def name(self) -> str:
        return f"{self.probe.name}.{self.variant}"

    @property
    def base(self) -> str:
        return self.name if self.probe.changes else self.probe.shared_base


def allow(
    resource: AclResourceType, operation: AclOperation, name: str, pattern: PatternType = PatternType.LITERAL
) -> Rule:
    return resource, name, pattern, "*", operation, AclPermissionType.ALLOW


def deny(
    resource: AclResourceType, operation: AclOperation, name: str, pattern: PatternType = PatternType.LITERAL
) -> Rule:
    return resource, name, pattern, "*", operation, AclPermissionType.DENY


def _everything(resource: AclResourceType, operation: AclOperation) -> Rule:
    return allow(resource, operation, CLUSTER_NAME if resource is CLUSTER else "*")


def _variants(probe: Probe) -> Iterator[tuple[str, tuple[Rule, ...]]]:
    yield "none", ()
    if not probe.rights:
        return
    *others, (resource, operation) = probe.rights
    basis = tuple(_everything(*right) for right in others)
    if basis:
        yield "onlylast", (_everything(resource, operation),)
        yield "onlyfirst", basis
    if resource is CLUSTER:
        yield "all", (*basis, allow(CLUSTER, operation, CLUSTER_NAME))
        yield "deny", (*basis, allow(CLUSTER, ALL, CLUSTER_NAME), deny(CLUSTER, operation, CLUSTER_NAME))
        return
    prefix = "{base}-"
    yield "all", (*basis, allow(resource, operation, "*"))
    literal = PatternType.PREFIXED if probe.name.startswith("create_topics") else PatternType.LITERAL
    yield "partly", (*basis, allow(resource, operation, "{base}-a", literal))
    yield "prefix", (*basis, allow(resource, operation, prefix, PatternType.PREFIXED))
    yield (
        "deny",
        (*basis, allow(resource, ALL, prefix, PatternType.PREFIXED), deny(resource, operation, "{base}-b", literal)),
    )
    elsewhere = (resource, "*", PatternType.LITERAL, "10.9.9.9", ALL, AclPermissionType.ALLOW)
    yield "host", (*basis, elsewhere)
    yield "describe", (*basis, allow(resource, DESCRIBE, "*"))


def _records() -> bytes:
    return bytes(encode_batch([Record(b"k", b"v", (), 1_700_000_000_000)], base_offset=0))


def _produce(names: Names, *, by_id: bool = False) -> Request:
    data = [PartitionProduceData(0, _records())]
    if by_id:
        return ProduceRequest(None, -1, 5_000, [TopicProduceData("", names.id(name), data) for name in names.all])
    return ProduceRequest(None, -1, 5_000, [TopicProduceData(name, NO_UUID, data) for name in names.all])


def _fetch(names: Names, *, by_id: bool = False, replica_id: int = -1) -> Request:
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)]
    topics = [FetchTopic("" if by_id else name, names.id(name) if by_id else NO_UUID, partitions) for name in names.all]
    return FetchRequest(
        replica_id=replica_id, max_wait_ms=0, min_bytes=1, max_bytes=1_000_000, session_epoch=-1, topics=topics
    )


def _commit(names: Names, *, by_id: bool = False) -> Request:
    partitions = [OffsetCommitRequestPartition(0, 7, committed_metadata="")]
    topics = [
        OffsetCommitRequestTopic("" if by_id else name, names.id(name) if by_id else NO_UUID, partitions)
        for name in names.all
    ]
    return OffsetCommitRequest(f"g-{names.base}", -1, "", topics=topics)


def _offset_fetch(names: Names, *, by_id: bool = False, all_topics: bool = False) -> Request:
    topics = [
        OffsetFetchRequestTopics("" if by_id else name, names.id(name) if by_id else NO_UUID, [0]) for name in names.all
    ]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group, topics=None if all_topics else topics) for group in GROUPS]
    )


def _metadata(names: Names, *, create: bool = False, by_id: bool = False, every: bool = False) -> Request:
    topics = [
        MetadataRequestTopic(names.id(name), None) if by_id else MetadataRequestTopic(NO_UUID, name)
        for name in names.all
    ]
    return MetadataRequest(None if every else topics, create, include_topic_authorized_operations=True)


def _join(names: Names) -> Request:
    return JoinGroupRequest(names.all[0], 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range")])


def _configs(kind: int, names: Sequence[str]) -> list[DescribeConfigsResource]:
    return [DescribeConfigsResource(kind, name, ["retention.ms", "num.partitions"]) for name in names]


def _replace(kind: int, names: Sequence[str]) -> Request:
    return AlterConfigsRequest([ReplacedResource(kind, name, [ReplacedConfig("retention.ms", "9")]) for name in names])


def _alter(kind: int, names: Sequence[str], setting: str = "retention.ms") -> Request:
    return IncrementalAlterConfigsRequest(
        [AlterConfigsResource(kind, name, [AlterableConfig(setting, 0, "9")]) for name in names]
    )


def _txn_markers(names: Names) -> WriteTxnMarkersRequest:
    """A marker for a partition that does not exist: it changes nothing."""
    return WriteTxnMarkersRequest([WritableTxnMarker(4_000, 0, False, [WritableTxnMarkerTopic("missing", [0])])])


def _txn_commit_topics(names: Names) -> list[TxnOffsetCommitRequestTopic]:
    return [
        TxnOffsetCommitRequestTopic(name, [TxnOffsetCommitRequestPartition(0, 5, committed_metadata="")])
        for name in names.all
    ]


def _txn_commit(names: Names) -> Request:
    return TxnOffsetCommitRequest("txn-a", "t-a", *UNKNOWN_PRODUCER, topics=_txn_commit_topics(names))


def _commit_in_transaction(names: Names) -> Request:
    topics = _txn_commit_topics(names)
    return TxnOffsetCommitRequest(names.transactional_id, names.all[1], *names.producer, topics=topics)


def _produce_in_transaction(names: Names, sequence: int = 1, count: int = 3) -> Request:
    producer_id, epoch = names.producer
    batch = encode_batch(
        [Record(b"k", b"v", (), 1_700_000_000_000)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    topics = [TopicProduceData(name, NO_UUID, [PartitionProduceData(0, bytes(batch))]) for name in names.all[:count]]
    return ProduceRequest(names.transactional_id, -1, 5_000, topics)


def _add_partitions(names: Names) -> Request:
    topics = [AddPartitionsToTxnTopic(name, [0]) for name in names.all[:2]]
    return AddPartitionsToTxnRequest([], names.transactional_id, *names.producer, topics)


def _verify_partitions(names: Names) -> Request:
    """The request of a broker that verifies the partitions of a transaction."""
    topics = [AddPartitionsToTxnTopic(name, [0]) for name in names.all]
    verified = AddPartitionsToTxnTransaction(names.transactional_id, *names.producer, verify_only=True, topics=topics)
    return AddPartitionsToTxnRequest([verified])


def _acl(
    name: str,
    operation: int,
    *,
    resource: int = TOPIC,
    pattern: int = 3,
    principal: str = "User:nobody",
    permission: int = AclPermissionType.ALLOW,
) -> AclCreation:
    return AclCreation(resource, name, pattern, principal, "*", operation, permission)


_ENTITY: Final = [EntityData("user", "somebody")]
PROBES: Final = (
    Probe("produce", 9, _produce, ((TOPIC, WRITE),), changes=True),
    Probe("produce_ids", 13, lambda names: _produce(names, by_id=True), ((TOPIC, WRITE),), changes=True),
    Probe("fetch", 12, _fetch, ((TOPIC, READ),)),
    Probe("fetch_ids", 17, lambda names: _fetch(names, by_id=True), ((TOPIC, READ),)),
    Probe(
        "list_offsets",
        8,
        lambda names: ListOffsetsRequest(
            -1, 0, [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)]) for name in names.all]
        ),
        ((TOPIC, DESCRIBE),),
    ),
    Probe("metadata", 12, _metadata, ((TOPIC, DESCRIBE),)),
    Probe("metadata_v9", 9, _metadata, ((TOPIC, READ),)),
    Probe("metadata_ids", 12, lambda names: _metadata(names, by_id=True), ((TOPIC, DESCRIBE),)),
    Probe("metadata_every", 12, lambda names: _metadata(names, every=True), ((TOPIC, DESCRIBE),)),
    Probe(
        "metadata_create",
        12,
        lambda names: _metadata(names, create=True),
        ((TOPIC, DESCRIBE), (TOPIC, CREATE)),
        changes=True,
    ),
    Probe(
        "metadata_create_cluster",
        12,
        lambda names: _metadata(names, create=True),
        ((TOPIC, DESCRIBE), (CLUSTER, CREATE)),
        changes=True,
    ),
    Probe(
        "metadata_cluster",
        10,
        lambda names: MetadataRequest([], include_cluster_authorized_operations=True),
        ((CLUSTER, DESCRIBE),),
    ),
    Probe("offset_commit", 9, _commit, ((GROUP, READ), (TOPIC, READ))),
    Probe("offset_commit_ids", 10, lambda names: _commit(names, by_id=True), ((GROUP, READ), (TOPIC, READ))),
    Probe("offset_fetch", 9, _offset_fetch, ((GROUP, DESCRIBE), (TOPIC, DESCRIBE))),
    Probe("offset_fetch_groups", 9, _offset_fetch, ((TOPIC, DESCRIBE), (GROUP, DESCRIBE))),
    Probe(
        "offset_fetch_ids", 10, lambda names: _offset_fetch(names, by_id=True), ((GROUP, DESCRIBE), (TOPIC, DESCRIBE))
    ),
    Probe(
        "offset_fetch_every",
        9,
        lambda names: _offset_fetch(names, all_topics=True),
        ((GROUP, DESCRIBE), (TOPIC, DESCRIBE)),
    ),
    Probe(
        "offset_delete",
        0,
        lambda names: OffsetDeleteRequest(
            "t-a", [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(3)]) for name in names.all]
        ),
        ((GROUP, DELETE), (TOPIC, READ)),
    ),
    Probe(
        "find_coordinator",
        6,
        lambda names: FindCoordinatorRequest(coordinator_keys=list(names.all)),
        ((GROUP, DESCRIBE),),
    ),
    Probe("find_coordinator_v3", 3, lambda names: FindCoordinatorRequest(names.all[1]), ((GROUP, DESCRIBE),)),
    Probe(
        "describe_groups",
        5,
        lambda names: DescribeGroupsRequest(list(names.all), include_authorized_operations=True),
        ((GROUP, DESCRIBE),),
    ),
    Probe("list_groups", 5, lambda names: ListGroupsRequest(), ((GROUP, DESCRIBE),)),
    Probe("list_groups_cluster", 5, lambda names: ListGroupsRequest(), ((CLUSTER, DESCRIBE),)),
    Probe("delete_groups", 2, lambda names: DeleteGroupsRequest(list(names.all)), ((GROUP, DELETE),), changes=True),
    Probe("join_group", 9, _join, ((GROUP, READ),), changes=True),
    Probe("heartbeat", 4, lambda names: HeartbeatRequest(names.all[1], 1, "nobody"), ((GROUP, READ),)),
    Probe(
        "leave_group",
        5,
        lambda names: LeaveGroupRequest(names.all[1], "", [MemberIdentity("nobody")]),
        ((GROUP, READ),),
    ),
    Probe("leave_group_v2", 2, lambda names: LeaveGroupRequest(names.all[1], "nobody"), ((GROUP, READ),)),
    Probe(
        "sync_group",
        5,
        lambda names: SyncGroupRequest(names.all[1], 1, "nobody", None, "consumer", "range"),
        ((GROUP, READ),),
    ),
    Probe(
        "create_topics",
        7,
        lambda names: CreateTopicsRequest([CreatableTopic(f"{name}-new", 1, 1) for name in names.all], 5_000),
        ((TOPIC, DESCRIBE_CONFIGS), (TOPIC, CREATE)),
        changes=True,
    ),
    Probe(
        "create_topics_cluster",
        7,
        lambda names: CreateTopicsRequest([CreatableTopic(f"{name}-new", 1, 1) for name in names.all], 5_000),
        ((CLUSTER, CREATE),),
        changes=True,
    ),
    Probe(
        "create_topics_existing",
        5,
        lambda names: CreateTopicsRequest([CreatableTopic(names.all[0], 1, 1)], 5_000),
        ((TOPIC, CREATE),),
    ),
    Probe(
        "create_partitions",
        3,
        lambda names: CreatePartitionsRequest([CreatePartitionsTopic(name, 2, None) for name in names.all], 5_000),
        ((TOPIC, ALTER),),
        changes=True,
    ),
    Probe(
        "delete_topics",
        5,
        lambda names: DeleteTopicsRequest(topic_names=list(names.all), timeout_ms=5_000),
        ((TOPIC, DELETE),),
        changes=True,
    ),
    Probe(
        "delete_topics_ids",
        6,
        lambda names: DeleteTopicsRequest([DeleteTopicState(None, names.id(name)) for name in names.all], [], 5_000),
        ((TOPIC, DELETE),),
        changes=True,
    ),
    Probe(
        "delete_topics_cluster",
        5,
        lambda names: DeleteTopicsRequest(topic_names=list(names.all), timeout_ms=5_000),
        ((CLUSTER, DELETE),),
        changes=True,
    ),
    Probe(
        "delete_records",
        2,
        lambda names: DeleteRecordsRequest(
            [DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 0)]) for name in names.all], 5_000
        ),
        ((TOPIC, DELETE),),
    ),
    Probe(
        "describe_configs",
        4,
        lambda names: DescribeConfigsRequest(_configs(2, names.all)),
        ((TOPIC, DESCRIBE_CONFIGS),),
    ),
    Probe(
        "describe_configs_broker",
        4,
        lambda names: DescribeConfigsRequest(_configs(2, names.all[:1]) + _configs(4, ["1", ""])),
        ((CLUSTER, DESCRIBE_CONFIGS),),
    ),
    Probe(
        "describe_configs_group",
        4,
        lambda names: DescribeConfigsRequest(_configs(32, names.all)),
        ((GROUP, DESCRIBE_CONFIGS),),
    ),
    Probe("alter_configs", 2, lambda names: _replace(2, names.all), ((TOPIC, ALTER_CONFIGS),), changes=True),
    Probe("incremental_alter_configs", 1, lambda names: _alter(2, names.all), ((TOPIC, ALTER_CONFIGS),), changes=True),
    Probe(
        "incremental_alter_configs_broker",
        1,
        lambda names: _alter(4, [""], "log.cleaner.backoff.ms"),
        ((CLUSTER, ALTER_CONFIGS),),
    ),
    Probe("list_config_resources", 1, lambda names: ListConfigResourcesRequest([2]), ((CLUSTER, DESCRIBE_CONFIGS),)),
    Probe(
        "describe_log_dirs",
        4,
        lambda names: DescribeLogDirsRequest([DescribableLogDirTopic(name, [0]) for name in names.all]),
        ((CLUSTER, DESCRIBE),),
    ),
    Probe(
        "alter_replica_log_dirs",
        2,
        lambda names: AlterReplicaLogDirsRequest(
            [AlterReplicaLogDir("/nowhere", [AlterReplicaLogDirTopic(name, [0]) for name in names.all])]
        ),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "offset_for_leader_epoch",
        4,
        lambda names: OffsetForLeaderEpochRequest(
            -1, [OffsetForLeaderTopic(name, [OffsetForLeaderPartition(0, -1, 0)]) for name in names.all]
        ),
        ((TOPIC, DESCRIBE),),
    ),
    Probe(
        "describe_producers",
        0,
        lambda names: DescribeProducersRequest([TopicRequest(name, [0]) for name in names.all]),
        ((TOPIC, READ),),
    ),
    Probe(
        "describe_topic_partitions",
        0,
        lambda names: DescribeTopicPartitionsRequest([DescribedTopic(name) for name in names.all]),
        ((TOPIC, DESCRIBE),),
    ),
    Probe("init_producer_id", 5, lambda names: InitProducerIdRequest(None, 60_000), ((TOPIC, WRITE),)),
    Probe(
        "init_producer_id_cluster",
        5,
        lambda names: InitProducerIdRequest(None, 60_000),
        ((CLUSTER, AclOperation.IDEMPOTENT_WRITE),),
    ),
    Probe(
        "describe_cluster",
        1,
        lambda names: DescribeClusterRequest(include_cluster_authorized_operations=True),
        ((CLUSTER, DESCRIBE),),
    ),
    Probe(
        "describe_client_quotas",
        1,
        lambda names: DescribeClientQuotasRequest([ComponentData("user", 2, None)]),
        ((CLUSTER, DESCRIBE_CONFIGS),),
    ),
    Probe(
        "alter_client_quotas",
        1,
        lambda names: AlterClientQuotasRequest([EntryData(_ENTITY, [OpData("producer_byte_rate", 0.0, remove=True)])]),
        ((CLUSTER, ALTER_CONFIGS),),
    ),
    Probe(
        "describe_user_scram_credentials",
        0,
        lambda names: DescribeUserScramCredentialsRequest([UserName("somebody")]),
        ((CLUSTER, DESCRIBE),),
    ),
    Probe(
        "alter_user_scram_credentials",
        0,
        lambda names: AlterUserScramCredentialsRequest([ScramCredentialDeletion("somebody", 1)]),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "elect_leaders",
        2,
        lambda names: ElectLeadersRequest(0, [TopicPartitions(name, [0]) for name in names.all], 5_000),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "elect_leaders_v0",
        0,
        lambda names: ElectLeadersRequest(0, [TopicPartitions(name, [0]) for name in names.all], 5_000),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "alter_partition_reassignments",
        0,
        lambda names: AlterPartitionReassignmentsRequest(
            5_000, topics=[ReassignableTopic(name, [ReassignablePartition(0, [1])]) for name in names.all[:1]]
        ),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "list_partition_reassignments",
        0,
        lambda names: ListPartitionReassignmentsRequest(5_000, None),
        ((CLUSTER, DESCRIBE),),
    ),
    Probe("describe_transactions", 0, lambda names: DescribeTransactionsRequest(list(names.all)), ((TXN, DESCRIBE),)),
    Probe("list_transactions", 1, lambda names: ListTransactionsRequest(), ((TXN, DESCRIBE),)),
    Probe(
        "init_producer_id_txn",
        5,
        lambda names: InitProducerIdRequest(names.transactional_id, TRANSACTION_TIMEOUT_MS),
        ((TXN, WRITE),),
        changes=True,
    ),
    Probe(
        "init_producer_id_txn_open",
        5,
        lambda names: InitProducerIdRequest(names.transactional_id, TRANSACTION_TIMEOUT_MS, *names.producer),
        ((TXN, WRITE),),
        changes=True,
        has_transaction=True,
    ),
    Probe(
        "find_coordinator_txn_v3",
        3,
        lambda names: FindCoordinatorRequest(names.all[1], key_type=1),
        ((TXN, DESCRIBE),),
    ),
    Probe(
        "find_coordinator_txn",
        6,
        lambda names: FindCoordinatorRequest(key_type=1, coordinator_keys=list(names.all)),
        ((TXN, DESCRIBE),),
    ),
    Probe(
        "find_coordinator_txn_write",
        6,
        lambda names: FindCoordinatorRequest(key_type=1, coordinator_keys=list(names.all)),
        ((TXN, WRITE),),
    ),
    Probe(
        "txn_produce", 11, _produce_in_transaction, ((TXN, WRITE), (TOPIC, WRITE)), changes=True, has_transaction=True
    ),
    Probe(
        "txn_produce_v12",
        12,
        _produce_in_transaction,
        ((TOPIC, WRITE), (TXN, WRITE)),
        changes=True,
        has_transaction=True,
    ),
    Probe("txn_add_partitions", 3, _add_partitions, ((TXN, WRITE), (TOPIC, WRITE)), has_transaction=True),
    Probe("txn_add_partitions_id", 3, _add_partitions, ((TOPIC, WRITE), (TXN, WRITE)), has_transaction=True),
    Probe(
        "txn_verify_partitions", 5, _verify_partitions, ((CLUSTER, AclOperation.CLUSTER_ACTION),), has_transaction=True
    ),
    Probe(
        "txn_add_offsets",
        3,
        lambda names: AddOffsetsToTxnRequest(names.transactional_id, *names.producer, names.all[1]),
        ((TXN, WRITE), (GROUP, READ)),
        has_transaction=True,
    ),
    Probe(
        "txn_commit_offsets",
        3,
        _commit_in_transaction,
        ((TXN, WRITE), (GROUP, READ), (TOPIC, READ)),
        has_transaction=True,
    ),
    Probe(
        "txn_commit_offsets_group",
        3,
        _commit_in_transaction,
        ((TXN, WRITE), (TOPIC, READ), (GROUP, READ)),
        has_transaction=True,
    ),
    Probe(
        "txn_end",
        3,
        lambda names: EndTxnRequest(names.transactional_id, *names.producer, committed=True),
        ((TXN, WRITE),),
        changes=True,
        has_transaction=True,
    ),
    Probe(
        "txn_describe",
        0,
        lambda names: DescribeTransactionsRequest(list(names.all)),
        ((TXN, DESCRIBE), (TOPIC, DESCRIBE)),
        has_transaction=True,
    ),
    Probe(
        "txn_describe_other_order",
        0,
        lambda names: DescribeTransactionsRequest(list(names.all)),
        ((TOPIC, DESCRIBE), (TXN, DESCRIBE)),
        has_transaction=True,
    ),
    Probe(
        "txn_describe_producers",
        0,
        lambda names: DescribeProducersRequest([TopicRequest(name, [0]) for name in names.all]),
        ((TOPIC, READ),),
        has_transaction=True,
    ),
    Probe("txn_list", 2, lambda names: ListTransactionsRequest(), ((TXN, DESCRIBE),), has_transaction=True),
    Probe(
        "add_partitions_to_txn",
        3,
        lambda names: AddPartitionsToTxnRequest(
            [], "t-a", 4_000, 0, [AddPartitionsToTxnTopic(name, [0]) for name in names.all]
        ),
        ((TXN, WRITE), (TOPIC, WRITE)),
    ),
    Probe(
        "add_offsets_to_txn",
        3,
        lambda names: AddOffsetsToTxnRequest("t-a", 4_000, 0, "t-b"),
        ((TXN, WRITE), (GROUP, READ)),
    ),
    Probe("end_txn", 3, lambda names: EndTxnRequest("t-a", 4_000, 0, committed=True), ((TXN, WRITE),)),
    Probe("write_txn_markers", 1, _txn_markers, ((CLUSTER, AclOperation.CLUSTER_ACTION),)),
    Probe("write_txn_markers_alter", 1, _txn_markers, ((CLUSTER, ALTER),)),
    Probe("txn_offset_commit", 3, _txn_commit, ((TXN, WRITE), (GROUP, READ), (TOPIC, READ))),
    Probe(
        "create_acls",
        3,
        lambda names: CreateAclsRequest(
            [
                _acl("acl-1", READ),
                _acl("acl-1", READ),
                _acl("", READ),
                _acl("cluster", READ, resource=CLUSTER),
                AclCreation(TOPIC, "acl-2", 3, "User:nobody", "", READ, AclPermissionType.ALLOW),
                AclCreation(TOPIC, "acl-2", 3, "Group:nobody", "", READ, AclPermissionType.ALLOW),
            ]
        ),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_operation_any",
        3,
        lambda names: CreateAclsRequest([_acl("acl-4", READ), _acl("acl-2", AclOperation.ANY)]),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_operation_unknown",
        3,
        lambda names: CreateAclsRequest([_acl("acl-4", READ), _acl("acl-2", 99)]),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_operation_unsupported",
        3,
        lambda names: CreateAclsRequest([_acl("acl-4", READ), _acl("acl-3", AclOperation.CREATE_TOKENS)]),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_resource_any",
        3,
        lambda names: CreateAclsRequest([_acl("acl-4", READ), _acl("acl-2", READ, resource=1)]),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_resource_unknown",
        3,
        lambda names: CreateAclsRequest([_acl("acl-4", READ), _acl("acl-2", READ, resource=77)]),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_pattern_match",
        3,
        lambda names: CreateAclsRequest([_acl("acl-4", READ), _acl("acl-2", READ, pattern=2)]),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_pattern_unknown",
        3,
        lambda names: CreateAclsRequest([_acl("acl-4", READ), _acl("acl-2", READ, pattern=9)]),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_principal",
        3,
        lambda names: CreateAclsRequest(
            [_acl("acl-4", READ), AclCreation(TOPIC, "acl-2", 3, "nobody", "*", READ, AclPermissionType.ALLOW)]
        ),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_permission_any",
        3,
        lambda names: CreateAclsRequest(
            [_acl("acl-4", READ), AclCreation(TOPIC, "acl-2", 3, "User:nobody", "*", READ, AclPermissionType.ANY)]
        ),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_permission_unknown",
        3,
        lambda names: CreateAclsRequest(
            [_acl("acl-4", READ), AclCreation(TOPIC, "acl-2", 3, "User:nobody", "*", READ, 0)]
        ),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_operation_zero",
        3,
        lambda names: CreateAclsRequest([_acl("acl-4", READ), _acl("acl-2", 0)]),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "create_acls_resource_zero",
        3,
        lambda names: CreateAclsRequest([_acl("acl-4", READ), _acl("acl-2", READ, resource=0)]),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "describe_acls",
        3,
        lambda names: DescribeAclsRequest(
            AclResourceType.DELEGATION_TOKEN, "acl-match", PatternType.MATCH, None, None, 1, 1
        ),
        ((CLUSTER, DESCRIBE),),
    ),
    Probe(
        "describe_acls_unknown",
        3,
        lambda names: DescribeAclsRequest(77, None, PatternType.ANY, None, None, 1, 1),
        ((CLUSTER, DESCRIBE),),
    ),
    Probe(
        "delete_acls_unknown",
        3,
        lambda names: DeleteAclsRequest(
            [
                DeleteAclsFilter(77, None, PatternType.ANY, None, None, 1, 1),
                DeleteAclsFilter(TOPIC, "no-such-rule", PatternType.ANY, None, None, 99, 1),
            ]
        ),
        ((CLUSTER, ALTER),),
    ),
    Probe(
        "delete_acls_repeated",
        3,
        lambda names: DeleteAclsRequest([DeleteAclsFilter(TOPIC, f"{names.base}-doomed", 3, None, None, 1, 1)] * 2),
        ((CLUSTER, ALTER),),
        changes=True,
    ),
    Probe(
        "fetch_replica",
        12,
        lambda names: _fetch(names, replica_id=7),
        ((TOPIC, READ),),
    ),
    Probe(
        "fetch_replica_ids",
        14,
        lambda names: _fetch(names, by_id=True, replica_id=7),
        ((CLUSTER, AclOperation.CLUSTER_ACTION),),
    ),
    Probe(
        "offset_for_leader_epoch_replica",
        4,
        lambda names: OffsetForLeaderEpochRequest(
            -1, [OffsetForLeaderTopic(name, [OffsetForLeaderPartition(0, -1, 0)]) for name in names.all]
        ),
        ((CLUSTER, AclOperation.CLUSTER_ACTION),),
    ),
    Probe(
        "delete_acls",
        3,
        lambda names: DeleteAclsRequest(
            [
                DeleteAclsFilter(TOPIC, f"{names.base}-doomed", 3, None, None, 1, 1),
                DeleteAclsFilter(TOPIC, "no-such-rule", 1, None, None, 1, 1),
            ]
        ),
        ((CLUSTER, ALTER),),
        changes=True,
    ),
)
_TOKEN: Final = AclResourceType.DELEGATION_TOKEN  # no case has rules about tokens
EXTRA_RULES: Final = (
    ("User:x", allow(_TOKEN, READ, "acl-match")),
    ("User:y", allow(_TOKEN, READ, "acl-match")),
    ("User:y", allow(_TOKEN, WRITE, "acl-", PatternType.PREFIXED)),
    ("User:z", deny(_TOKEN, ALL, "acl-other")),
    ("User:z", deny(_TOKEN, ALL, "*")),
)


def _case(probe: Probe, variant: str, rules: tuple[Rule, ...]) -> Case:
    name = f"{probe.name}.{variant}"
    base = name if probe.changes else probe.shared_base
    return Case(probe, variant, tuple((rule[0], rule[1].replace("{base}", base), *rule[2:]) for rule in rules))


CASES: Final = tuple(_case(probe, *variant) for probe in PROBES for variant in _variants(probe))


class Peer(Protocol):
    """A broker with an authorizer: Apache Kafka or ours."""

    def request(self, user: str, request: Request, version: int) -> Any:
        """Send a request as this user and return the response."""

    def pause(self) -> None:
        """Wait a moment before a request is repeated."""


# --- running ----------------------------------------------------------------------------------------------------------


def prepare(peer: Peer) -> Resources:
    """Create topics, offsets, rules and transactions."""
    bases = [SHARED, OPEN, *(case.base for case in CASES if case.probe.changes)]
    topics = [f"{base}-{letter}" for base in bases for letter in "ab"]
    created = peer.request(ADMIN, CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in topics], 60_000), 7)
    assert {topic.error_code for topic in created.topics} == {0}, created
    while peer.request(ADMIN, FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code:
        peer.pause()
    rules = [(f"User:{case.name}", rule) for case in CASES for rule in case.rules] + list(EXTRA_RULES)
    rules += [("User:x", allow(TOPIC, READ, f"{base}-doomed")) for base in bases]
    creations = [
        AclCreation(resource, name, pattern, principal, host, operation, permission)
        for principal, (resource, name, pattern, host, operation, permission) in rules
    ]
    results = peer.request(ADMIN, CreateAclsRequest(creations), 3).results
    assert {result.error_code for result in results} == {0}, results
    while (count := _rule_count(peer)) < len(set(rules)):
        assert count < len(set(rules))
        peer.pause()
    described = _described(peer, topics)
    while any(topic.error_code for topic in described.topics):
        peer.pause()
        described = _described(peer, topics)
    ids = {topic.name: topic.topic_id for topic in described.topics}
    groups = [*GROUPS, f"g-{SHARED}", *(f"{case.base}-{x}" for case in CASES if "groups" in case.name for x in "ab")]
    for group in groups:
        while not _has_committed(peer, group):
            peer.pause()
    transactional = {case.base for case in CASES if case.probe.has_transaction}
    return Resources(ids, {base: _open_transaction(peer, base) for base in sorted(transactional)})


def _open_transaction(peer: Peer, base: str) -> tuple[int, int]:
    """Begin a transaction with two topics and a group, and another one with nothing; return its producer."""
    a, b, _ = Names(base).all
    initialize = [InitProducerIdRequest(name, TRANSACTION_TIMEOUT_MS) for name in (a, b)]
    while (producers := [peer.request(ADMIN, request, 5) for request in initialize])[0].error_code:
        peer.pause()
    producer = producers[1].producer_id, producers[1].producer_epoch
    topics = [AddPartitionsToTxnTopic(name, [0]) for name in (a, b)]
    added = peer.request(ADMIN, AddPartitionsToTxnRequest([], b, *producer, topics), 3)
    rows = [row for topic in added.results_by_topic_v3_and_below for row in topic.results_by_partition]
    assert {row.partition_error_code for row in rows} == {0}, added
    assert peer.request(ADMIN, AddOffsetsToTxnRequest(b, *producer, b), 3).error_code == 0
    produce = _produce_in_transaction(Names(base, producer=producer), sequence=0, count=2)
    produced = _answered(peer, ADMIN, produce, 11)
    assert {row.error_code for topic in produced.responses for row in topic.partition_responses} == {0}, produced
    return producer


def _answered(peer: Peer, user: str, request: Request, version: int) -> Any:
    """Send a request until the response is not that a client should retry: Kafka asks another node meanwhile."""
    response = peer.request(user, request, version)
    for _ in range(MAX_REPEATS):
        if not _asks_for_retry(response):
            break
        peer.pause()
        response = peer.request(user, request, version)
    return response


def _asks_for_retry(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_asks_for_retry, value))
    if not is_dataclass(value):
        return False
    return any(
        getattr(value, key.name) in _RETRIED
        if key.name.endswith("error_code")
        else _asks_for_retry(getattr(value, key.name))
        for key in fields(value)
    )


def _rule_count(peer: Peer) -> int:
    everything = DescribeAclsRequest(1, None, PatternType.ANY, None, None, 1, 1)
    return sum(len(resource.acls) for resource in peer.request(ADMIN, everything, 3).resources)


def _described(peer: Peer, topics: Sequence[str]) -> Any:
    return peer.request(ADMIN, MetadataRequest([MetadataRequestTopic(NO_UUID, name) for name in topics], False), 12)


def _has_committed(peer: Peer, group: str) -> bool:
    rows = [
        OffsetCommitRequestTopic(f"{SHARED}-{letter}", NO_UUID, [OffsetCommitRequestPartition(0, 5, -1, "")])
        for letter in "ab"
    ]
    response = peer.request(ADMIN, OffsetCommitRequest(group, -1, "", topics=rows), 8)
    return not any(partition.error_code for topic in response.topics for partition in topic.partitions)


def run_case(peer: Peer, case: Case, resources: Resources) -> Any:
    """Send the request of a case and return the response in the form in which it is stored."""
    request = case.probe.build(resources.names(case.base))
    return normalized(_answered(peer, case.name, request, case.probe.version), resources.ids, case.base)


# --- comparing --------------------------------------------------------------------------------------------------------

_LEFT_OUT: Final = frozenset(
    {
        "throttle_time_ms",
        "brokers",
        "node_endpoints",
        "host",
        "port",
        "cluster_id",
        "configs",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "partition_size",
        "low_watermark",
        "producer_id",
        "last_timestamp",
        "transaction_start_time_ms",
    }
)


def normalized(response: Any, ids: Mapping[str, bytes], base: str) -> Any:
    """Return a response without what differs between any two brokers."""
    names = {topic_id: name for name, topic_id in ids.items()}
    lists_all = type(response).__name__ in _LISTS_OF_ALL

    def reduced(value: Any) -> Any:
        if is_dataclass(value):
            shown = {key.name: reduced(getattr(value, key.name)) for key in fields(value) if key.name not in _LEFT_OUT}
            if "error_message" in shown:
                shown["error_message"] = _message(shown["error_code"], shown["error_message"])
            return shown
        if isinstance(value, list):
            items = [item for item in map(reduced, value) if not lists_all or _is_own(item, base)]
            return sorted(items, key=json.dumps) if all(map(_name_of, items)) else items
        if isinstance(value, (bytes, memoryview)):
            data = bytes(value)
            return names.get(data) or ("<new>" if len(data) == 16 and max(data) > 127 else _text(data))
        return _UUID.sub("<id>", value) if isinstance(value, str) else value

    return "connection closed" if response is None else reduced(response)


def _text(data: bytes) -> str:
    return data.decode("latin-1").rstrip("\0")


def _name_of(item: Any) -> str | None:
    """Return the name of a resource in a response; lists of resources are compared without their order."""
    if not isinstance(item, dict):
        return None
    return next((str(item[key]) for key in _NAMES if item.get(key)), None)


def _is_own(item: Any, base: str) -> bool:
    """Whether an entry of a list of everything belongs to the case."""
    name = _name_of(item)
    return name is None or name.startswith((f"{base}-", "None"))


def _message(error: int, message: str | None) -> str | None:
    if error not in _AUTHORIZATION_ERRORS:
        return "..."
    return _REQUEST.sub("Request needs", message) if message else None


_NAMES: Final = (
    "name",
    "topic",
    "topic_name",
    "group_id",
    "transactional_id",
    "resource_name",
    "key",
    "topic_id",
    "user",
    "principal",
)
_REQUEST: Final = re.compile(r"^Request .* needs")
_LISTS_OF_ALL: Final = (
    "ListGroupsResponse",
    "MetadataResponse",
    "ListConfigResourcesResponse",
    "ListTransactionsResponse",
)


# --- files ------------------------------------------------------------------------------------------------------------


def path_of(probe: Probe) -> Path:
    return DIRECTORY / f"{probe.name}.json"


def to_json(responses: Mapping[str, Any]) -> str:
    """Return the responses of one probe as text, one line per case."""
    lines = [f"  {json.dumps(name)}: {json.dumps(response)}" for name, response in responses.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def stored(probe: Probe) -> dict[str, Any]:
    """Return the recorded responses of a probe by variant."""
    responses: dict[str, Any] = json.loads(path_of(probe).read_text())
    return responses


# --- deliberate differences -------------------------------------------------------------------------------------------

_CREATED_AT_ONCE: Final = "A topic that the request creates is returned at once."
DIFFERENCES: Final[Mapping[str, str]] = {
    "metadata_create.all": _CREATED_AT_ONCE,
    "metadata_create.prefix": _CREATED_AT_ONCE,
    "metadata_create.deny": _CREATED_AT_ONCE,
    "metadata_create_cluster.all": _CREATED_AT_ONCE,
    "fetch_replica_ids.all": "There are no other brokers: a replica's request is processed like a consumer's.",
}
"""Cases whose response differs from Kafka's on purpose, with the reason."""
