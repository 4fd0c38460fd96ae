"""A condensed model has the joint-space dynamics of the model it came from, with more zeros."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from native_cases import inputs_of, results
from random_models import build, trees
from test_identities import many

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.condense import condensed
from qddot.kernels import source_of
from qddot.model import Model
from qddot.robot import Robot
from qddot.spatial import Mat3, Vec3

SECOND = "inverse_dynamics_second_derivatives"
CHOSEN = {"axes", "constraints"}  # what a random tree may have no freedom for
ROWS = sorted(
    name
    for name, row in CATALOGUE.items()
    if row.joint_space and name != SECOND and not CHOSEN & {o.name for o in row.options}
)
TURNS = [
    Mat3(*(Vec3(*row) for row in R))
    for p in itertools.permutations(range(3))
    for signs in itertools.product((-1.0, 1.0), repeat=3)
    for R in [np.diag(signs)[list(p)]]
    if np.linalg.det(R) > 0
]


def squared(model: Model, seed: int) -> Model:
    """The model with some placements turned by right angles, as in most files."""
    rng = np.random.default_rng(seed)
    bodies = []
    for body in model.bodies:
        turn = TURNS[rng.integers(len(TURNS))] if rng.random() < 0.7 else body.placement.R
        placement = dataclasses.replace(body.placement, R=turn)
        bodies.append(dataclasses.replace(body, placement=placement))
    return dataclasses.replace(model, bodies=tuple(bodies))


@many
@given(trees(most=8))
def test_all_joint_space_functions_stay(tree):
    model = squared(build(*tree), tree[1])
    original, other = Robot(model), Robot(condensed(model))
    condition = np.linalg.cond(original.mass_matrix(original.random(0))) if original.nv else 1.0
    for name in ROWS:
        arrays, options = inputs_of(original, name, (2,), tree[1] % 1000)
        if CATALOGUE[name].needs_inverse and condition > 1e6:
            continue
        if "prescribed" in options:
            leaders = [b.joint.name for b in model.bodies if b.joint.leader is None]
            options["prescribed"] = tuple(leaders[:1])
        found, expected = (results(r.call(name, *arrays, **options)) for r in (other, original))
        for a, b in zip(found, expected, strict=True):
            if np.isfinite(b).all():
                scale = max(np.abs(b).max(initial=0.0), 1.0)
                assert np.abs(a - b).max(initial=0.0) < 1e-15 * max(condition, 1e5) * scale, name


def test_no_mass_is_left_on_an_axis():
    model = condensed(qddot.load("ur5e").model)
    assert [body.inertia.mass for body in model.bodies] == [0.0] * 6
    for body in model.bodies:
        (axis,) = body.joint.axes
        assert body.inertia.h.dot(axis) == 0.0
        assert body.inertia.spread.apply(axis).dot(axis) == 0.0


def test_offsets_along_axes_are_gone():
    for body in condensed(qddot.load("panda").model).bodies:
        if body.joint.kind.name == "revolute":
            along = body.placement.R.apply(body.joint.axes[0])
            assert along.dot(body.placement.p) == 0.0


@pytest.mark.parametrize("name", ["ur5e", "panda", "quadruped"])
@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics", "mass_matrix"])
def test_fewer_operations(name, function):
    model, row = qddot.load(name).model, CATALOGUE[function]
    plain = source_of(dataclasses.replace(row, joint_space=False), model, {}).tape()
    assert source_of(row, model, {}).tape().operations < 0.95 * plain.operations
