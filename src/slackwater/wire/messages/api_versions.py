"""ApiVersions (key 18), v0 to v4.

v1   throttle time
v2   throttling by the client: the response is sent at once
v3   flexible; the client's name and version, the broker's features (KIP-511, KIP-584)
v4   a feature's lowest version may be 0 (KAFKA-17011)

The response header is v0 in every version. An unknown version gets a v0 response with UNSUPPORTED_VERSION and the
versions of this API.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from slackwater.wire.apis import API_VERSIONS
from slackwater.wire.schema import Boolean, Int16, Int32, Int64, Request, Response, String, Struct, Versions


@dataclass(slots=True)
class ApiVersionsRequest(Request):
    """Requests the supported APIs."""

    API: ClassVar = API_VERSIONS

    client_software_name: Annotated[String, Versions("3+", ignorable=True)] = ""
    client_software_version: Annotated[String, Versions("3+", ignorable=True)] = ""


@dataclass(slots=True)
class ApiVersion(Struct):
    """One entry of `api_keys`."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@dataclass(slots=True)
class SupportedFeatureKey(Struct):
    """One entry of `supported_features`."""

    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@dataclass(slots=True)
class FinalizedFeatureKey(Struct):
    """One entry of `finalized_features`."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@dataclass(slots=True)
class ApiVersionsResponse(Response):
    """The supported APIs and versions."""

    API: ClassVar = API_VERSIONS

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: Annotated[Int32, Versions("1+", ignorable=True)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Versions("3+", tag=0, ignorable=True)] = field(
        default_factory=list
    )
    finalized_features_epoch: Annotated[Int64, Versions("3+", tag=1, ignorable=True)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Versions("3+", tag=2, ignorable=True)] = field(
        default_factory=list
    )
    zk_migration_ready: Annotated[Boolean, Versions("3+", tag=3, ignorable=True)] = False
