"""The admin client: topics, settings and consumer groups of any cluster."""

from slackwater.client.admin.admin import Admin
from slackwater.client.admin.descriptions import (
    ConfigEntry,
    GroupDescription,
    GroupListing,
    GroupOffset,
    MemberDescription,
    OffsetChange,
    RemovedMember,
)
from slackwater.client.admin.reset import ResetTo

__all__ = [
    "Admin",
    "ConfigEntry",
    "GroupDescription",
    "GroupListing",
    "GroupOffset",
    "MemberDescription",
    "OffsetChange",
    "RemovedMember",
    "ResetTo",
]
