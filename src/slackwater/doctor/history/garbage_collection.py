"""Python's garbage collector in Spark's workers, which Spark reuses for other tasks."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Switch the garbage collector off, and restore it afterwards.

    Rows have no reference cycles, and scanning millions of them takes as long as creating them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
