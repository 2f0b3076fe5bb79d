"""Hides the traceback of expected errors from Spark's users.

Spark puts the traceback before the message, and users read the first line. An error that this library raises on purpose
(`SlackwaterError`) has a complete message and needs no traceback. Any other exception keeps its traceback.

Spark reads the environment variable when it serializes the exception. The process ends afterwards, so nothing else is
hidden.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from slackwater.group.errors import SlackwaterError

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


@contextmanager
def as_user_error() -> Iterator[None]:
    """Hide the traceback of a `SlackwaterError` that leaves this context."""
    try:
        yield
    except SlackwaterError:
        os.environ[HIDE_TRACEBACK] = "1"
        raise
