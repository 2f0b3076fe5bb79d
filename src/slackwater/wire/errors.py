"""The error of this package."""


class WireError(Exception):
    """Bytes that cannot be decoded, or a value that cannot be encoded."""
