"""The APIs of Kafka 4.3 that Slackwater can encode and decode: key, name, versions.

Rules:
- A request and its response have the same versions, from the oldest of Kafka 4 to the newest of 4.3.
- From version `flexible_from`, lengths are compact and every structure ends with tagged fields (KIP-482).
- The header version follows from the API and the version. Requests: v2 if flexible, else v1 (v0, without a client id,
  was removed with ControlledShutdown v0). Responses: v1 if flexible, else v0; ApiVersions always has v0, because a
  client that does not know the broker's versions yet must be able to decode it.
- `latest_stable` is the newest version to advertise; higher versions are unstable in Kafka.

The messages are one module per API in `messages/`, imported on first use.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Api:
    """One row of the table; `flexible_from` is None where no version is flexible."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int | None
    latest_stable: int

    def supports(self, version: int) -> bool:
        """Whether there is such a version."""
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return self.flexible_from is not None and version >= self.flexible_from

    def response_header_version(self, version: int) -> int:
        """0, or 1 with tagged fields."""
        return 1 if self.is_flexible(version) and self.key != API_VERSIONS.key else 0


def _api(
    key: int, name: str, first: int, last: int, *, flexible: int | None = None, latest_stable: int | None = None
) -> Api:
    return Api(key, name, first, last, flexible, last if latest_stable is None else latest_stable)


