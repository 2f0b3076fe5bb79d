"""Errors as Spark's user gets to see them: a sentence, not a traceback.

Rules kept here
- What this library raises on purpose (`SlackwaterError`) says all there is to say. Spark would put the traceback first,
  and its first line is the one that people read.
- Anything else is a fault of ours, and keeps its traceback.

Spark asks the environment whether to hide a traceback when it writes an exception down. The process that failed ends
with that: nothing that comes later is hidden.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from slackwater.group.errors import SlackwaterError

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


@contextmanager
def as_user_error() -> Iterator[None]:
    """Let an error of this library out without its traceback."""
    try:
        yield
    except SlackwaterError:
        os.environ[HIDE_TRACEBACK] = "1"
        raise
