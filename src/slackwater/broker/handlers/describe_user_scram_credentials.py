"""DescribeUserScramCredentials, v0: mechanisms and iterations of users, without secrets.

`kafka-configs --entity-type users` sends this request. No names, or null, means all users.
"""

from collections import Counter

from slackwater.broker.authentication.scram_credentials import NUMBERS
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error
from slackwater.security.acls import AclOperation
from slackwater.security.scram import ScramAlgorithm, ScramCredential
from slackwater.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(broker: BrokerState, context: RequestContext, request: DescribeUserScramCredentialsRequest) -> None:
    """Describe the requested users, or all."""
    if not broker.allows_cluster(context, AclOperation.DESCRIBE):
        context.respond(_denied())
        return
    users = broker.credentials.users()
    requested = Counter(user.name for user in request.users) if request.users else dict.fromkeys(sorted(users), 1)
    context.respond(
        DescribeUserScramCredentialsResponse(
            error_message=None, results=[_describe(name, times, users.get(name)) for name, times in requested.items()]
        )
    )


def error_response(
    request: DescribeUserScramCredentialsRequest, version: int, error: Error
) -> DescribeUserScramCredentialsResponse:
    """Return a response with only the error."""
    return DescribeUserScramCredentialsResponse(error_code=error, error_message=None)


def _denied() -> DescribeUserScramCredentialsResponse:
    error = Error.CLUSTER_AUTHORIZATION_FAILED
    result = DescribeUserScramCredentialsResult("", error, None)  # Kafka names no user
    return DescribeUserScramCredentialsResponse(error_code=error, error_message=None, results=[result])


def _describe(
    name: str, times: int, credentials: dict[ScramAlgorithm, ScramCredential] | None
) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            name,
            Error.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    if credentials is None:
        return DescribeUserScramCredentialsResult(
            name, Error.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {name}"
        )
    infos = [
        CredentialInfo(number, credentials[mechanism].iterations)
        for mechanism, number in NUMBERS.items()
        if mechanism in credentials
    ]
    return DescribeUserScramCredentialsResult(name, credential_infos=infos)
