"""A broker inside another program: `with Broker() as broker: ...`."""

from slackwater.broker.embedded.broker import Broker
from slackwater.broker.embedded.description import GroupDescription, MemberDescription

__all__ = ["Broker", "GroupDescription", "MemberDescription"]
