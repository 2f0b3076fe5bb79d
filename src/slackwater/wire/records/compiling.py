"""How functions over arrays are compiled with numba; only modules that need numba import this one."""

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from numba import njit

DATA: Final = "Array(uint8, 1, 'C', readonly=True)"
"""Bytes that are only read, as a signature names them."""

P = ParamSpec("P")
R = TypeVar("R")


def compiled(signature: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile now, for these types alone; from the cache where a place for one can be written to."""

    def compile_it(function: Callable[P, R]) -> Callable[P, R]:
        try:
            return njit(signature, nogil=True, cache=True)(function)
        except RuntimeError:  # No locator available: neither this directory nor the user's cache can be written to.
            return njit(signature, nogil=True)(function)

    return compile_it
