"""Plant one fault at a time into inertias of public robots: `python docs/audit_rates.py`.

Each kind of fault is planted on links of robots whose shapes are there, in memory, as a file with
that fault would be read. Thresholds of the audit were chosen on the robots of `TUNED`; the others
judge them. Writes the table of docs/audit.md between its marks. `--trial` prints it and the faults
that were missed, and leaves the page alone; `--only WORD` takes robots with that word.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qddot.loaders.named_robots import named_files
from qddot.verify.audit.audit import Audit, audit_case
from qddot.verify.audit.case import AuditCase, gather_evidence
from qddot.verify.audit.read_description import read_robot
from qddot.verify.audit.records import Inertial
from qddot.verify.audit.solids import tensor_of, widths_along

PAGE = Path(__file__).resolve().parent / "audit.md"
MARKS = ("<!-- rates -->", "<!-- /rates -->")
TUNED = ("xarm7", "solo12", "go2", "g1_29dof_rev_1_0", "tiago_pro", "ur5e", "planar_3r")
JUDGED = ("z1", "so101", "laikago", "a1", "centauro", "alexander_v1.lowerBodyOnly", "b1", "romeo",
          "talos_reduced", "double_pendulum", "bolt")  # fmt: skip
_LINKS = 4
"""Links of each robot in which faults are planted."""
_VISIBLE = 0.2
"""Change of a tensor, as a share of its norm, below which a fault does nothing to the link."""
_QUARTERS = (
    np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]),
    np.array([[0, 0, 1.0], [0, 1, 0], [-1, 0, 0]]),
    np.array([[0, -1.0, 0], [1, 0, 0], [0, 0, 1]]),
)


@dataclass(frozen=True)
class Place:
    """Where a fault is planted: the case, the link, and a number that varies axes."""

    case: AuditCase
    link: str
    turn: int


Plant = Callable[[Inertial, Place], Inertial]
_TENSOR = frozenset({"differs from its shapes", "radius of gyration", "not physical"})
_MASS = frozenset({"power of ten", "units", "density", "twin disagrees"})
_CENTRE = frozenset(
    {"centre of mass outside", "centre of mass differs", "sign of the centre", "about the origin"}
)


def in_link_axes(i: Inertial, tensor: np.ndarray) -> Inertial:
    """The inertia with a full tensor, given in the axes of the link."""
    return replace(i, R=np.eye(3), written=tensor, diagonal=False)


def shift_centre(i: Inertial, place: Place) -> Inertial:
    """The centre of mass is 0.1 m off along an axis."""
    return replace(i, com=i.com + 0.1 * np.eye(3)[place.turn % 3])


def move_reference(i: Inertial, place: Place) -> Inertial:
    """The tensor is about the origin of the link."""
    c = i.com
    return in_link_axes(i, i.tensor + i.mass * (c @ c * np.eye(3) - np.outer(c, c)))


def turn_tensor(i: Inertial, place: Place) -> Inertial:
    """The tensor is turned by a quarter about the axis on which that changes most."""
    turned = [Q @ i.tensor @ Q.T for Q in _QUARTERS]
    return in_link_axes(i, max(turned, key=lambda T: float(np.linalg.norm(T - i.tensor))))


def misread_order(i: Inertial, place: Place) -> Inertial:
    """Six values in the order xx yy zz xy xz yz are written as xx xy xz yy yz zz."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = i.tensor
    return in_link_axes(i, np.array([[xx, yy, zz], [yy, xy, xz], [zz, xz, yz]]))


def take_neighbour(i: Inertial, place: Place) -> Inertial:
    """The inertia of the link before or behind, where that is another one."""
    robot = place.case.robot
    near = [robot.links.get(robot.links[place.link].parent or ""), *robot.children(place.link)]
    found = (x.inertial for x in near if x is not None and x.inertial is not None)
    return next((x for x in found if x.has_mass and x.has_rotational_inertia), i)


def box_around(i: Inertial, place: Place) -> Inertial:
    """The tensor is that of the box around the shapes."""
    widths = widths_along(place.case.geometries[place.link].points, np.eye(3))
    return in_link_axes(i, tensor_of(i.mass, np.diag(widths**2) / 12))


def scale(mass: float = 1.0, length: float = 1.0, moment: float = 1.0) -> Plant:
    """Mass, centre of mass and tensor times these factors."""
    return lambda i, _: replace(
        i, mass=i.mass * mass, com=i.com * length, written=i.written * moment
    )


KINDS: dict[str, tuple[Plant, frozenset[str]]] = {
    "centre of mass 0.1 m off": (shift_centre, _CENTRE),
    "centre of mass negated": (scale(length=-1.0), _CENTRE),
    "centre of mass in mm": (scale(length=1e3), _CENTRE | {"units"}),
    "tensor about the origin": (move_reference, frozenset({"about the origin"})),
    "tensor turned by 90°": (turn_tensor, frozenset({"wrong frame", "swapped moments"})),
    "signs of products flipped": (
        lambda i, _: in_link_axes(i, 2 * np.diag(np.diag(i.tensor)) - i.tensor),
        frozenset({"signs of products", "wrong frame"}),
    ),
    "moments and products mixed": (misread_order, _TENSOR | {"swapped moments"}),
    "rotation of inertial frame lost": (
        lambda i, _: replace(i, R=np.eye(3)),
        frozenset({"wrong frame", "swapped moments", "signs of products"}),
    ),
    "tensor × 1000": (scale(moment=1e3), frozenset({"units", "power of ten"})),
    "tensor ÷ 1000": (scale(moment=1e-3), frozenset({"units", "power of ten"})),
    "mass × 10": (scale(mass=10.0), _MASS),
    "mass ÷ 10": (scale(mass=0.1), _MASS),
    "mass in pounds": (scale(mass=2.20462), _MASS),
    "inertia of a neighbour": (take_neighbour, _TENSOR | _CENTRE | _MASS),
    "tensor of the box around it": (box_around, _TENSOR),
}  # fmt: skip


