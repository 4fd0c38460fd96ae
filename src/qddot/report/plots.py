"""Plots of a report, as data for plotly: each is made where the record has its traces."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.display.plots import PALETTE
from qddot.evidence.record import Record, RecordTrace

__all__ = ["PLOTS", "Plot", "make_plots", "plain_text", "trace_with"]

Shape = tuple[int | None, ...]
"""Shape of an entry of a column; None is any length."""
_MOST_POINTS = 1200
_MOST_LINES = 8
_LINE = 40
"""Letters of a line of text in a plot."""
_DAMPED = 3.0
"""log₁₀ of the condition number of M above which inverses are damped."""
_MOST_MASS = 30.0
"""Times the smallest mass of a pose beyond which its ellipsoid is left open."""


@dataclass(frozen=True)
class Plot:
    """A plot: title, a sentence that says how to read it, the traces behind it, plotly's data."""

    title: str
    caption: str
    traces: tuple[str, ...]
    data: list[dict[str, Any]]
    layout: dict[str, Any]


def make_plots(record: Record) -> list[Plot]:
    """The plots that a record has traces for."""
    # a record may hold any numbers
    with np.errstate(all="ignore"):
        return [plot for make in PLOTS for plot in make(record)]


def plain_text(x: Any) -> Any:
    """Data of plotly in which no text is markup, which plotly reads in all that it shows.

    Long text is broken into lines, since plotly lets it stick out.
    """
    if isinstance(x, dict):
        return {name: plain_text(value) for name, value in x.items()}
    if isinstance(x, list):
        return [plain_text(value) for value in x]
    if not isinstance(x, str):
        return x
    lines = textwrap.wrap(x, _LINE) if len(x) > _LINE else [x]
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def trace_with(
    record: Record, name: str, columns: Mapping[str, Shape], labelled: bool = False
) -> RecordTrace | None:
    """The trace of a name if it has rows and these columns: traces of a user may have any.

    Args:
        record: The record.
        name: The name of the trace.
        columns: Shape of an entry of each column; None stands for any length.
        labelled: Whether each row needs a label.
    """
    trace = record.traces.get(name)
    if trace is None or not len(trace) or (labelled and not trace.labels):
        return None
    for column, shape in columns.items():
        found = trace.columns[column].shape[1:] if column in trace.columns else None
        if found is None or len(found) != len(shape) or 0 in found:
            return None
        if any(n is not None and n != m for n, m in zip(shape, found, strict=True)):
            return None
    return trace


def _numbers(x: np.ndarray, digits: int = 6) -> list[float | None]:
    """Numbers for JSON, rounded; those that are not finite are gaps."""
    return [float(f"{y:.{digits}g}") if np.isfinite(y) else None for y in np.asarray(x, float)]


def _thin(trace: RecordTrace) -> np.ndarray:
    """Rows that are drawn: all, or evenly spaced ones."""
    return np.unique(np.linspace(0, len(trace) - 1, min(len(trace), _MOST_POINTS)).astype(int))


def _line(name: str, x: np.ndarray, y: np.ndarray, colour: int, **more: Any) -> dict[str, Any]:
    line = {"color": PALETTE[colour % len(PALETTE)], "width": 1.5, **more.pop("line", {})}
    drawn = {"type": "scatter", "mode": "lines", "name": name, "line": line}
    return {**drawn, "x": _numbers(x), "y": _numbers(y), **more}


def _axes(x: str, y: str, **more: Any) -> dict[str, Any]:
    return {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}, **more}}


