"""ApiVersions, v0 to v4: the supported APIs and versions.

v1  throttle time
v3  flexible; the client's name and version; features, of which there are none
v4  a feature may begin at version 0

An unknown version gets a v0 response with UNSUPPORTED_VERSION and the versions of this API (KIP-511). Produce is listed
from v0, although v3 is the oldest supported version, because librdkafka looks for the old ones (KAFKA-18659).
"""

import re
from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.apis import API_VERSIONS, PRODUCE, Api
from slackwater.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> None:
    """List all APIs and their versions."""
    if not API_VERSIONS.supports(context.version):
        context.respond(error_response(request, context.version, Error.UNSUPPORTED_VERSION))
        return
    named = _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    if context.version >= 3 and not named:
        context.respond(error_response(request, context.version, Error.INVALID_REQUEST))
        return
    context.respond(ApiVersionsResponse(api_keys=[_row(api) for api in broker.apis]))


def error_response(request: ApiVersionsRequest, version: int, error: Error) -> ApiVersionsResponse:
    """Return the error; for an unsupported version, with the supported versions."""
    rows = [_row(API_VERSIONS)] if error is Error.UNSUPPORTED_VERSION else []
    return ApiVersionsResponse(error_code=error, api_keys=rows)


def _row(api: Api) -> ApiVersion:
    first = 0 if api is PRODUCE else api.min_version
    return ApiVersion(api_key=api.key, min_version=first, max_version=api.latest_stable)
