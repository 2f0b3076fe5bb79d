"""ApiVersions, v0 to v4: the supported APIs and versions.

v1  throttle time
v3  flexible; the client's name and version; features: transaction.version 0 to 2, finalized as 2 (TX-56)
v4  a feature may begin at version 0

An unknown version gets a v0 response with UNSUPPORTED_VERSION and the versions of this API (KIP-511). Produce is listed
from v0, although v3 is the oldest supported version, because librdkafka looks for the older versions (KAFKA-18659).
"""

import re
from collections.abc import Iterable
from typing import Final

from slackwater.broker.broker_state import BrokerState
from slackwater.broker.connection import MAX_SOFTWARE_NAME
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.apis import API_VERSIONS, PRODUCE, Api
from slackwater.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

TRANSACTION_VERSION: Final = "transaction.version"
NEWEST_TRANSACTION_VERSION: Final = 2
FEATURES_EPOCH: Final = 0  # features never change here
_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(broker: BrokerState, context: RequestContext, request: ApiVersionsRequest) -> None:
    """List all APIs and their versions."""
    listed = response(request, context.version, broker.apis)
    if listed.error_code == Error.NONE:
        context.connection.client_software = request.client_software_name[:MAX_SOFTWARE_NAME]
    context.respond(listed)


def response(request: ApiVersionsRequest, version: int, apis: Iterable[Api]) -> ApiVersionsResponse:
    """Return all APIs and their versions, or an error."""
    if not API_VERSIONS.supports(version):
        return error_response(request, version, Error.UNSUPPORTED_VERSION)
    is_named = _SOFTWARE_NAME.fullmatch(request.client_software_name) and _SOFTWARE_NAME.fullmatch(
        request.client_software_version
    )
    if version >= 3 and not is_named:
        return error_response(request, version, Error.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[_api_version(api) for api in apis],
        supported_features=[SupportedFeatureKey(TRANSACTION_VERSION, 0, NEWEST_TRANSACTION_VERSION)],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(TRANSACTION_VERSION, NEWEST_TRANSACTION_VERSION, NEWEST_TRANSACTION_VERSION)
        ],
    )


def error_response(request: ApiVersionsRequest, version: int, error: Error) -> ApiVersionsResponse:
    """Return the error; for an unsupported version, with the supported versions."""
    api_keys = [_api_version(API_VERSIONS)] if error is Error.UNSUPPORTED_VERSION else []
    return ApiVersionsResponse(error_code=error, api_keys=api_keys)


def _api_version(api: Api) -> ApiVersion:
    min_version = 0 if api is PRODUCE else api.min_version
    return ApiVersion(api_key=api.key, min_version=min_version, max_version=api.latest_stable)