def changes_enough(a: Inertial, b: Inertial) -> bool:
    """Whether a fault changes an inertia by more than any rounding or habit does."""
    gap = float(np.linalg.norm(b.tensor - a.tensor)) / float(np.linalg.norm(a.tensor))
    far = float(np.linalg.norm(b.com - a.com)) > 0.02
    return gap > _VISIBLE or far or abs(np.log(b.mass / a.mass)) > _VISIBLE


def links_to_damage(case: AuditCase, good: Audit) -> list[str]:
    """Links with whole shapes and no finding, a third and two thirds down the list by mass."""
    blamed = {x for f in good.findings if f.severity != "info" for x in (f.subject, *f.links)}
    total = sum(x.inertial.mass for x in case.robot.links_with_mass() if x.inertial)
    fit = []
    for link in case.robot.links_with_mass():
        i = link.inertial
        sound = i is not None and i.source == "file" and i.has_rotational_inertia
        if i is None or not sound or link.name in blamed or i.mass < 0.01 * total:
            continue
        if case.geometries[link.name].is_complete:
            fit.append((i.mass, link.name))
    names = [name for _, name in sorted(fit, reverse=True)]
    return [names[len(names) * k // (_LINKS + 1)] for k in range(1, _LINKS + 1)] if names else []


@dataclass(frozen=True)
class Outcome:
    """A planted fault: whether a warning or an error is about the link, and names the cause."""

    robot: str
    link: str
    kind: str
    caught: bool
    named: bool
    first: str


def plant_all(name: str, case: AuditCase) -> Iterator[Outcome]:
    """Every kind of fault on links of a robot, one at a time."""
    good = audit_case(case)
    known = {(f.subject, f.hypothesis) for f in good.findings if f.severity != "info"}
    for turn, link in enumerate(dict.fromkeys(links_to_damage(case, good))):
        right = case.robot.links[link].inertial
        for kind, (plant, causes) in KINDS.items():
            wrong = plant(right, Place(case, link, turn + sum(map(ord, name))))
            if not changes_enough(right, wrong):
                continue
            found = audit_case(case.with_inertial(link, wrong)).findings
            serious = [
                f
                for f in found
                if f.severity != "info"
                and link in (f.subject, *f.links)
                and (f.subject, f.hypothesis) not in known
            ]
            first = f"{serious[0].hypothesis}: {serious[0].message}" if serious else ""
            named = any(f.hypothesis in causes for f in serious[:1])
            yield Outcome(name, link, kind, bool(serious), named, first)


def robot_file(name: str) -> Path:
    """The file of a robot: a built-in one, or the URDF of example-robot-data with that stem."""
    if name in named_files() and "example-robot-data" not in named_files()[name].parts:
        return named_files()[name]
    folders = (f for file in named_files().values() for f in file.parents)
    root = next(f for f in folders if (f.name, f.parent.name) == ("robots", "example-robot-data"))
    return next(iter(sorted(root.rglob(f"{name}.urdf"))))


def table_text(found: dict[str, list[Outcome]]) -> str:
    """The table: a row for each kind, planted, caught and named, for each group of robots."""
    heads = [f"{group}: {word}" for group in found for word in ("planted", "caught", "named")]
    lines = [f"| fault | {' | '.join(heads)} |", "| --- " + "| ---: " * len(heads) + "|"]
    for kind in [*KINDS, "all"]:
        cells = []
        for outcomes in found.values():
            rows = [x for x in outcomes if kind in (x.kind, "all")]
            caught, named = sum(x.caught for x in rows), sum(x.named for x in rows)
            cells += [len(rows), caught, named]
            if kind == "all":
                cells[-2:] = [f"{n} ({100 * n / max(len(rows), 1):.0f} %)" for n in (caught, named)]
        lines.append(f"| {kind} | {' | '.join(map(str, cells))} |")
    for group, names in (("Tuned", TUNED), ("Judged", JUDGED)):
        lines += ["", f"{group}: {', '.join(names)}."]
    return "\n".join(lines)


def main() -> None:
    """Plant every fault, print those that are missed, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trial", action="store_true", help="print, and leave the page alone")
    parser.add_argument("--only", default="", help="only robots with this word")
    asked = parser.parse_args()
    found: dict[str, list[Outcome]] = {"tuned": [], "judged": []}
    for group, names in zip(found, (TUNED, JUDGED), strict=True):
        for name in names:
            if asked.only in name:
                case = gather_evidence(read_robot(robot_file(name)))
                found[group] += plant_all(name, case)
                print(f"{group} {name}: {len(found[group])} faults", file=sys.stderr, flush=True)
    text = table_text(found)
    if not asked.trial:
        page = PAGE.read_text("utf-8")
        block = re.compile(f"{re.escape(MARKS[0])}.*{re.escape(MARKS[1])}", re.S)
        marked = f"{MARKS[0]}\n{text}\n{MARKS[1]}"
        PAGE.write_text(block.sub(lambda _: marked, page), "utf-8")
        return
    print(text)
    for x in found["tuned"]:
        if not x.caught:
            print(f"missed: {x.robot} {x.link}: {x.kind}")


if __name__ == "__main__":
    main()
