"""The file descriptors of the process: how many are left for new partitions.

Invariants:
- Every partition needs one descriptor for as long as the broker runs, and one more for each closed segment.
- A tenth of the limit is kept for connections, closed segments and flushes.
"""

import errno
import os
import resource
from typing import Final

from slackwater.group.errors import BrokerError, Error

_RESERVED_SHARE: Final = 10
_OPEN_DESCRIPTORS: Final = "/proc/self/fd"


def check_descriptors(partitions: int) -> None:
    """Raise `BrokerError` if the process has too few descriptors for this number of new partitions."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return
    available = max(limit - limit // _RESERVED_SHARE - _open_descriptors(limit), 0)
    if partitions > available:
        raise BrokerError(
            Error.POLICY_VIOLATION,
            f"{partitions} partitions need {partitions} file descriptors, but the broker's limit of {limit} leaves "
            f"{available}. Use fewer partitions, or raise the limit (ulimit -n) and restart the broker.",
        )


def _open_descriptors(limit: int) -> int:
    try:
        return len(os.listdir(_OPEN_DESCRIPTORS))
    except OSError as error:
        # Without /proc the creation itself may fail.
        return limit if error.errno in (errno.EMFILE, errno.ENFILE) else 0
