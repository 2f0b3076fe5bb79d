"""Errors between a client and its cluster.

A broker's error code is raised as `BrokerError`. The errors below occur before a request reaches a broker, or when no
response arrives.
"""

from slackwater.group.errors import PeerError, SlackwaterError


class NetworkError(SlackwaterError):
    """A connection could not be opened, or was lost before the response arrived. A retry may succeed."""


class ResponseTooLargeError(PeerError):
    """A broker announced a larger response than its request allows. The connection was closed."""


class ClientTimeoutError(SlackwaterError):
    """An operation did not complete within its timeout."""


class UnsupportedVersionError(SlackwaterError):
    """The broker supports no version of a request that this client can send."""


class ClientClosedError(SlackwaterError):
    """The client was closed."""
