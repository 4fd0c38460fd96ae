"""A robot and what was read back from its written file, compared invariant by invariant."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from qddot.joints import Joint
from qddot.model import WORLD, Body, Model
from qddot.spatial import Inertia
from qddot.writers.matching import (
    bias,
    frames,
    friction,
    joint_parts,
    mass_matrix,
    pair_states,
)
from qddot.writers.measures import Measure, apart, distance, relative, worst

__all__ = ["Certificate", "OnStep", "certify"]

OnStep = Callable[[str, int, int], None]
_SMALL = 1e-4


@dataclass(frozen=True)
class Certificate:
    """The claims about a written file, and the random states at which they were tested."""

    measures: tuple[Measure, ...]
    states: int
    seed: int

    @property
    def passed(self) -> bool:
        """Whether every claim holds."""
        return bool(self.measures) and all(m.passed for m in self.measures)


def certify(
    said: Model, loaded: Model, states: int = 100, seed: int = 0, on_step: OnStep | None = None
) -> Certificate:
    """Compare a model with the one that its written file gives, at random states."""
    structure = (_mass, _com, _tensor, _couplings, _limits, _drivetrain, _gravity, _closures,
                 _configurations)  # fmt: skip
    motion = (frames, mass_matrix, bias, friction)
    found = [_joints(said, loaded)]
    for k, measure in enumerate(structure):
        found += measure(said, loaded)
        if on_step:
            on_step("structure", k + 1, len(structure) + len(motion))
    if found[0].passed:
        pair = pair_states(said, loaded, states, seed)
        for k, probe in enumerate(motion):
            found += probe(pair)
            if on_step:
                on_step(found[-1].name, len(structure) + k + 1, len(structure) + len(motion))
    return Certificate(tuple(found), states, seed)


def _joints(said: Model, loaded: Model) -> Measure:
    there = set(loaded.joint_names)
    wanted = [name for body in said.independent for name in joint_parts(body, there)]
    found = list(loaded.joint_names)
    wrong = sum(a != b for a, b in zip(wanted, found, strict=False))
    wrong += abs(len(wanted) - len(found))
    detail = f"wanted {wanted}, found {found}" if wrong else ""
    return Measure("joints", "same names in the same order", wrong, 0, wrong == 0, detail)


def _inertias(said: Model, loaded: Model) -> Iterator[tuple[str, Inertia, Inertia | None]]:
    """The inertia of every body in its own frame, meant and read back."""
    frames = {f.name: f for f in loaded.frames}
    yield "what is fixed to the world", said.base_inertia, loaded.base_inertia
    for body in said.bodies:
        frame = frames.get(body.name)
        if frame is None or frame.body == WORLD:
            # a link between two joints without mass needs no body of its own
            yield body.name, body.inertia, None if any(body.inertia) else Inertia.zero()
            continue
        host = loaded.bodies[frame.body].inertia
        yield body.name, body.inertia, host.to_parent(frame.placement.inverse())


def _of_bodies(
    name: str, claim: str, said: Model, loaded: Model, error: Callable[[Inertia, Inertia], float]
) -> list[Measure]:
    errors = (
        (body, math.inf if theirs is None else error(ours, theirs))
        for body, ours, theirs in _inertias(said, loaded)
    )
    return worst(name, claim, errors)


def _mass(said: Model, loaded: Model) -> list[Measure]:
    def error(a: Inertia, b: Inertia) -> float:
        return relative([a.mass], [b.mass], _SMALL)

    return _of_bodies("mass", "mass of every body", said, loaded, error)


def _com(said: Model, loaded: Model) -> list[Measure]:
    def error(a: Inertia, b: Inertia) -> float:
        return relative(a.h, b.h, max(abs(a.mass), _SMALL))

    return _of_bodies(
        "centre of mass", "mass times centre of mass, every body", said, loaded, error
    )


def _tensor(said: Model, loaded: Model) -> list[Measure]:
    def error(a: Inertia, b: Inertia) -> float:
        return relative(a.I, b.I, _SMALL)

    return _of_bodies("inertia", "tensor of every body about its origin", said, loaded, error)


def _shared(said: Model, loaded: Model) -> Iterator[tuple[Body, Body]]:
    """Bodies on joints of the same name."""
    there = {b.joint.name: b for b in loaded.bodies}
    return ((b, there[b.joint.name]) for b in said.bodies if b.joint.name in there)


def _couplings(said: Model, loaded: Model) -> list[Measure]:
    errors = [
        (a.joint.name, _unlike(a.joint, b.joint))
        for a, b in _shared(said, loaded)
        if a.joint.leader or b.joint.leader
    ]
    there = {c.name: c for c in loaded.polynomial_couplings}
    for c in said.polynomial_couplings:
        other = there.pop(c.name, None)
        same = other is not None and (other.follower, other.leader) == (c.follower, c.leader)
        terms = zip_longest(c.coefficients, other.coefficients if other else (), fillvalue=0.0)
        errors.append((c.name, max((apart(*x) for x in terms), default=0.0) if same else math.inf))
    errors += [(name, math.inf) for name in there]
    return worst("couplings", "leader and law of every follower", errors)


def _unlike(a: Joint, b: Joint) -> float:
    if a.leader != b.leader:
        return math.inf
    return max(apart(a.ratio, b.ratio), apart(a.offset, b.offset))


def _limits(said: Model, loaded: Model) -> list[Measure]:
    keys = ("lower", "upper", "velocity", "effort")
    errors = (
        (f"{key} of {a.joint.name}", apart(*(getattr(x.joint.limits, key) for x in (a, b))))
        for a, b in _shared(said, loaded)
        for key in keys
    )
    return worst("limits", "position, speed and effort of every joint", errors)


def _drivetrain(said: Model, loaded: Model) -> list[Measure]:
    keys = ("reflected_inertia", "damping", "friction", "stiffness")
    errors = [
        (f"{key} of {a.joint.name}", apart(*(getattr(x.joint.drivetrain, key) for x in (a, b))))
        for a, b in _shared(said, loaded)
        for key in keys
    ]
    errors += [
        (f"spring rest of {a.joint.name}", max(map(apart, a.joint.rest, b.joint.rest)))
        for a, b in _shared(said, loaded)
        if a.joint.drivetrain.stiffness
    ]
    return worst("drivetrain", "armature, damping, friction, spring of every joint", errors)


def _gravity(said: Model, loaded: Model) -> list[Measure]:
    errors = [("gravity", apart(a, b)) for a, b in zip(said.gravity, loaded.gravity, strict=True)]
    return worst("gravity", "the same vector", errors)


def _closures(said: Model, loaded: Model) -> list[Measure]:
    """Loops by name: their kind, and the places of both ends on their bodies."""
    there = {x.name: x for x in loaded.loops}
    errors = []
    for loop in said.loops:
        other = there.get(loop.name)
        if other is None or other.kind != loop.kind:
            errors.append((loop.name, math.inf))
            continue
        for ours, theirs in ((loop.frame1, other.frame1), (loop.frame2, other.frame2)):
            a, b = said.frame(ours), loaded.frame(theirs)
            errors.append((loop.name, distance(a.placement, b.placement)))
    extra = [(x, math.inf) for x in there if x not in {loop.name for loop in said.loops}]
    return worst("loops", "kind and ends of every loop closure", [*errors, *extra])


def _configurations(said: Model, loaded: Model) -> list[Measure]:
    errors = []
    for name, q in said.configurations.items():
        other = loaded.configurations.get(name, ())
        same = len(other) == len(q)
        if name != "qpos0":
            errors.append((name, max(map(apart, q, other), default=0.0) if same else math.inf))
    return worst("configurations", "the named ones", errors)
