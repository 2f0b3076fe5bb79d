"""Plain data that travels from the workers to the driver, by the thousand.

Rules kept here
- A frozen dataclass with slots is pickled by code of Python's that looks up its fields each time, and takes longer than
  making one. `travelling` pickles it as its class and its values, in the order in which the class takes them.
"""

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Data = TypeVar("Data", bound=DataclassInstance)
else:
    Data = TypeVar("Data")


def travelling(plain: type[Data]) -> type[Data]:
    """A dataclass of several fields, pickled as a call of itself."""
    values = attrgetter(*(one.name for one in fields(plain)))

    def reduce(self: Data) -> tuple[Any, ...]:
        return plain, values(self)

    plain.__reduce__ = reduce  # type: ignore[method-assign,assignment]
    return plain