def _plot_condition_map(record: Record) -> Iterator[Plot]:
    """cond(M) over two joints, with the line of 1000."""
    trace = trace_with(record, "condition_map", {"x": (), "y": (), "condition": (None,)})
    if trace is None or not (trace.columns["condition"] > 0).any():
        return
    values = np.log10(np.where(trace.columns["condition"] > 0, trace.columns["condition"], np.nan))
    grid = {
        "x": _numbers(trace.columns["x"]),
        "y": _numbers(trace.columns["y"]),
        "z": [_numbers(row, 4) for row in values],
    }
    bar = {"title": {"text": "log₁₀ cond(M)"}, "thickness": 12}
    colours = {"type": "heatmap", "zsmooth": "best", "colorscale": "Viridis", "colorbar": bar}
    data: list[dict[str, Any]] = [{**grid, **colours}]
    # the line of 1000, where it crosses the map
    least, most = np.nanmin(values), np.nanmax(values)
    words = "Other joints at zero. Where cond(M) is above 1000, inverses are damped: "
    if least < _DAMPED < most:
        contours = {"coloring": "none", "start": _DAMPED, "end": _DAMPED, "size": 1}
        line = {"color": "white", "width": 2}
        data.append({**grid, "type": "contour", "contours": contours, "line": line})
        words += "on the brighter side of the white line."
    else:
        words += "everywhere here." if least >= _DAMPED else "nowhere here."
    layout = _axes(trace.units.get("x", ""), trace.units.get("y", ""))
    yield Plot("Condition number of the mass matrix", words, ("condition_map",), data, layout)


def _plot_mass_ellipsoids(record: Record) -> Iterator[Plot]:
    """The mass felt at the tip by direction, a line a pose."""
    trace = trace_with(record, "mass_ellipsoids", {"angle": (), "mass": (None,)})
    if trace is None:
        return
    angle, mass = trace.columns["angle"], trace.columns["mass"]
    data = [
        {
            "type": "scatterpolar",
            "mode": "lines",
            "name": "neutral" if k == 0 else f"pose {k}",
            "theta": _numbers(angle),
            "r": _numbers(
                np.where(mass[:, k] < _MOST_MASS * np.nanmin(mass[:, k]), mass[:, k], np.nan)
            ),
            "line": {"color": PALETTE[k % len(PALETTE)], "width": 1.5},
        }
        for k in range(mass.shape[1])
        if np.isfinite(mass[:, k]).any()
    ]
    layout = {"polar": {"radialaxis": {"ticksuffix": " kg", "angle": 45}}}
    words = (
        "Felt at the tip along each direction of the x–z plane (0° is x, 90° up), a line a pose. "
        "Gaps: directions in which the tip can hardly move."
    )
    yield Plot("Mass ellipsoids of the tip", words, (trace.name,), data, layout)


def _plot_residuals(record: Record) -> Iterator[Plot]:
    """Residuals of the invariants, worst state each."""
    checks = [n for n in record.traces if n.startswith("check/") and not n.endswith("definite")]
    names = [n for n in checks if trace_with(record, n, {"residual": ()})]
    if not names:
        return
    worst = np.array([np.abs(record.traces[n].columns["residual"]).max() for n in names])
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [n.removeprefix("check/").replace("_", " ") for n in names],
            "x": _numbers(np.maximum(worst, 1e-18), 3),
            "marker": {"color": PALETTE[0]},
        }
    ]
    layout = _axes("largest residual", "")
    layout["xaxis"] |= {"type": "log", "exponentformat": "power"}
    layout["shapes"] = [
        {"type": "line", "x0": 1e-9, "x1": 1e-9, "y0": 0, "y1": 1, "yref": "paper",
         "line": {"color": PALETTE[4], "dash": "dash"}}
    ]  # fmt: skip
    words = "Each invariant at 100 random states and more; the dashed line is the bound 10⁻⁹."
    yield Plot("Invariants", words, tuple(names), data, layout)


def _plot_energy(record: Record) -> Iterator[Plot]:
    """Energy errors of free swings by integrator."""
    swings = [n for n in record.traces if n.startswith("integrator/") and n.endswith("/energy")]
    names = [n for n in swings if trace_with(record, n, {"time": (), "error": ()})]
    data = []
    for k, name in enumerate(names):
        trace = record.traces[name]
        rows = _thin(trace)
        error = np.maximum(np.abs(trace.columns["error"][rows]), 1e-17)
        label = name.removeprefix("integrator/").removesuffix("/energy")
        data.append(_line(label, trace.columns["time"][rows], error, k))
    if data:
        layout = _axes("time, s", "|energy error| / peak kinetic energy", type="log")
        layout["yaxis"]["exponentformat"] = "power"
        words = (
            "A free swing without losses. A line that climbs without end is an integrator to avoid."
        )
        yield Plot("Energy of a free swing", words, tuple(names), data, layout)


