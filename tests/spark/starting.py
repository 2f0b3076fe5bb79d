"""Starts a streaming query again if Spark could not connect to the new Python process of its source.

Spark allows that process ten seconds. It also takes the first connection to its port for this process: a client of
another test, whose stopped broker had the same port, may be faster. Both fail with the same error before the first
batch.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from tests.spark.application import NO_CONNECTION

ATTEMPTS: Final = 3
INITIALIZED_S: Final = 60.0  # then the test's own deadline decides
_POLL_S: Final = 0.01


@contextmanager
def starts_repeated() -> Iterator[None]:
    """Let `DataStreamWriter.start` return when the query is initialized, and repeat it after this error."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    start = DataStreamWriter.start

    def start_again(writer: DataStreamWriter, *arguments: Any, **options: Any) -> Any:
        for _ in range(ATTEMPTS):
            query = start(writer, *arguments, **options)
            deadline = time.monotonic() + INITIALIZED_S
            while query.isActive and str(query.status["message"]).startswith("Initializing"):
                if time.monotonic() > deadline:
                    return query
                time.sleep(_POLL_S)
            if query.isActive or NO_CONNECTION not in str(query.exception()):
                return query
        return query

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DataStreamWriter, "start", start_again)
        yield
