"""Why this broker has no delegation tokens, for the handlers of their APIs. Errors are those of Kafka without tokens.

A client without authentication gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, any other client gets
DELEGATION_TOKEN_AUTH_DISABLED.
"""

from slackwater.broker.connection import ANONYMOUS
from slackwater.broker.request_context import RequestContext
from slackwater.group.errors import Error


def refusal(context: RequestContext) -> Error:
    """Return the error of a request about tokens."""
    is_anonymous = context.principal == ANONYMOUS
    return Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if is_anonymous else Error.DELEGATION_TOKEN_AUTH_DISABLED


def time_of(error: Error) -> int:
    """Return the time of a token in a refused request."""
    return 0 if error is Error.DELEGATION_TOKEN_AUTH_DISABLED else -1