def _plot_contact(record: Record) -> Iterator[Plot]:
    """Normal force and gap of the contact test."""
    trace = trace_with(record, "contact", {"time": (), "normal_force": (), "gap": ()})
    if trace is None:
        return
    rows = _thin(trace)
    time, gap = trace.columns["time"][rows], trace.columns["gap"][rows]
    data = [
        _line("normal force, N", time, trace.columns["normal_force"][rows], 0),
        _line("gap, mm", time, 1e3 * gap, 1, yaxis="y2"),
    ]
    # both from zero, so that rounding errors do not fill the plot
    layout = _axes("time, s", "normal force, N", rangemode="tozero")
    depth = 1.1e3 * float(np.nanmax(np.abs(gap), initial=1e-4).clip(max=1e300))
    # the next of 1, 2, 5, 10 … is the end of the axis, and has a tick
    power = 10.0 ** math.floor(math.log10(depth))
    end = next(k * power for k in (1, 2, 5, 10) if k * power >= depth)
    layout["yaxis2"] = {
        "title": {"text": "gap, mm"},
        "overlaying": "y",
        "side": "right",
        "range": [-end, end],
        "tickvals": _numbers(np.linspace(-end, end, 5)),
        "showgrid": False,
    }
    words = "The contact test: the force that the surface gives, and how far bodies are apart."
    yield Plot("Contact", words, ("contact",), data, layout)


def _plot_tracking(record: Record) -> Iterator[Plot]:
    """RMS tracking errors over time by law."""
    shapes: dict[str, Shape] = {"time": (), "error": (None,), "reference": (None,)}
    names = [n for n in record.traces if trace_with(record, n, shapes)]
    data = []
    for k, name in enumerate(names):
        trace = record.traces[name]
        rows = _thin(trace)
        error = np.sqrt(np.mean(trace.columns["error"][rows] ** 2, axis=1))
        label = name.removeprefix("control/").replace("_", " ")
        data.append(_line(label, trace.columns["time"][rows], 1e3 * error, k))
    if data:
        unit = record.traces[names[0]].units.get("error", "rad or m")
        small = " or ".join(f"m{part}" for part in unit.split(" or "))
        layout = _axes("time, s", f"RMS error over joints, {small}")
        words = "Reference against encoders of the virtual hardware, all joints."
        yield Plot("Tracking (virtual)", words, tuple(names), data, layout)


def _plot_torques(record: Record) -> Iterator[Plot]:
    """Measured against predicted torques, joint by joint."""
    shapes: dict[str, Shape] = {"time": (), "measured": (None,), "predicted": (None,)}
    found = (trace_with(record, f"{x}/torques", shapes) for x in ("hardware", "identification"))
    trace = next(filter(None, found), None)
    if trace is None or trace.columns["measured"].shape != trace.columns["predicted"].shape:
        return
    rows = _thin(trace)
    time = trace.columns["time"][rows]
    measured, model = trace.columns["measured"][rows], trace.columns["predicted"][rows]
    # rows at standstill were left out of the fit, and are gaps here
    unused = (measured == 0.0) & (model == 0.0)
    measured, model = (np.where(unused, np.nan, x) for x in (measured, model))
    joints = trace.units.get("joints", "").split(",")
    for j in range(min(measured.shape[1], _MOST_LINES)):
        name = joints[j] if j < len(joints) and joints[j] else f"joint {j + 1}"
        data = [
            _line("measured", time, measured[:, j], 5),
            _line("model", time, model[:, j], 4),
            _line("rest", time, measured[:, j] - model[:, j], 0, line={"width": 1}),
        ]
        words = "The log against the model; the rest is what the model does not explain."
        title = f"Torque of {name}{record.mark_virtual(trace.step)}"
        axes = _axes("time, s", f"torque, {trace.units.get('measured', 'N m or N')}")
        yield Plot(title, words, (trace.name,), data, axes)


