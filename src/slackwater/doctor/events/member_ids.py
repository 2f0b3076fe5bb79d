"""Ids that the coordinator generates for dynamic members: the client id and a UUID."""

import re
from typing import Final

_UUID: Final = r"-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_UUID_SUFFIX: Final = re.compile(_UUID)
_SUFFIX_LENGTH: Final = 37
SPARK_PATTERN: Final = "^(.+)" + _UUID
"""Group 1 is the client id."""
ARROW_PATTERN: Final = "^(?P<client>.+)" + _UUID


def client_of_member(member: str) -> str | None:
    """Return the client id that a generated member id begins with; None for other ids."""
    length = len(member) - _SUFFIX_LENGTH
    return member[:length] if length > 0 and _UUID_SUFFIX.match(member, length) else None
