"""Figures drawn without a screen: made here, filled elsewhere, saved here."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

from qddot.errors import CannotWrite

__all__ = ["PALETTE", "new_figure", "save_figure", "widen_axis"]

PALETTE = ("#3b6fb6", "#d98032", "#5a9e52", "#8a6fb0", "#b5484a", "#7f7f7f", "#3f9fa3", "#c9a227")


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of this size in inches, on a canvas that needs no screen."""
    # matplotlib takes half a second to import
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _figure_class()(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@cache
def _figure_class() -> type:
    """Figures that notebooks show as pictures, without pyplot."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            self.savefig(content, dpi=80, format="png")
            return content.getvalue()

    return NotebookFigure


def widen_axis(axes: Any, least: float) -> None:
    """Give the y axis a least span, so that rounding errors do not fill the panel."""
    low, high = axes.get_ylim()
    if high - low < least:
        middle = 0.5 * (low + high)
        axes.set_ylim(middle - 0.5 * least, middle + 0.5 * least)


def save_figure(figure: Any, file: Path) -> None:
    """Write a figure in the format that the end of the file's name says, PNG without one."""
    try:
        figure.savefig(file, dpi=110, format=file.suffix.removeprefix(".") or "png")
    except (OSError, ValueError) as error:
        raise CannotWrite(file, getattr(error, "strerror", None) or str(error)) from error
