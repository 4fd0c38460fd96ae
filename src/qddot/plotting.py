"""Figures drawn without a screen: made here, filled elsewhere, saved here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qddot.errors import CannotWrite

__all__ = ["PALETTE", "new_figure", "save_figure"]

PALETTE = ("#3b6fb6", "#d98032", "#5a9e52", "#8a6fb0", "#b5484a", "#7f7f7f", "#3f9fa3", "#c9a227")


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of this size in inches, on a canvas that needs no screen."""
    # matplotlib takes half a second to import
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Any, file: Path) -> None:
    """Write a figure in the format that the end of the file's name says, PNG without one."""
    try:
        figure.savefig(file, dpi=110, format=file.suffix.removeprefix(".") or "png")
    except (OSError, ValueError) as error:
        raise CannotWrite(file, getattr(error, "strerror", None) or str(error)) from error
