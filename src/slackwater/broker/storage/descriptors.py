"""The file descriptors of the process: whether enough are left for new partitions.

Invariants:
- Every partition needs one descriptor for as long as the broker runs, and one more for each closed segment.
- Some descriptors are kept for connections, closed segments and flushes.
"""

import contextlib
import os
import resource
from typing import Final

from slackwater.broker.storage.log.files import close_all
from slackwater.group.errors import BrokerError, Error

_RESERVED_SHARE: Final = 10
_MAX_RESERVED: Final = 64


def check_descriptors(partitions: int) -> None:
    """Raise `BrokerError` if the process has too few descriptors for this number of new partitions."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    reserved = min(limit // _RESERVED_SHARE, _MAX_RESERVED)
    available = max(_count_free(partitions + reserved) - reserved, 0)
    if partitions > available:
        raise BrokerError(
            Error.POLICY_VIOLATION,
            f"{partitions} partitions need {partitions} file descriptors, but the broker's limit of {limit} leaves "
            f"{available}. Use fewer partitions, or raise the limit (ulimit -n) and restart the broker.",
        )


def _count_free(needed: int) -> int:
    """Return how many descriptors are free, at most `needed`. /proc/self/fd takes much longer with many open files."""
    descriptors: list[int] = []
    with contextlib.suppress(OSError):
        descriptors.append(os.open(os.devnull, os.O_RDONLY))
        while len(descriptors) < needed:
            descriptors.append(os.dup(descriptors[0]))
    close_all(descriptors)
    return len(descriptors)
