"""Assignors by name.

Invariants:
- Kafka's short names and the Java class names of `partition.assignment.strategy` select the same assignors.
- A custom assignor is passed as an instance; there is no registration.
"""

from difflib import get_close_matches
from typing import Final

from slackwater.group.assignors.assignor import Assignor
from slackwater.group.assignors.range_assignor import RangeAssignor
from slackwater.group.assignors.round_robin import RoundRobinAssignor
from slackwater.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from slackwater.group.errors import UsageError

_JAVA_PACKAGE: Final = "org.apache.kafka.clients.consumer."
_BUILT_IN: Final[dict[str, type[Assignor]]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_BY_CLASS: Final = {f"{_JAVA_PACKAGE}{cls.__name__}": cls for cls in _BUILT_IN.values()}


def get_assignor(name: str | Assignor) -> Assignor:
    """Return the assignor with this name; an Assignor instance is returned as it is."""
    if isinstance(name, Assignor):
        return name
    assignor_class = _BUILT_IN.get(name) or _BY_CLASS.get(name)
    if assignor_class is None:
        known = (*_BUILT_IN, *_BY_CLASS)
        nearest = get_close_matches(name, known, n=1, cutoff=0.0)[0]
        raise UsageError(
            f"there is no assignor {name!r}; did you mean {nearest!r}? "
            f"Use one of {', '.join(_BUILT_IN)}, a Java class name such as {_JAVA_PACKAGE}RangeAssignor, "
            "or pass an instance of an Assignor subclass."
        )
    return assignor_class()