# A broker advertises Produce from v0, although it takes v3 and up: librdkafka looks for the old ones (KAFKA-18659).
PRODUCE: Final = _api(0, "Produce", 3, 13, flexible=9)
FETCH: Final = _api(1, "Fetch", 4, 18, flexible=12)
LIST_OFFSETS: Final = _api(2, "ListOffsets", 1, 11, flexible=6)
METADATA: Final = _api(3, "Metadata", 0, 13, flexible=9)
OFFSET_COMMIT: Final = _api(8, "OffsetCommit", 2, 10, flexible=8)
OFFSET_FETCH: Final = _api(9, "OffsetFetch", 1, 10, flexible=6)
FIND_COORDINATOR: Final = _api(10, "FindCoordinator", 0, 6, flexible=3)
JOIN_GROUP: Final = _api(11, "JoinGroup", 0, 9, flexible=6)
HEARTBEAT: Final = _api(12, "Heartbeat", 0, 4, flexible=4)
LEAVE_GROUP: Final = _api(13, "LeaveGroup", 0, 5, flexible=4)
SYNC_GROUP: Final = _api(14, "SyncGroup", 0, 5, flexible=4)
DESCRIBE_GROUPS: Final = _api(15, "DescribeGroups", 0, 6, flexible=5)
LIST_GROUPS: Final = _api(16, "ListGroups", 0, 5, flexible=3)
SASL_HANDSHAKE: Final = _api(17, "SaslHandshake", 0, 1)
API_VERSIONS: Final = _api(18, "ApiVersions", 0, 4, flexible=3)
CREATE_TOPICS: Final = _api(19, "CreateTopics", 2, 7, flexible=5)
DELETE_TOPICS: Final = _api(20, "DeleteTopics", 1, 6, flexible=4)
DELETE_RECORDS: Final = _api(21, "DeleteRecords", 0, 2, flexible=2)
INIT_PRODUCER_ID: Final = _api(22, "InitProducerId", 0, 6, flexible=2, latest_stable=5)
OFFSET_FOR_LEADER_EPOCH: Final = _api(23, "OffsetForLeaderEpoch", 2, 4, flexible=4)
ADD_PARTITIONS_TO_TXN: Final = _api(24, "AddPartitionsToTxn", 0, 5, flexible=3)
ADD_OFFSETS_TO_TXN: Final = _api(25, "AddOffsetsToTxn", 0, 4, flexible=3)
END_TXN: Final = _api(26, "EndTxn", 0, 5, flexible=3)
WRITE_TXN_MARKERS: Final = _api(27, "WriteTxnMarkers", 1, 2, flexible=1)
TXN_OFFSET_COMMIT: Final = _api(28, "TxnOffsetCommit", 0, 5, flexible=3)
DESCRIBE_ACLS: Final = _api(29, "DescribeAcls", 1, 3, flexible=2)
CREATE_ACLS: Final = _api(30, "CreateAcls", 1, 3, flexible=2)
DELETE_ACLS: Final = _api(31, "DeleteAcls", 1, 3, flexible=2)
DESCRIBE_CONFIGS: Final = _api(32, "DescribeConfigs", 1, 4, flexible=4)
ALTER_CONFIGS: Final = _api(33, "AlterConfigs", 0, 2, flexible=2)
ALTER_REPLICA_LOG_DIRS: Final = _api(34, "AlterReplicaLogDirs", 1, 2, flexible=2)
DESCRIBE_LOG_DIRS: Final = _api(35, "DescribeLogDirs", 1, 5, flexible=2)
SASL_AUTHENTICATE: Final = _api(36, "SaslAuthenticate", 0, 2, flexible=2)
CREATE_PARTITIONS: Final = _api(37, "CreatePartitions", 0, 3, flexible=2)
CREATE_DELEGATION_TOKEN: Final = _api(38, "CreateDelegationToken", 1, 3, flexible=2)
RENEW_DELEGATION_TOKEN: Final = _api(39, "RenewDelegationToken", 1, 2, flexible=2)
EXPIRE_DELEGATION_TOKEN: Final = _api(40, "ExpireDelegationToken", 1, 2, flexible=2)
DESCRIBE_DELEGATION_TOKEN: Final = _api(41, "DescribeDelegationToken", 1, 3, flexible=2)
DELETE_GROUPS: Final = _api(42, "DeleteGroups", 0, 2, flexible=2)
ELECT_LEADERS: Final = _api(43, "ElectLeaders", 0, 2, flexible=2)
INCREMENTAL_ALTER_CONFIGS: Final = _api(44, "IncrementalAlterConfigs", 0, 1, flexible=1)
ALTER_PARTITION_REASSIGNMENTS: Final = _api(45, "AlterPartitionReassignments", 0, 1, flexible=0)
LIST_PARTITION_REASSIGNMENTS: Final = _api(46, "ListPartitionReassignments", 0, 0, flexible=0)
OFFSET_DELETE: Final = _api(47, "OffsetDelete", 0, 0)
DESCRIBE_CLIENT_QUOTAS: Final = _api(48, "DescribeClientQuotas", 0, 1, flexible=1)
ALTER_CLIENT_QUOTAS: Final = _api(49, "AlterClientQuotas", 0, 1, flexible=1)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = _api(50, "DescribeUserScramCredentials", 0, 0, flexible=0)
ALTER_USER_SCRAM_CREDENTIALS: Final = _api(51, "AlterUserScramCredentials", 0, 0, flexible=0)
DESCRIBE_CLUSTER: Final = _api(60, "DescribeCluster", 0, 2, flexible=0)
DESCRIBE_PRODUCERS: Final = _api(61, "DescribeProducers", 0, 0, flexible=0)
DESCRIBE_TRANSACTIONS: Final = _api(65, "DescribeTransactions", 0, 0, flexible=0)
LIST_TRANSACTIONS: Final = _api(66, "ListTransactions", 0, 2, flexible=0)
CONSUMER_GROUP_HEARTBEAT: Final = _api(68, "ConsumerGroupHeartbeat", 0, 1, flexible=0)
CONSUMER_GROUP_DESCRIBE: Final = _api(69, "ConsumerGroupDescribe", 0, 1, flexible=0)
LIST_CONFIG_RESOURCES: Final = _api(74, "ListConfigResources", 0, 1, flexible=0)
DESCRIBE_TOPIC_PARTITIONS: Final = _api(75, "DescribeTopicPartitions", 0, 0, flexible=0)

APIS: Final[dict[int, Api]] = {row.key: row for row in list(globals().values()) if isinstance(row, Api)}
"""Every API by its key."""
