"""Authorized operations in responses: bit n is operation n of Kafka's AclOperation.

Without an authorizer every client may perform every operation of a resource, as in Kafka.
"""

from typing import Final

NOT_REQUESTED: Final = -(2**31)
_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12

TOPIC_OPERATIONS: Final = sum(
    1 << operation
    for operation in (_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
)
GROUP_OPERATIONS: Final = sum(
    1 << operation for operation in (_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
)
CLUSTER_OPERATIONS: Final = sum(
    1 << operation
    for operation in (
        _CREATE,
        _ALTER,
        _DESCRIBE,
        _CLUSTER_ACTION,
        _DESCRIBE_CONFIGS,
        _ALTER_CONFIGS,
        _IDEMPOTENT_WRITE,
    )
)
