"""Settings whose value is a Python function: serializers and deserializers."""

from collections.abc import Callable
from typing import Any, Final

from slackwater.group.errors import UsageError

SerializeFunction = Callable[[Any], bytes | str | None]
DeserializeFunction = Callable[[bytes], Any]
_EXAMPLES: Final = {"deserializer": "bytes.decode", "serializer": "str.encode"}


def take_function(settings: dict[str, object], name: str) -> Callable[[Any], Any] | None:
    """Remove a function from the settings and return it; None if it is not set."""
    function = settings.pop(name, None)
    if function is None:
        return None
    example = _EXAMPLES[name.rpartition(".")[2]]
    if isinstance(function, str):
        raise UsageError(f"{name} = {function} is a name; pass a Python function of one argument, such as {example}.")
    if not callable(function):
        kind = type(function).__name__
        raise UsageError(f"{name} is {kind}; pass a Python function of one argument, such as {example}.")
    return function
