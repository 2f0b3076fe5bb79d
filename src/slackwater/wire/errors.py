"""The one error of this package: bytes that are not what they should be, or a value that no bytes can hold."""


class WireError(Exception):
    """The message says what was read or written, what was seen, and what was expected."""
