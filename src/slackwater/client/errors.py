"""What goes wrong between a client and its cluster.

Rules kept here
- One sentence each: what was wrong, what was seen, what to do.
- What a broker answers is a `BrokerError`; what is raised here never reached a broker, or never came back.
"""

from slackwater.group.errors import SlackwaterError


class NetworkError(SlackwaterError):
    """No connection could be made, or it was lost before the answer came; asking again may succeed."""


class ClientTimeoutError(SlackwaterError):
    """The time given to an operation is over."""


class UnsupportedVersionError(SlackwaterError):
    """The broker speaks no version of a request that we can write."""


class ClientClosedError(SlackwaterError):
    """The client was closed."""
