"""Compiles functions over arrays with numba. Import it only where numba is needed."""

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from numba import njit

DATA: Final = "Array(uint8, 1, 'C', readonly=True)"
"""The type of read-only bytes in a signature."""

P = ParamSpec("P")
R = TypeVar("R")


def compiled(signature: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function for one signature, at once, or load it from numba's cache. It runs without the GIL."""

    def compile_function(function: Callable[P, R]) -> Callable[P, R]:
        try:
            return njit(signature, nogil=True, cache=True)(function)
        except RuntimeError:  # "no locator available": neither this directory nor the user's cache is writable
            return njit(signature, nogil=True)(function)

    return compile_function
