"""Shows settings in logs, without secrets."""

import re
from typing import Final

from slackwater.settings import Value, format_value

HIDDEN: Final = "[hidden]"
_SECRET: Final = re.compile(
    r"password|secret|jaas|token|credential|(^|\.)key$|keystore\.key|key\.pem|certificate\.(chain|pem)"
)


def format_setting(name: str, value: Value) -> str:
    """Return a value as text; `[hidden]` for a secret, as in Java."""
    return HIDDEN if _SECRET.search(name) else format_value(value)
