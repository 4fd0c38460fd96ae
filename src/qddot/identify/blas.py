"""Linear algebra on one thread, where matrices are too small to share.

A factorisation of a few thousand rows takes less time than threads of BLAS need to meet, and on a
machine that others use too they wait for each other: the plan of a motion took 17 times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

__all__ = ["on_one_blas_thread"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def on_one_blas_thread(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function with BLAS on one thread while it runs."""

    @wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return run