def _plot_budget(record: Record) -> Iterator[Plot]:
    """The terms of the torque by joint."""
    trace = trace_with(record, "torque_budget", {}, labelled=True)
    if trace is None or any(values.ndim > 1 for values in trace.columns.values()):
        return
    data = [
        {
            "type": "bar",
            "name": term,
            "x": list(trace.labels),
            "y": _numbers(values, 4),
            "marker": {"color": PALETTE[k % len(PALETTE)]},
        }
        for k, (term, values) in enumerate(trace.columns.items())
    ]
    unit = next(iter(trace.units.values()), "N m or N")
    layout = {**_axes("", f"RMS of the term, {unit}"), "barmode": "group"}
    words = "Where the torque of the held-out motion goes, by the identified model."
    title = f"Torque budget{record.mark_virtual(trace.step)}"
    yield Plot(title, words, (trace.name,), data, layout)


def _plot_identification(record: Record) -> Iterator[Plot]:
    """Residual by joint before and after identification."""
    names = {"factory": "file as it is", "identified": "identified"}
    shapes: dict[str, Shape] = dict.fromkeys(names, ())
    trace = trace_with(record, "identification/residuals", shapes, labelled=True)
    if trace is None:
        return
    data = [
        {
            "type": "bar",
            "name": names[c],
            "x": list(trace.labels),
            "y": _numbers(100.0 * trace.columns[c], 3),
            "marker": {"color": PALETTE[k]},
        }
        for k, c in enumerate(names)
    ]
    layout = {**_axes("", "residual of the torque, %"), "barmode": "group"}
    words = "RMS of measured less predicted torque over RMS of the measured one, held-out part."
    title = f"Identification{record.mark_virtual(trace.step)}"
    yield Plot(title, words, (trace.name,), data, layout)


def _plot_motion(record: Record) -> Iterator[Plot]:
    """Coordinates and energies of a simulated motion."""
    for name in ("motion", "free_motion"):
        trace = trace_with(record, name, {"time": (), "v": (None,)})
        if trace is None:
            continue
        rows = _thin(trace)
        time, v = trace.columns["time"][rows], trace.columns["v"][rows]
        fastest = np.argsort(-np.nan_to_num(np.abs(v)).max(axis=0))[:_MOST_LINES]
        joints = trace.units.get("joints", "").split(",")
        names = (
            joints
            if len(joints) == v.shape[1]
            else [f"velocity {j + 1}" for j in range(v.shape[1])]
        )
        data = [_line(names[j], time, v[:, j], k) for k, j in enumerate(sorted(fastest))]
        layout = _axes("time, s", f"velocity, {trace.units.get('v', 'rad/s or m/s')}")
        words = "The fastest velocities of the motion."
        yield Plot(name.replace("_", " ").capitalize(), words, (name,), data, layout)
        parts = ("kinetic", "potential", "residual")
        shapes: dict[str, Shape] = dict.fromkeys(("time", *parts), ())
        energy = trace_with(record, f"{name}/energy", shapes)
        if energy is not None:
            rows = _thin(energy)
            clock = energy.columns["time"][rows]
            data = [_line(p, clock, energy.columns[p][rows], k) for k, p in enumerate(parts)]
            words = "Where the energy is; the residual is what nothing accounts for."
            yield Plot("Energy ledger", words, (energy.name,), data, _axes("time, s", "energy, J"))


def _plot_sizing(record: Record) -> Iterator[Plot]:
    """Largest torques against ratings."""
    names = ("static", "dynamic", "rating")
    trace = trace_with(record, "torques", dict.fromkeys(names, ()), labelled=True)
    if trace is None:
        return
    data = [
        {"type": "bar", "name": c, "x": list(trace.labels), "y": _numbers(trace.columns[c], 4),
         "marker": {"color": PALETTE[k]}}
        for k, c in enumerate(names)
    ]  # fmt: skip
    layout = {**_axes("", "torque, N m or N"), "barmode": "group"}
    words = "The largest torque at rest and moving, beside the rating of the joint."
    yield Plot("Torques and ratings", words, ("torques",), data, layout)


PLOTS: tuple[Callable[[Record], Iterator[Plot]], ...] = (
    _plot_identification,
    _plot_torques,
    _plot_tracking,
    _plot_budget,
    _plot_condition_map,
    _plot_mass_ellipsoids,
    _plot_residuals,
    _plot_energy,
    _plot_contact,
    _plot_motion,
    _plot_sizing,
)
"""Makers of plots, in the order of the page."""
