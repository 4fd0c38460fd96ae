"""Task space: Pinocchio with NumPy, Khatib's identities, closed forms, pushes and samples."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from agreement import assert_agree
from hypothesis import given
from hypothesis import strategies as st
from identities import STEP, Case, agree, dot, many
from random_models import trees

import qddot
from qddot.algorithms.kinematics import TASK_AXES
from qddot.analysis import ellipsoids, task_space
from qddot.errors import InvalidArgument
from qddot.robot.robot import Wrench

ROBOTS = Path(qddot.__file__).parent / "robots"
LWA = "local_world_aligned"
PINOCCHIO = {"local": pin.LOCAL, "world": pin.WORLD, LWA: pin.LOCAL_WORLD_ALIGNED}
TOOLS = {"panda": "panda_hand_tcp", "ur5e": "grasp"}
PLANE = ("x", "z")


@pytest.fixture(scope="module")
def panda():
    return qddot.load("panda")


@pytest.fixture(scope="module")
def arm():
    """The planar 2R arm: bars of 0.3 m, 2 kg at the elbow and 1.5 kg at the tip."""
    return qddot.load("planar_2r")


def transposed(A: np.ndarray) -> np.ndarray:
    return A.swapaxes(-1, -2)


@pytest.mark.parametrize("reference", PINOCCHIO)
@pytest.mark.parametrize("name", TOOLS)
def test_operational_space_against_pinocchio_and_numpy(name, reference):
    robot, tool = qddot.load(name), TOOLS[name]
    model = pin.buildModelFromUrdf(str(ROBOTS / f"{name}.urdf"))
    assert list(model.names)[1:] == list(robot.joint_names)
    data, frame = model.createData(), model.getFrameId(tool)
    rng = np.random.default_rng(3)
    for axes in (None, ("rz", "x", "y")):
        rows = [TASK_AXES.index(a) for a in axes or TASK_AXES]
        q, v = robot.random(rng), rng.normal(size=robot.nv)
        M = pin.crba(model, data, q)
        M = np.triu(M) + np.triu(M, 1).T
        C = pin.computeCoriolisMatrix(model, data, q, v)
        g = pin.computeGeneralizedGravity(model, data, q)
        pin.computeJointJacobiansTimeVariation(model, data, q, v)
        pin.updateFramePlacements(model, data)
        J = pin.getFrameJacobian(model, data, frame, PINOCCHIO[reference])[rows]
        dJ = pin.getFrameJacobianTimeVariation(model, data, frame, PINOCCHIO[reference])[rows]
        Lambda = np.linalg.inv(J @ np.linalg.solve(M, J.T))
        Jbar = np.linalg.solve(M, J.T) @ Lambda
        mu = Lambda @ (J @ np.linalg.solve(M, C @ v) - dJ @ v)
        found = robot.operational_space(q, v, tool, reference, axes=axes)
        for label, ours, theirs in zip(
            ("Λ", "J̄", "μ", "p"), found, (Lambda, Jbar, mu, Jbar.T @ g), strict=True
        ):
            assert_agree(f"{name} {reference} {label}", ours, theirs, 1e-10)
        at = (q, tool, reference)
        assert_agree("Λ alone", robot.task_inertia(*at, axes=axes), Lambda, 1e-10)
        assert_agree("J", robot.task_jacobian(*at, axes=axes), J, 1e-12)
        assert_agree("Λ⁻¹", robot.task_mobility(*at, axes=axes), J @ np.linalg.solve(M, J.T), 1e-12)
        volume = np.prod(np.linalg.svd(J, compute_uv=False))
        assert robot.manipulability(*at, axes=axes) == pytest.approx(volume, rel=1e-9)


def free_axes(J: np.ndarray, order: list[str]) -> tuple[list[str], list[str]]:
    """The axes, taken in order, that can move by themselves, and those that cannot."""
    free: list[str] = []
    for axis in order:
        rows = [TASK_AXES.index(a) for a in (*free, axis)]
        if np.linalg.matrix_rank(J[0, rows], tol=1e-9) == len(rows):
            free.append(axis)
    return free, [axis for axis in order if axis not in free]


@many
@given(trees(most=8), st.permutations(TASK_AXES), st.integers(1, 6))
def test_the_task_accelerates_as_commanded(tree, order, size):
    """τ = Jᵀ (Λ ẍ + μ + p) + Nᵀ τ₀ makes ẍ, whatever τ₀; ẍ is the rate of J v by complex step."""
    c = Case(tree)
    r, rng = c.robot, np.random.default_rng(tree[1])
    for reference in PINOCCHIO:
        at = (c.frame, reference)
        free, bound = free_axes(r.frame_jacobian(c.q, *at), order)
        if bound:
            with pytest.raises(InvalidArgument, match="by itself"):
                r.operational_space(c.q, c.v, *at, axes=(*free, bound[0]))
        axes = tuple(free[:size])
        J = r.task_jacobian(c.q, *at, axes=axes) if axes else np.zeros((2, 0, r.nv))
        if not axes or np.linalg.svd(J, compute_uv=False).min() < 1e-3:
            continue
        Lambda, Jbar, mu, p = r.operational_space(c.q, c.v, *at, axes=axes)
        command, other = rng.normal(size=mu.shape), rng.normal(size=c.v.shape)
        N = np.eye(r.nv) - Jbar @ J
        force = dot(Lambda, command) + mu + p
        tau = dot(transposed(J), force) + dot(transposed(N), other)
        a = r.forward_dynamics(c.q, c.v, tau)
        moved = r.task_jacobian(c.along(c.v), *at, axes=axes)
        rate = dot(moved, c.v + 1j * STEP * a).imag / STEP
        rounding = 1e-13 * np.linalg.cond(r.mass_matrix(c.q)).max() * np.linalg.cond(Lambda).max()
        agree(rate, command, tolerance=max(1e-9, rounding))
        agree(
            J @ Jbar,
            np.broadcast_to(np.eye(len(axes)), Lambda.shape),
            tolerance=max(1e-9, rounding),
        )


@pytest.mark.parametrize("q", [(0.4, 1.2), (-0.7, 2.4), (1.9, -0.3)])
def test_the_planar_arm_in_closed_form(arm, q):
    """T = ½ m₂ V² + ½ m₁ (V·e₂ / sin q₂)²: Λ, p and the mass ellipsoid by hand."""
    m1, m2, length, g = 2.0, 1.5, 0.3, 9.81
    e1, e2 = (np.array([math.cos(x), math.sin(x)]) for x in (q[0], sum(q)))
    Lambda = m2 * np.eye(2) + m1 / math.sin(q[1]) ** 2 * np.outer(e2, e2)
    p = m2 * g * np.array([0.0, 1.0]) + m1 * g * e1[0] / math.sin(q[1]) * e2
    found = arm.operational_space(q, [0.0, 0.0], "tool", LWA, axes=PLANE)
    np.testing.assert_allclose(found[0], Lambda, rtol=1e-11)
    np.testing.assert_allclose(found[3], p, rtol=1e-11)
    np.testing.assert_allclose(found[2], 0.0, atol=1e-14)
    volume = length**2 * abs(math.sin(q[1]))
    assert arm.manipulability(q, "tool", LWA, axes=PLANE) == pytest.approx(volume, rel=1e-12)
    mass = ellipsoids.mass_ellipsoid(arm, q, "tool", LWA, PLANE)
    np.testing.assert_allclose(mass.radii, [m2 + m1 / math.sin(q[1]) ** 2, m2], rtol=1e-11)
    assert abs(mass.axes[:, 0] @ e2) == pytest.approx(1.0, rel=1e-12)
    assert mass.unit == "kg"
    v = np.array([0.7, -1.1])
    V = arm.task_jacobian(q, "tool", LWA, axes=PLANE) @ v
    assert arm.kinetic_energy(q, v) == pytest.approx(0.5 * V @ Lambda @ V, rel=1e-11)


def test_a_point_mass_at_the_tip_has_no_velocity_term(arm):
    """With all mass at the tip Λ = m 1 in every configuration, so μ = 0 at any speed."""
    parameters = arm.inertial_parameters.copy()
    parameters[0] = 0.0
    robot = arm.with_parameters(parameters)
    rng = np.random.default_rng(0)
    q, v = rng.uniform(0.3, 2.8, (20, 2)), rng.normal(size=(20, 2)) * 5.0
    Lambda, _, mu, p = robot.operational_space(q, v, "tool", LWA, axes=PLANE)
    np.testing.assert_allclose(Lambda, np.broadcast_to(1.5 * np.eye(2), Lambda.shape), atol=1e-10)
    np.testing.assert_allclose(mu, 0.0, atol=1e-9)
    np.testing.assert_allclose(p, np.broadcast_to([0.0, 1.5 * 9.81], p.shape), atol=1e-10)


def test_effective_mass_is_what_a_push_feels(panda):
    weightless, rng = panda.with_gravity((0.0, 0.0, 0.0)), np.random.default_rng(1)
    q, zero = panda.random(rng, 6), np.zeros(7)
    for axes in (TASK_AXES[:3], TASK_AXES):
        u = rng.normal(size=(6, len(axes)))
        push = np.zeros((6, 6))
        push[:, : len(axes)] = u / np.linalg.norm(u, axis=1, keepdims=True)
        a = weightless.forward_dynamics(q, zero, zero, Wrench("panda_hand_tcp", LWA, push))
        answer = weightless.frame_classical_acceleration(q, zero, a, "panda_hand_tcp", LWA)
        felt = 1.0 / (push * answer).sum(axis=1)
        found = task_space.effective_mass(panda, q, "panda_hand_tcp", LWA, 7.0 * u)
        np.testing.assert_allclose(found, felt, rtol=1e-9)
    turned = task_space.effective_mass(panda, q, "panda_hand_tcp", LWA, [2.0], axes=("rz",))
    np.testing.assert_allclose(turned, 1.0 / panda.task_mobility(
        q, "panda_hand_tcp", LWA, axes=("rz",))[:, 0, 0], rtol=1e-9)  # fmt: skip


def test_effective_mass_is_infinite_where_the_arm_cannot_yield(arm):
    stretched = np.array([0.3, 0.0])
    along = [math.cos(0.3), 0.0, math.sin(0.3)]
    across = [-math.sin(0.3), 0.0, math.cos(0.3)]
    assert task_space.effective_mass(arm, stretched, "tool", LWA, along) == np.inf
    assert task_space.effective_mass(arm, stretched, "tool", LWA, [0, 1, 0]) == np.inf
    assert task_space.effective_mass(arm, stretched, "tool", LWA, across) == pytest.approx(1.5)


def test_null_space(panda):
    q = panda.random(0, (2, 3))
    at = (q, "panda_hand_tcp", LWA)
    M = panda.mass_matrix(q)
    for axes in (None, ("x", "rz")):
        N, J = task_space.null_space(panda, *at, axes), panda.task_jacobian(*at, axes=axes)
        np.testing.assert_allclose(J @ N, 0.0, atol=1e-12)
        np.testing.assert_allclose(N @ N, N, atol=1e-11)
        np.testing.assert_allclose(J @ np.linalg.solve(M, transposed(N)), 0.0, atol=1e-10)
        assert (np.linalg.matrix_rank(N, tol=1e-9) == 7 - J.shape[-2]).all()
        Jbar = panda.operational_space(q, np.zeros(7), *at[1:], axes=axes)[1]
        np.testing.assert_allclose(N, np.eye(7) - Jbar @ J, atol=1e-9)


def test_null_space_of_a_singular_task_has_what_the_task_lost(arm):
    q = np.array([0.3, 0.0])
    N = task_space.null_space(arm, q, "tool", LWA, PLANE)
    J, M = arm.task_jacobian(q, "tool", LWA, axes=PLANE), arm.mass_matrix(q)
    np.testing.assert_allclose(J @ N, 0.0, atol=1e-12)
    np.testing.assert_allclose(J @ np.linalg.solve(M, N.T), 0.0, atol=1e-12)
    assert np.linalg.matrix_rank(N, tol=1e-9) == 1


def test_fixed_damping_is_that_of_least_squares(panda):
    q = panda.random(0, 4)
    at = (q, "panda_hand_tcp", LWA)
    J, Minv = panda.task_jacobian(*at), panda.inverse_mass_matrix(q)
    found = task_space.damped_inverse(panda, *at, heaviest=4.0, rule="fixed")
    Lambda = np.linalg.inv(J @ Minv @ transposed(J) + 0.25 * np.eye(6))
    np.testing.assert_allclose(found.Lambda, Lambda, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.Jbar, Minv @ transposed(J) @ Lambda, rtol=1e-9, atol=1e-9)
    assert (found.damping == 0.25).all()
    assert found.is_damped.all()


def test_selective_damping_touches_only_heavy_directions(panda):
    q = panda.random(0, 200)
    at = (q, "panda_hand_tcp", LWA)
    found = task_space.damped_inverse(panda, *at, heaviest=60.0, onset=20.0)
    W = panda.task_mobility(*at)
    # what was added to the mobility is what is reported, direction by direction
    added = np.linalg.inv(found.Lambda) - W
    U = found.directions
    spread = (U * found.damping[:, None, :]) @ transposed(U)
    np.testing.assert_allclose(added, spread, atol=1e-8)
    masses = np.linalg.eigvalsh(np.linalg.inv(W))
    assert (masses[~found.is_damped].max(axis=1) <= 20.0 * (1.0 + 1e-9)).all()
    assert (masses[found.is_damped].max(axis=1) >= 20.0 * (1.0 - 1e-9)).all()
    assert 0 < found.is_damped.sum() < len(q)
    assert np.linalg.eigvalsh(found.Lambda).max() <= 60.0 * (1.0 + 1e-9)
    plain = panda.operational_space(q[~found.is_damped], np.zeros(7), *at[1:])
    np.testing.assert_allclose(found.Lambda[~found.is_damped], plain[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.Jbar[~found.is_damped], plain[1], rtol=1e-6, atol=1e-8)


def test_selective_damping_into_a_singularity(arm):
    """The stretched arm: along it the mass is capped, across it nothing changes."""
    bends = np.array([0.5, 0.1, 0.01, 1e-4, 0.0])
    q = np.stack([np.full(5, 0.3), bends], axis=-1)
    found = task_space.damped_inverse(arm, q, "tool", LWA, PLANE, heaviest=50.0)
    with np.errstate(divide="ignore"):
        along = np.minimum(1.5 + 2.0 / np.sin(bends) ** 2, 50.0)
    np.testing.assert_allclose(np.linalg.eigvalsh(found.Lambda)[:, 1], along, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.eigvalsh(found.Lambda)[:, 0], 1.5, rtol=1e-9)
    # the damped J̄ still moves the task across the arm as asked, and not along it
    J = arm.task_jacobian(q, "tool", LWA, axes=PLANE)
    across = np.array([-math.sin(0.3), math.cos(0.3)])
    np.testing.assert_allclose((J @ found.Jbar)[-1] @ across, across, atol=1e-9)
    assert found.smallest_singular_value[-1] == 0.0
    words = found.describe(4)
    assert "0.96 x +0.30 z" in words
    assert "cannot be moved, damped to 50 kg" in words
    assert "not damped" in found.describe(0)
    assert (found.damping[:, 0] == 0.0).all()


def test_manipulability_measures(panda, arm):
    q = panda.random(2, 5)
    at = (q, "panda_hand_tcp", LWA)
    found = task_space.manipulability_measures(panda, *at)
    s = np.linalg.svd(panda.frame_jacobian(*at), compute_uv=False)
    np.testing.assert_allclose(found.volume, panda.manipulability(*at), rtol=1e-9)
    np.testing.assert_allclose(found.singular_values, s, rtol=1e-12)
    np.testing.assert_allclose(found.condition, s[:, 0] / s[:, 5], rtol=1e-10)
    np.testing.assert_allclose(found.smallest_singular_value, s[:, 5], rtol=1e-10)
    pulled = np.einsum("ni,nij->nj", found.weakest, panda.frame_jacobian(*at))
    np.testing.assert_allclose(np.linalg.norm(pulled, axis=1), s[:, 5], rtol=1e-10)
    stretched = task_space.manipulability_measures(arm, [0.3, 0.0], "tool", LWA, PLANE)
    assert (stretched.volume, stretched.condition) == (0.0, np.inf)
    np.testing.assert_allclose(np.abs(stretched.weakest), [math.cos(0.3), math.sin(0.3)])
    assert arm.manipulability([0.3, 0.9], "tool", LWA) == 0.0


def test_ellipsoids_are_the_set_that_torques_reach(panda):
    """The support of the set, max w·ẍ over the ball of torques, in every direction w."""
    rng = np.random.default_rng(5)
    q, zero = panda.random(rng), np.zeros(7)
    limits = rng.uniform(1.0, 9.0, 7)
    ball = rng.normal(size=(20000, 7))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    a = panda.forward_dynamics(q, zero, limits * ball)
    found = ellipsoids.tool_acceleration_ellipsoid(
        panda, q, "panda_hand_tcp", LWA, torque=limits, gravity=True
    )
    reached = panda.frame_classical_acceleration(q, zero, a, "panda_hand_tcp", LWA)[:, :3]
    inside = ((reached - found.centre) @ found.axes) / found.radii
    assert np.linalg.norm(inside, axis=1).max() <= 1.0 + 1e-9
    A = panda.task_jacobian(q, "panda_hand_tcp", LWA, axes=TASK_AXES[:3])
    A = A @ panda.inverse_mass_matrix(q) * limits
    for w in rng.normal(size=(20, 3)):
        best = A.T @ w / np.linalg.norm(A.T @ w)
        extreme = panda.forward_dynamics(q, zero, limits * best)
        point = panda.frame_classical_acceleration(q, zero, extreme, "panda_hand_tcp", LWA)[:3]
        inside = ((point - found.centre) @ found.axes) / found.radii
        assert np.linalg.norm(inside) == pytest.approx(1.0, rel=1e-9)
        off = point - found.centre
        assert found.radius(off) == pytest.approx(np.linalg.norm(off), rel=1e-9)
    joint = ellipsoids.acceleration_ellipsoid(panda, q, limits, gravity=True)
    shares = ((a - joint.centre) @ joint.axes) / joint.radii
    np.testing.assert_allclose(np.linalg.norm(shares, axis=1), 1.0, rtol=1e-8)
    torque = ellipsoids.torque_ellipsoid(panda, q, gravity=True)
    tau = panda.inverse_dynamics(q, zero, ball[:50])
    shares = ((tau - torque.centre) @ torque.axes) / torque.radii
    np.testing.assert_allclose(np.linalg.norm(shares, axis=1), 1.0, rtol=1e-8)


def test_the_torque_and_acceleration_ellipsoids_of_the_book(arm):
    """M = [[0.45, 0.135], [0.135, 0.135]] at (0, 90°): eigenvalues and shadows by hand."""
    q = [0.0, math.pi / 2]
    half, root = 0.585 / 2, math.sqrt(0.1575**2 + 0.135**2)
    torque = ellipsoids.torque_ellipsoid(arm, q)
    np.testing.assert_allclose(torque.radii, [half + root, half - root], rtol=1e-12)
    assert torque.axes[1, 0] / torque.axes[0, 0] == pytest.approx((half + root - 0.45) / 0.135)
    np.testing.assert_allclose(torque.centre, 0.0)
    acceleration = ellipsoids.acceleration_ellipsoid(arm, q)
    np.testing.assert_allclose(acceleration.radii, 1.0 / torque.radii[::-1], rtol=1e-12)
    assert (torque.unit, acceleration.unit) == ("N m", "rad/s²")
    shadow = ellipsoids.torque_ellipsoid(arm, q, joints=["joint2"])
    np.testing.assert_allclose(shadow.radii, [math.hypot(0.135, 0.135)], rtol=1e-12)
    heavy = ellipsoids.torque_ellipsoid(arm, q, gravity=True)
    np.testing.assert_allclose(heavy.centre, [3.5 * 0.3 * 9.81, 0.0], atol=1e-12)


def test_velocity_and_force_ellipsoids_are_dual(panda):
    q = panda.random(4, 3)
    velocity = ellipsoids.velocity_ellipsoid(panda, q, "panda_hand_tcp", LWA)
    force = ellipsoids.force_ellipsoid(panda, q, "panda_hand_tcp", LWA, torque=2.0)
    np.testing.assert_allclose(force.radii, 2.0 / velocity.radii[:, ::-1], rtol=1e-10)
    J = panda.task_jacobian(q, "panda_hand_tcp", LWA, axes=TASK_AXES[:3])
    for k in range(3):
        ends = force.axes[..., k] * force.radii[:, k, None]
        needed = np.linalg.norm(dot(transposed(J), ends), axis=1)
        np.testing.assert_allclose(needed, 2.0, rtol=1e-10)
    limited = ellipsoids.force_ellipsoid(panda, q, "panda_hand_tcp", LWA, torque="limits")
    efforts = [b.joint.limits.effort for b in panda.model.bodies]
    ends = limited.axes[..., 0] * limited.radii[:, 0, None]
    shares = dot(transposed(J), ends) / efforts
    np.testing.assert_allclose(np.linalg.norm(shares, axis=1), 1.0, rtol=1e-10)


def test_the_belted_mass_ellipsoid_is_the_felt_mass(panda):
    q, u = panda.random(1), np.random.default_rng(0).normal(size=(30, 3))
    belted = ellipsoids.mass_ellipsoid(panda, q, "panda_hand_tcp", LWA, belted=True)
    felt = task_space.effective_mass(panda, q, "panda_hand_tcp", LWA, u)
    np.testing.assert_allclose(belted.radius(u), felt, rtol=1e-9)
    surface = belted.points(12).reshape(-1, 3)
    seen = task_space.effective_mass(panda, q, "panda_hand_tcp", LWA, surface)
    np.testing.assert_allclose(np.linalg.norm(surface, axis=1), seen, rtol=1e-9)
    ordinary = ellipsoids.mass_ellipsoid(panda, q, "panda_hand_tcp", LWA)
    assert (ordinary.radius(u) <= felt * (1.0 + 1e-12)).all()


def test_points_lie_on_the_surface_and_batches_keep_their_shape(arm, panda):
    for robot, q, axes, tool, shape in (
        (arm, arm.random(0, (2, 3)), PLANE, "tool", (2, 3, 40, 2)),
        (panda, panda.random(0, 4), TASK_AXES[:3], "panda_hand_tcp", (4, 20, 40, 3)),
    ):
        found = ellipsoids.tool_acceleration_ellipsoid(robot, q, tool, LWA, axes, gravity=True)
        points = found.points(40)
        assert points.shape == shape
        flat = points.reshape(*found.radii.shape[:-1], -1, len(axes))
        off = (flat - found.centre[..., None, :]) @ found.axes / found.radii[..., None, :]
        np.testing.assert_allclose(np.linalg.norm(off, axis=-1), 1.0, rtol=1e-10)


def test_a_state_that_is_not_a_number_stays_alone(panda):
    q = panda.random(0, 3)
    q[1, 2] = np.nan
    at = (q, "panda_hand_tcp", LWA)
    found = task_space.damped_inverse(panda, *at)
    for result in (
        found.Lambda,
        found.Jbar,
        task_space.null_space(panda, *at),
        task_space.effective_mass(panda, *at, [0, 0, 1])[:, None],
        task_space.manipulability_measures(panda, *at).volume[:, None],
        ellipsoids.mass_ellipsoid(panda, *at).radii,
    ):
        flat = result.reshape(3, -1)
        assert np.isnan(flat[1]).all()
        assert np.isfinite(flat[[0, 2]]).all()


@pytest.mark.parametrize("name", ["operational_space", "task_inertia"])
def test_a_task_that_can_never_be_inverted_is_refused(arm, name):
    args = ([0.1, 0.2], [0.0, 0.0]) if name == "operational_space" else ([0.1, 0.2],)
    for axes, said in (
        (None, "along y, rx, ry, rz by itself"),
        (("x", "y"), "along y by itself"),
        (("x", "z", "ry"), "along ry by itself"),
        ((), "at least one axis"),
        (("x", "x"), "each only once"),
        ("xz", "a list of axes"),
        (("x", "up"), "a list of axes"),
    ):
        with pytest.raises(InvalidArgument, match=re.escape(said)):
            getattr(arm, name)(*args, "tool", LWA, axes=axes)


def test_wrong_arguments_say_what_is_needed(arm, panda):
    q = [0.1, 0.2]
    for call, said in (
        (lambda: task_space.damped_inverse(arm, q, "tool", LWA, rule="none"), "no rule 'none'"),
        (lambda: task_space.damped_inverse(arm, q, "tool", LWA, heaviest=0), "a number above zero"),
        (
            lambda: task_space.damped_inverse(arm, q, "tool", LWA, heaviest=1.0, onset=2.0),
            "at most heaviest, 1",
        ),
        (lambda: task_space.effective_mass(arm, q, "tool", LWA, [0, 0, 0]), "other than zero"),
        (lambda: task_space.effective_mass(arm, q, "tool", LWA, [1, 0]), "(..., 6)"),
        (lambda: task_space.effective_mass(arm, q, "tool", LWA, 3.0), "one number an axis"),
        (lambda: task_space.null_space(arm, q, "tol", LWA), "no frame 'tol'"),
        (
            lambda: task_space.damped_inverse(arm, [q, q], "tool", LWA, PLANE).describe(2),
            "a batch of shape (2,)",
        ),
        (lambda: ellipsoids.torque_ellipsoid(arm, q, joints=["j"]), "no joint 'j'"),
        (lambda: ellipsoids.acceleration_ellipsoid(arm, q, torque=-1.0), "above zero"),
        (lambda: ellipsoids.acceleration_ellipsoid(arm, q, torque=[1.0] * 3), "(nv=2,)"),
        (lambda: ellipsoids.acceleration_ellipsoid(arm, q, torque="big"), '"limits"'),
        (lambda: ellipsoids.plot_ellipsoids(arm, q, "tool", ["speed"]), "no kind 'speed'"),
        (lambda: ellipsoids.plot_ellipsoids(arm, [q, q], "tool"), "(nq=2,)"),
        (lambda: ellipsoids.plot_joint_ellipsoids(panda, panda.neutral()), "two or three"),
        (lambda: ellipsoids.mass_ellipsoid(panda, panda.random(0), "panda_hand_tcp", LWA,
                                           TASK_AXES).points(), "two or three"),
    ):  # fmt: skip
        with pytest.raises(qddot.QddotError, match=re.escape(said)):
            call()


def test_pictures(arm, panda, tmp_path):
    """Flat for a planar arm and solid for others, also where radii are endless."""
    for robot, q, tool, solid in (
        (arm, [0.4, 0.0], "tool", False),
        (panda, [0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8], "panda_hand_tcp", True),
    ):
        file = tmp_path / f"{robot.name}.png"
        figure = ellipsoids.plot_ellipsoids(
            robot, q, tool, ellipsoids.KINDS, torque="limits", gravity=True, file=file
        )
        assert file.read_bytes().startswith(b"\x89PNG")
        assert len(figure.axes) == len(ellipsoids.KINDS)
        assert all((ax.name == "3d") == solid for ax in figure.axes)
        titles = " ".join(ax.get_title() for ax in figure.axes)
        assert ("∞" in titles) != solid
    figure = ellipsoids.plot_joint_ellipsoids(arm, [[0.0, 1.57], [0.0, 2.6]], gravity=True)
    assert [ax.get_xlabel() for ax in figure.axes] == ["joint1 / N m", "joint1 / rad/s²"]
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 2


def test_the_page_of_the_docs_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).resolve().parents[2] / "docs" / "task-space.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert len(blocks) == 4
    exec("\n".join(blocks), {})
    assert {f.name for f in tmp_path.iterdir()} == {"panda.png", "joints.png"}
