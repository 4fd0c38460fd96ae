"""The picture of a robot in a report: bones between joints, and boxes that have its inertias."""

from __future__ import annotations

import html
from itertools import product

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from qddot.display.plots import PALETTE
from qddot.evidence.record import RecordTrace

__all__ = ["robot_picture"]

_SIZE = 420.0
_VIEW = np.array([[-0.7071, 0.7071, 0.0], [0.3536, 0.3536, -0.8660]])
"""Rows: world directions that go right and down on the page, seen from above at 30°."""


def robot_picture(trace: RecordTrace) -> str:
    """SVG of a trace `picture`: a polygon a box, a line a bone, a dot a joint; names as tips."""
    origin, com = trace.columns["origin"], trace.columns["com"]
    edges, axes = trace.columns["edges"], trace.columns["axes"].reshape(-1, 3, 3)
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
        tip = html.escape(f"{trace.labels[k]}: {trace.columns['mass'][k]:.4g} kg")
        parts.append(
            f'<polygon points="{points}" fill="{colour}" fill-opacity="0.25" stroke="{colour}">'
            f"<title>{tip}</title></polygon>"
        )
    at, ground = place(origin), place(np.zeros((1, 3)))[0]
    for k, p in enumerate(parent):
        x0, y0 = at[p] if p >= 0 else ground
        x1, y1 = at[k]
        line = f'x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"'
        parts.append(f'<line {line} stroke="#333" stroke-width="2"/>')
    for k, (x, y) in enumerate(at):
        tip = html.escape(trace.labels[k])
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#333"><title>{tip}</title></circle>'
        )
    body = "".join(parts)
    label = "the robot at its neutral configuration with a box of equal inertia for each body"
    box = f'viewBox="0 0 {_SIZE:g} {_SIZE:g}"'
    return f'<svg class="robot" {box} role="img" aria-label="{label}">{body}</svg>'
