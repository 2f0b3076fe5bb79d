"""AlterUserScramCredentials, v0: there is no SASL, so there are no credentials.

A credential that is deleted is not there: RESOURCE_NOT_FOUND, as in Kafka.
"""

from typing import Final

from slackwater.broker.broker import Broker
from slackwater.broker.connection import RequestContext
from slackwater.group.errors import Error
from slackwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

NO_SASL: Final = "This broker has no SASL, so it stores no credentials."
_UNKNOWN: Final = "Attempt to delete a user credential that does not exist"


def handle(broker: Broker, context: RequestContext, request: AlterUserScramCredentialsRequest) -> None:
    """Reject every change."""
    results = {
        deletion.name: AlterUserScramCredentialsResult(deletion.name, Error.RESOURCE_NOT_FOUND, _UNKNOWN)
        for deletion in request.deletions
    }
    results |= {
        upsertion.name: AlterUserScramCredentialsResult(upsertion.name, Error.UNSUPPORTED_SASL_MECHANISM, NO_SASL)
        for upsertion in request.upsertions
    }
    context.respond(AlterUserScramCredentialsResponse(results=list(results.values())))


def error_response(
    request: AlterUserScramCredentialsRequest, version: int, error: Error
) -> AlterUserScramCredentialsResponse:
    """Return the error for every user."""
    users = dict.fromkeys([change.name for change in request.deletions] + [new.name for new in request.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, error, None) for user in users]
    )
