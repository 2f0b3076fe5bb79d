"""DescribeCluster (key 60), v0 to v2.

v1   endpoint type: brokers (1) or controllers (2) (KIP-919)
v2   fenced brokers, on request (KIP-1073)
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import DESCRIBE_CLUSTER
from slackwater.wire.schema import Boolean, Int8, Int16, Int32, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class DescribeClusterRequest(Request):
    """Requests the brokers of the cluster."""

    API: ClassVar = DESCRIBE_CLUSTER

    include_cluster_authorized_operations: Boolean = False
    endpoint_type: Annotated[Int8, Versions("1+")] = 1
    include_fenced_brokers: Annotated[Boolean, Versions("2+")] = False


@dataclass(slots=True)
class DescribeClusterBroker(Struct):
    """One entry of `brokers`."""

    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Annotated[Boolean, Versions("2+")] = False


@dataclass(slots=True)
class DescribeClusterResponse(Response):
    """Cluster id, controller, brokers."""

    API: ClassVar = DESCRIBE_CLUSTER

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Annotated[Int8, Versions("1+")] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: Int32 = -(2**31)
