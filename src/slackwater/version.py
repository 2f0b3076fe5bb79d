"""The version, importable without the rest of the package."""

__version__ = "0.2.0"
