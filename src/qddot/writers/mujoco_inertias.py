"""Link inertias that MuJoCo accepts.

An inertia that violates the triangle inequality alone may satisfy it with those of the links that
are fixed to the same body.
"""

from __future__ import annotations

import dataclasses

from qddot.errors import InvalidModel
from qddot.model.links import Link, inertia_defect
from qddot.spatial.algebra import Inertia
from qddot.writers.conversion_losses import ConversionLoss, conversion_loss
from qddot.writers.principal_moments import cap_largest_moment, moment_excess

__all__ = ["make_inertias_valid"]

_ROUNDING = 1e-12


def make_inertias_valid(
    links: tuple[Link, ...],
) -> tuple[tuple[Link, ...], list[ConversionLoss]]:
    """Links with inertias that MuJoCo accepts to the last digit, and the changes made.

    An impossible inertia of a fixed link goes to the link that carries it: the body they make is
    the same. One of a body that moves is refused.
    """
    found = {x.name: x for x in links}
    merged: list[str] = []
    dropped: list[str] = []
    # leaves to root: impossible inertias join those that they are fixed to
    for name in [x.name for x in reversed(links)]:
        link = found[name]
        if not inertia_defect("", link.inertia):
            continue
        if link.joint.kind.nv:
            _merge_fixed_links(found, link, merged)
        elif link.parent is None:
            dropped.append(f"link {name!r}, {link.inertia.mass:g} kg")
            found[name] = dataclasses.replace(link, inertia=Inertia.zero())
        else:
            _merge_into_parent(found, link, merged)
    # an inertia that is still impossible is that of a whole body
    refused = [x for x in found.values() if inertia_defect("", x.inertia)]
    if refused:
        names = ", ".join(repr(x.name) for x in refused[:4]) + (", …" if len(refused) > 4 else "")
        reason = inertia_defect("", refused[0].inertia)[0].message
        hint = "MuJoCo refuses that; repair the source (qddot audit --fix, where it has a remedy)"
        raise InvalidModel(f"link {names}", f"{reason}; {hint}")
    # MuJoCo has no tolerance: lower moments that are too large by the rounding of a file
    excess = {x.name: moment_excess(x.inertia) for x in found.values()}
    lowered = {x.name: excess[x.name] for x in links if excess[x.name] > _ROUNDING}
    for name in lowered:
        inertia = cap_largest_moment(found[name].inertia)
        found[name] = dataclasses.replace(found[name], inertia=inertia)
    return tuple(found[x.name] for x in links), [
        *conversion_loss(
            "inertia", False, "impossible alone, written with the link that carries it", merged
        ),
        *conversion_loss(
            "inertia", False, "impossible, and of no effect as it never moves: left out", dropped
        ),
        *conversion_loss(
            "inertia", True,
            "MuJoCo takes no moment above the sum of the other two: the largest is lowered",
            (f"link {name!r} by {part:.1e} of it" for name, part in lowered.items()),
        ),
    ]  # fmt: skip


def _merge_into_parent(found: dict[str, Link], link: Link, merged: list[str]) -> None:
    """Move the inertia of a fixed link to its parent."""
    parent = found[str(link.parent)]
    moved = link.placement.to_parent(link.inertia)
    found[parent.name] = dataclasses.replace(parent, inertia=parent.inertia + moved)
    found[link.name] = dataclasses.replace(link, inertia=Inertia.zero())
    merged.append(f"link {link.name!r} with {parent.name!r}")


def _merge_fixed_links(found: dict[str, Link], link: Link, merged: list[str]) -> None:
    """Move the inertias of all links that are fixed to a link to it, leaves first."""
    fixed = [x.name for x in found.values() if x.parent == link.name and not x.joint.kind.nv]
    for name in fixed:
        _merge_fixed_links(found, found[name], merged)
        if any(found[name].inertia):
            _merge_into_parent(found, found[name], merged)
