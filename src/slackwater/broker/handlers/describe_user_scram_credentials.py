"""DescribeUserScramCredentials, v0: there are no credentials.

`kafka-configs --entity-type users` sends this request.
"""

from collections import Counter

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(broker: Broker, context: RequestContext, request: DescribeUserScramCredentialsRequest) -> None:
    """Return RESOURCE_NOT_FOUND for every user."""
    requested = Counter(user.name for user in request.users or ())
    context.respond(
        DescribeUserScramCredentialsResponse(
            error_message=None, results=[_unknown(name, times) for name, times in requested.items()]
        )
    )


def error_response(
    request: DescribeUserScramCredentialsRequest, version: int, error: Error
) -> DescribeUserScramCredentialsResponse:
    """Return a response with only the error."""
    return DescribeUserScramCredentialsResponse(error_code=error, error_message=None)


def _unknown(name: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            name,
            Error.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    return DescribeUserScramCredentialsResult(
        name, Error.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {name}"
    )
