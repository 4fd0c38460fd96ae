"""Plots of a report, as data for plotly: each is made where the record has its traces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from qddot.display.plots import PALETTE
from qddot.evidence.record import Record, RecordTrace

__all__ = ["PLOTS", "Plot", "make_plots"]

_MOST_POINTS = 1200
_MOST_LINES = 8
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
    return [plot for make in PLOTS for plot in make(record)]


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
    trace = record.traces.get("condition_map")
    if trace is None:
        return
    values = np.log10(trace.columns["condition"])
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
    layout = _axes(trace.units["x"], trace.units["y"])
    yield Plot("Condition number of the mass matrix", words, ("condition_map",), data, layout)


def _plot_mass_ellipsoids(record: Record) -> Iterator[Plot]:
    """The mass felt at the tip by direction, a line a pose."""
    trace = record.traces.get("mass_ellipsoids")
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
    names = [n for n in record.traces if n.startswith("check/") and not n.endswith("definite")]
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
    names = [n for n in record.traces if n.startswith("integrator/") and n.endswith("/energy")]
    data = []
    for k, name in enumerate(names):
        trace = record.traces[name]
        rows = _thin(trace)
        error = np.maximum(np.abs(trace.columns["error"][rows]), 1e-17)
        label = name.split("/")[1]
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
    trace = record.traces.get("contact")
    if trace is None:
        return
    time = trace.columns["time"]
    data = [
        _line("normal force, N", time, trace.columns["normal_force"], 0),
        _line("gap, mm", time, 1e3 * trace.columns["gap"], 1, yaxis="y2"),
    ]
    # both from zero, so that rounding errors do not fill the plot
    layout = _axes("time, s", "normal force, N", rangemode="tozero")
    depth = 1.1e3 * float(np.nanmax(np.abs(trace.columns["gap"]), initial=1e-4))
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
    names = [
        n
        for n, trace in record.traces.items()
        if {"time", "error", "reference"} <= set(trace.columns)
    ]
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
    trace = record.traces.get("hardware/torques") or record.traces.get("identification/torques")
    if trace is None:
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
    trace = record.traces.get("torque_budget")
    if trace is None:
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
    trace = record.traces.get("identification/residuals")
    if trace is None:
        return
    names = {"factory": "file as it is", "identified": "identified"}
    data = [
        {
            "type": "bar",
            "name": names.get(c, c),
            "x": list(trace.labels),
            "y": _numbers(100.0 * trace.columns[c], 3),
            "marker": {"color": PALETTE[k]},
        }
        for k, c in enumerate(("factory", "identified"))
        if c in trace.columns
    ]
    layout = {**_axes("", "residual of the torque, %"), "barmode": "group"}
    words = "RMS of measured less predicted torque over RMS of the measured one, held-out part."
    title = f"Identification{record.mark_virtual(trace.step)}"
    yield Plot(title, words, (trace.name,), data, layout)


def _plot_motion(record: Record) -> Iterator[Plot]:
    """Coordinates and energies of a simulated motion."""
    for name in ("motion", "free_motion"):
        trace = record.traces.get(name)
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
        energy = record.traces.get(f"{name}/energy")
        if energy is not None:
            parts = [p for p in ("kinetic", "potential", "residual") if p in energy.columns]
            clock = energy.columns["time"][rows]
            data = [_line(p, clock, energy.columns[p][rows], k) for k, p in enumerate(parts)]
            words = "Where the energy is; the residual is what nothing accounts for."
            yield Plot("Energy ledger", words, (energy.name,), data, _axes("time, s", "energy, J"))


def _plot_sizing(record: Record) -> Iterator[Plot]:
    """Largest torques against ratings."""
    trace = record.traces.get("torques")
    if trace is None or "dynamic" not in trace.columns:
        return
    data = [
        {"type": "bar", "name": c, "x": list(trace.labels), "y": _numbers(trace.columns[c], 4),
         "marker": {"color": PALETTE[k]}}
        for k, c in enumerate(("static", "dynamic", "rating"))
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
