"""Finds the coordinators of groups and of transactional ids."""

from enum import IntEnum

from slackwater.client.network.cluster import BrokerNode, Cluster
from slackwater.group.errors import BrokerError, Error
from slackwater.wire.apis import FIND_COORDINATOR
from slackwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse


class CoordinatorType(IntEnum):
    """The key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


_WORDS = {CoordinatorType.GROUP: "group", CoordinatorType.TRANSACTION: "transactional.id"}


async def find_coordinator(cluster: Cluster, kind: CoordinatorType, key: str) -> BrokerNode:
    """Return the broker that coordinates this group or transactional id."""
    connection = await cluster.any_connection()
    version = connection.version_of(FIND_COORDINATOR)
    if version >= 4:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    else:
        request = FindCoordinatorRequest(key_type=kind, key=key)
    response = await connection.request(
        request, FindCoordinatorResponse, timeout_s=cluster.config.request_timeout_ms / 1000, version=version
    )
    row: Coordinator | FindCoordinatorResponse = response.coordinators[0] if version >= 4 else response
    if row.error_code:
        error = Error(row.error_code)
        reason = f" {row.error_message}" if row.error_message and kind is CoordinatorType.TRANSACTION else ""
        text = f"The coordinator of {_WORDS[kind]} {key} could not be found: {error.name}.{reason}"
        if kind is CoordinatorType.TRANSACTION:
            raise cluster.error(error, text, f"Describe and Write on transactional id {key}")
        raise BrokerError(error, text)
    return BrokerNode(row.node_id, row.host, row.port)
