"""A broker inside another program: `with EmbeddedBroker() as broker: ...`."""

from slackwater.broker.embedded.broker import EmbeddedBroker
from slackwater.broker.embedded.description import GroupDescription, MemberDescription

__all__ = ["EmbeddedBroker", "GroupDescription", "MemberDescription"]
