"""Catalogue functions on Dask arrays: lazy, by chunks, on workers that compile for themselves."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["apply_lazily", "is_lazy"]


def is_lazy(x: Any) -> bool:
    """Whether an array is a Dask array."""
    return type(x).__module__.split(".")[0] == "dask"


def apply_lazily(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    inputs: Sequence[tuple[int, ...]],
    outputs: Sequence[tuple[int, ...]],
) -> Any:
    """A function of arrays with these core shapes on Dask arrays; core axes become one chunk."""
    dask_array = importlib.import_module("dask.array")
    names = iter(f"axis{k}" for k in range(100))
    sizes: dict[str, int] = {}

    def signature_side(shapes: Sequence[tuple[int, ...]], measured: bool) -> str:
        parts = []
        for shape in shapes:
            axes = [next(names) for _ in shape]
            sizes.update(zip(axes, shape, strict=True) if measured else ())
            parts.append("(" + ",".join(axes) + ")")
        return ",".join(parts)

    # a gufunc signature with an own name for each core axis
    signature = f"{signature_side(inputs, False)}->{signature_side(outputs, True)}"
    dtypes = [float] * len(outputs)
    return dask_array.apply_gufunc(
        function,
        signature,
        *arrays,
        output_dtypes=dtypes if len(dtypes) > 1 else float,
        output_sizes=sizes,
        allow_rechunk=True,
    )
