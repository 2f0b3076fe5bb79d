"""AlterUserScramCredentials, v0: sets and deletes SCRAM credentials.

As in Kafka, a request changes one credential of a user. The salted password of the request is hashed before it is
stored. Error codes and messages are those of Kafka 4.3.
"""

from collections import Counter
from typing import Final

from slackwater.broker.authentication.scram_credentials import NUMBERS
from slackwater.broker.authorization import needs
from slackwater.broker.broker_state import BrokerState
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import BrokerError, Error
from slackwater.security.acls import AclOperation
from slackwater.security.scram import MIN_ITERATIONS, ScramAlgorithm, ScramCredential, credential_of_salted
from slackwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

_MECHANISMS: Final = {number: mechanism for mechanism, number in NUMBERS.items()}
MAX_ITERATIONS: Final = 16_384
_Key = tuple[str, ScramAlgorithm]


def handle(broker: BrokerState, context: RequestContext, request: AlterUserScramCredentialsRequest) -> None:
    """Change the credentials of the users that have no invalid change."""
    if not broker.allows_cluster(context, AclOperation.ALTER):
        context.respond(_error_for_all(request, Error.CLUSTER_AUTHORIZATION_FAILED, needs(AclOperation.ALTER)))
        return
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    counts = Counter(change.name for change in changes)
    results: dict[str, AlterUserScramCredentialsResult] = {}
    new: dict[_Key, ScramCredential] = {}
    deleted: list[_Key] = []
    for change in changes:
        result = results.setdefault(change.name, AlterUserScramCredentialsResult(change.name, Error.NONE, None))
        try:
            if counts[change.name] > 1:
                raise BrokerError(
                    Error.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            mechanism = _check(change)
            if isinstance(change, ScramCredentialUpsertion):
                new[change.name, mechanism] = credential_of_salted(
                    mechanism, change.salted_password, change.salt, change.iterations
                )
            elif broker.credentials.find(change.name, mechanism) is None:
                raise BrokerError(Error.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
            else:
                deleted.append((change.name, mechanism))
        except BrokerError as error:
            if not result.error_code:
                result.error_code, result.error_message = error.error, str(error)
    accepted = {name for name, result in results.items() if not result.error_code}
    try:
        broker.credentials.change(
            {key: credential for key, credential in new.items() if key[0] in accepted},
            [key for key in deleted if key[0] in accepted],
        )
    except OSError as error:
        for name in accepted:
            results[name] = AlterUserScramCredentialsResult(
                name, Error.KAFKA_STORAGE_ERROR, f"Disk error: {error.strerror}."
            )
    context.respond(AlterUserScramCredentialsResponse(results=list(results.values())))


def error_response(
    request: AlterUserScramCredentialsRequest, version: int, error: Error
) -> AlterUserScramCredentialsResponse:
    """Return the error for every user."""
    return _error_for_all(request, error, None)


def _error_for_all(
    request: AlterUserScramCredentialsRequest, error: Error, message: str | None
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys([change.name for change in request.deletions] + [new.name for new in request.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, error, message) for user in users]
    )


def _check(change: ScramCredentialDeletion | ScramCredentialUpsertion) -> ScramAlgorithm:
    """Return the mechanism of a valid change."""
    if not change.name:
        raise BrokerError(Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = _MECHANISMS.get(change.mechanism)
    if mechanism is None:
        raise BrokerError(Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialUpsertion):
        if change.iterations > MAX_ITERATIONS:
            raise BrokerError(Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if change.iterations < MIN_ITERATIONS:
            raise BrokerError(Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    return mechanism
