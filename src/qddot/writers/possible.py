"""Inertias that MuJoCo accepts: what is impossible alone may be possible with its neighbours."""

from __future__ import annotations

import dataclasses

from qddot.errors import InvalidModel
from qddot.parts import Link, inertia_defect
from qddot.spatial import Inertia
from qddot.writers.losses import Loss, loss
from qddot.writers.moments import balanced, excess_of

__all__ = ["possible"]

_ROUNDING = 1e-12


def possible(links: tuple[Link, ...]) -> tuple[tuple[Link, ...], list[Loss]]:
    """Links with inertias that MuJoCo accepts to the last digit, and what was done for that.

    An impossible inertia of a fixed link goes to the link that carries it: the body they make is
    the same. One of a body that moves is refused.
    """
    found = {x.name: x for x in links}
    merged: list[str] = []
    dropped: list[str] = []
    for name in [x.name for x in reversed(links)]:
        link = found[name]
        if not _impossible(link):
            continue
        if link.joint.kind.nv:
            _gather(found, link, merged)
        elif link.parent is None:
            dropped.append(f"link {name!r}, {link.inertia.mass:g} kg")
            found[name] = dataclasses.replace(link, inertia=Inertia.zero())
        else:
            _hand_over(found, link, merged)
    _refuse([x for x in found.values() if _impossible(x)])
    losses = [
        *loss("inertia", False, "impossible alone, written with the link that carries it", merged),
        *loss(
            "inertia", False, "impossible, and of no effect as it never moves: left out", dropped
        ),
    ]
    return _even(tuple(found[x.name] for x in links), losses)


def _impossible(link: Link) -> bool:
    return bool(inertia_defect("", link.inertia))


def _hand_over(found: dict[str, Link], link: Link, merged: list[str]) -> None:
    """Move the inertia of a fixed link to its parent."""
    parent = found[str(link.parent)]
    moved = link.placement.to_parent(link.inertia)
    found[parent.name] = dataclasses.replace(parent, inertia=parent.inertia + moved)
    found[link.name] = dataclasses.replace(link, inertia=Inertia.zero())
    merged.append(f"link {link.name!r} with {parent.name!r}")


def _gather(found: dict[str, Link], link: Link, merged: list[str]) -> None:
    """Move what is fixed to a link to it, leaves first."""
    fixed = [x.name for x in found.values() if x.parent == link.name and not x.joint.kind.nv]
    for name in fixed:
        _gather(found, found[name], merged)
        if any(found[name].inertia):
            _hand_over(found, found[name], merged)


def _refuse(links: list[Link]) -> None:
    if not links:
        return
    names = ", ".join(repr(x.name) for x in links[:4]) + (", …" if len(links) > 4 else "")
    reason = inertia_defect("", links[0].inertia)[0].message
    hint = "MuJoCo refuses that; repair the source with qddot audit --fix"
    raise InvalidModel(f"link {names}", f"{reason}; {hint}")


def _even(links: tuple[Link, ...], losses: list[Loss]) -> tuple[tuple[Link, ...], list[Loss]]:
    """Lower moments that exceed the sum of the others by what a file's rounding leaves."""
    excess = {x.name: excess_of(x.inertia) for x in links}
    over = {name: part for name, part in excess.items() if part > _ROUNDING}
    message = "MuJoCo takes no moment above the sum of the other two: the largest is lowered"
    items = (f"link {name!r} by {part:.1e} of it" for name, part in over.items())
    return tuple(
        dataclasses.replace(x, inertia=balanced(x.inertia)) if x.name in over else x for x in links
    ), [*losses, *loss("inertia", True, message, items)]
