"""The picture of a robot in a report: bones between joints, and boxes that have its inertias."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from qddot.display.markup import Markup, element
from qddot.display.plots import PALETTE
from qddot.evidence.record import RecordTrace

__all__ = ["robot_picture"]

_SIZE = 420.0
_VIEW = np.array([[-0.7071, 0.7071, 0.0], [0.3536, 0.3536, -0.8660]])
"""Rows: world directions that go right and down on the page, seen from above at 30°."""


def robot_picture(trace: RecordTrace) -> Markup | None:
    """SVG of a trace `picture`: a polygon a box, a line a bone, a dot a joint; names as tips.

    None where a joint has no place, or a parent that is no body.
    """
    origin, com = trace.columns["origin"], trace.columns["com"]
    edges, axes = trace.columns["edges"], trace.columns["axes"].reshape(-1, 3, 3)
    known = np.isin(trace.columns["parent"], np.arange(-1, len(trace)))
    if not (np.isfinite(origin).all() and known.all()):
        return None
    parent = trace.columns["parent"].astype(int)
    corners = np.array(list(product((-0.5, 0.5), repeat=3)))
    boxes = [c + (corners * e) @ R.T for c, e, R in zip(com, edges, axes, strict=True)]
    whole = np.concatenate([origin, np.zeros((1, 3)), *(b for b in boxes if np.isfinite(b).all())])
    flat = whole @ _VIEW.T
    low, high = flat.min(axis=0), flat.max(axis=0)
    scale = 0.9 * _SIZE / max(float((high - low).max()), 1e-6)
    middle = 0.5 * (low + high)

    def place(points: np.ndarray) -> np.ndarray:
        return (points @ _VIEW.T - middle) * scale + 0.5 * _SIZE

    parts = []
    for k, box in enumerate(boxes):
        if not np.isfinite(box).all():
            continue
        outline = place(box)
        try:
            outline = outline[ConvexHull(outline).vertices]
        except (QhullError, ValueError):
            continue
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in outline)
        colour = PALETTE[k % len(PALETTE)]
        tip = element("title", f"{trace.labels[k]}: {trace.columns['mass'][k]:.4g} kg")
        style = {"fill": colour, "fill_opacity": 0.25, "stroke": colour}
        parts.append(element("polygon", tip, points=points, **style))
    at, ground = place(origin), place(np.zeros((1, 3)))[0]
    for k, p in enumerate(parent):
        x0, y0 = at[p] if p >= 0 else ground
        ends = {"x1": x0, "y1": y0, "x2": at[k, 0], "y2": at[k, 1]}
        rounded = {name: f"{x:.1f}" for name, x in ends.items()}
        parts.append(element("line", **rounded, stroke="#333", stroke_width=2))
    for k, (x, y) in enumerate(at):
        tip = element("title", trace.labels[k])
        place_of = {"cx": f"{x:.1f}", "cy": f"{y:.1f}"}
        parts.append(element("circle", tip, **place_of, r=3.5, fill="#333"))
    label = "the robot at its neutral configuration with a box of equal inertia for each body"
    view = f"0 0 {_SIZE:g} {_SIZE:g}"
    return element("svg", parts, class_="robot", viewBox=view, role="img", aria_label=label)
