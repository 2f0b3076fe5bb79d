"""The one way to write a small immutable record of the core.

Rules kept here
- A message is frozen to the type checker: assigning to a field is an error of `mypy --strict`.
- At run time it is a plain slotted dataclass, because `frozen=True` makes every construction three to four times
  dearer (each field goes through `object.__setattr__`), and a coordinator builds two messages per heartbeat.
- Equality and hash are by value; never change a message after it was hashed.
"""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(eq_default=True, frozen_default=True)
def message(cls: type[_T]) -> type[_T]:
    """Make `cls` a slotted value class, frozen by the type checker."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
