"""The request handlers: one module per API, with the interface described in `handler`.

A module is imported on the first request of its API, which keeps the start short.
"""

import re
from importlib import import_module
from typing import Final

from slackwater.broker.handlers.handler import Handler
from slackwater.wire import apis
from slackwater.wire.apis import Api

SUPPORTED_APIS: Final[tuple[Api, ...]] = (
    apis.PRODUCE,
    apis.FETCH,
    apis.LIST_OFFSETS,
    apis.METADATA,
    apis.OFFSET_COMMIT,
    apis.OFFSET_FETCH,
    apis.FIND_COORDINATOR,
    apis.JOIN_GROUP,
    apis.HEARTBEAT,
    apis.LEAVE_GROUP,
    apis.SYNC_GROUP,
    apis.DESCRIBE_GROUPS,
    apis.LIST_GROUPS,
    apis.SASL_HANDSHAKE,
    apis.API_VERSIONS,
    apis.CREATE_TOPICS,
    apis.DELETE_TOPICS,
    apis.DELETE_RECORDS,
    apis.INIT_PRODUCER_ID,
    apis.OFFSET_FOR_LEADER_EPOCH,
    apis.ADD_PARTITIONS_TO_TXN,
    apis.ADD_OFFSETS_TO_TXN,
    apis.END_TXN,
    apis.WRITE_TXN_MARKERS,
    apis.TXN_OFFSET_COMMIT,
    apis.DESCRIBE_ACLS,
    apis.CREATE_ACLS,
    apis.DELETE_ACLS,
    apis.DESCRIBE_CONFIGS,
    apis.ALTER_CONFIGS,
    apis.ALTER_REPLICA_LOG_DIRS,
    apis.DESCRIBE_LOG_DIRS,
    apis.SASL_AUTHENTICATE,
    apis.CREATE_PARTITIONS,
    apis.CREATE_DELEGATION_TOKEN,
    apis.RENEW_DELEGATION_TOKEN,
    apis.EXPIRE_DELEGATION_TOKEN,
    apis.DESCRIBE_DELEGATION_TOKEN,
    apis.DELETE_GROUPS,
    apis.ELECT_LEADERS,
    apis.INCREMENTAL_ALTER_CONFIGS,
    apis.ALTER_PARTITION_REASSIGNMENTS,
    apis.LIST_PARTITION_REASSIGNMENTS,
    apis.OFFSET_DELETE,
    apis.DESCRIBE_CLIENT_QUOTAS,
    apis.ALTER_CLIENT_QUOTAS,
    apis.DESCRIBE_USER_SCRAM_CREDENTIALS,
    apis.ALTER_USER_SCRAM_CREDENTIALS,
    apis.DESCRIBE_CLUSTER,
    apis.DESCRIBE_PRODUCERS,
    apis.DESCRIBE_TRANSACTIONS,
    apis.LIST_TRANSACTIONS,
    apis.CONSUMER_GROUP_HEARTBEAT,
    apis.CONSUMER_GROUP_DESCRIBE,
    apis.LIST_CONFIG_RESOURCES,
    apis.DESCRIBE_TOPIC_PARTITIONS,
)
"""The APIs that the broker supports and advertises."""


def load(api: Api) -> Handler:
    """Import the handler of an API."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api.name).lower()
    module = import_module(f"{__name__}.{name}")
    return Handler(api, module.handle, module.error_response)


__all__ = ["SUPPORTED_APIS", "Handler", "load"]
