"""A broker inside another program."""

from slackwater.broker.embedded.broker import EmbeddedBroker
from slackwater.broker.embedded.description import GroupSnapshot, MemberSnapshot

__all__ = ["EmbeddedBroker", "GroupSnapshot", "MemberSnapshot"]
