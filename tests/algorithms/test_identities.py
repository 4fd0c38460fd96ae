"""Identities between algorithms on random trees with every joint type and couplings.

No value here is a copy of our own output: each claim sets two routes against each other, one of
them often a complex-step derivative (exact to rounding).
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from identities import RELATIVE, STEP, Case, agree, dot, many
from random_models import MOVING, Part, build, trees

from qddot.model.joints import JOINTS
from qddot.model.model import WORLD, Model
from qddot.robot.robot import Robot, Wrench

REFERENCES = ("local", "world", "local_world_aligned")


@many
@given(trees())
def test_inverse_dynamics_is_mass_times_acceleration_plus_bias(tree):
    c = Case(tree)
    tau = c.robot.inverse_dynamics(c.q, c.v, c.a)
    agree(tau, dot(c.robot.mass_matrix(c.q), c.a) + c.robot.bias(c.q, c.v))


@many
@given(trees())
def test_coriolis_matrix_gives_bias_and_is_metric(tree):
    c = Case(tree)
    C = c.robot.coriolis_matrix(c.q, c.v)
    agree(dot(C, c.v), c.robot.bias(c.q, c.v) - c.robot.gravity(c.q))
    rate = c.robot.mass_matrix(c.along(c.v)).imag / STEP
    agree(C + C.swapaxes(1, 2), rate)
    agree(c.robot.mass_matrix_rate(c.q, c.v), rate)


@many
@given(trees(kinds=("revolute", "prismatic", "helical", "universal")))
def test_christoffel_symbols_are_symmetric(tree):
    c = Case(tree)
    agree(dot(c.robot.coriolis_matrix(c.q, c.v), c.w), dot(c.robot.coriolis_matrix(c.q, c.w), c.v))


@many
@given(trees())
def test_forward_dynamics_undoes_inverse_dynamics(tree):
    c = Case(tree)
    M = c.robot.mass_matrix(c.q)
    assert (M.swapaxes(1, 2) == M).all()
    assert not c.robot.nv or np.linalg.eigvalsh(M).min() > 0
    condition = float(np.linalg.cond(M).max()) if c.robot.nv else 1.0
    tau = c.robot.inverse_dynamics(c.q, c.v, c.a)
    agree(c.robot.forward_dynamics(c.q, c.v, tau), c.a, tolerance=max(RELATIVE, 1e-15 * condition))
    eye = np.broadcast_to(np.eye(c.robot.nv), M.shape)
    agree(c.robot.inverse_mass_matrix(c.q) @ M, eye, tolerance=max(RELATIVE, 1e-15 * condition))


@many
@given(trees(kinds=("revolute", "prismatic", "helical", "universal")))
def test_momentum_regressors_give_the_torque_without_accelerations(tree):
    """d/dt (Y_p π), by complex step along the motion, less Y π is the torque of the bodies."""
    c = Case(tree)
    along = c.robot.momentum_regressor(c.along(c.v), c.v + 1j * STEP * c.a).imag / STEP
    torque = c.robot.torque_regressor(c.q, c.v, c.a)
    agree(along - c.robot.momentum_rate_regressor(c.q, c.v), torque)


@many
@given(trees())
def test_regressors_are_linear_maps_of_the_parameters(tree):
    c = Case(tree)
    pi, r = c.robot.inertial_parameters.ravel(), c.robot
    agree(
        dot(r.torque_regressor(c.q, c.v, c.a), pi) + c.armature * c.a,
        r.inverse_dynamics(c.q, c.v, c.a),
    )
    momentum = dot(r.mass_matrix(c.q), c.v)
    agree(dot(r.momentum_regressor(c.q, c.v), pi) + c.armature * c.v, momentum)
    rate = r.coriolis_transpose_product(c.q, c.v) - r.gravity(c.q)
    agree(dot(r.momentum_rate_regressor(c.q, c.v), pi), rate)
    kinetic = r.kinetic_energy_regressor(c.q, c.v) @ pi + 0.5 * (c.armature * c.v**2).sum(axis=1)
    agree(kinetic, 0.5 * (c.v * momentum).sum(axis=1))
    agree(kinetic, r.kinetic_energy(c.q, c.v))
    agree(r.potential_energy_regressor(c.q) @ pi, r.potential_energy(c.q))


@many
@given(trees())
def test_energy_gradient_and_power(tree):
    c = Case(tree)
    r = c.robot
    moved = r.integrate(c.q[:, None].astype(complex), 1j * STEP * np.eye(r.nv))
    agree(r.potential_energy(moved).imag / STEP, r.gravity(c.q))
    q, v = c.along(c.v), c.v + 1j * STEP * c.a
    energy = (r.kinetic_energy(q, v) + r.potential_energy(q)).imag / STEP
    power = c.v * r.inverse_dynamics(c.q, c.v, c.a)
    agree(energy, power.sum(axis=1), scale=np.abs(power).max(initial=0.0))


@many
@given(trees())
def test_frame_kinematics_are_derivatives_of_the_pose(tree):
    c = Case(tree)
    r, f = c.robot, c.frame
    X = r.frame_pose(c.q, f)
    dX = r.frame_pose(c.along(c.v), f).imag / STEP
    rate = np.linalg.inv(X) @ dX
    twist = r.frame_velocity(c.q, c.v, f, "local")
    agree(rate[:, :3, 3], twist[:, :3])
    agree(rate[:, [2, 0, 1], [1, 2, 0]], twist[:, 3:])
    agree(-rate[:, [1, 2, 0], [2, 0, 1]], twist[:, 3:])
    agree(dX[:, :3, 3], r.frame_velocity(c.q, c.v, f, "local_world_aligned")[:, :3])
    for reference in REFERENCES:
        J, dJ = r.frame_jacobian(c.q, f, reference), r.frame_jacobian_rate(c.q, c.v, f, reference)
        agree(dot(J, c.v), r.frame_velocity(c.q, c.v, f, reference))
        agree(dJ, r.frame_jacobian(c.along(c.v), f, reference).imag / STEP)
        spatial = r.frame_acceleration(c.q, c.v, c.a, f, reference)
        if reference == "local_world_aligned":
            spatial = r.frame_classical_acceleration(c.q, c.v, c.a, f, reference)
        agree(dot(J, c.a) + dot(dJ, c.v), spatial)


@many
@given(trees())
def test_body_functions_equal_frame_functions(tree):
    c = Case(tree)
    r = c.robot
    poses, V = r.body_poses(c.q), r.body_velocities(c.q, c.v)
    A = r.body_accelerations(c.q, c.v, c.a)
    for i, body in enumerate(c.model.bodies):
        agree(poses[:, i], r.frame_pose(c.q, body.name))
        agree(V[:, i], r.frame_velocity(c.q, c.v, body.name, "local"))
        agree(A[:, i], r.frame_acceleration(c.q, c.v, c.a, body.name, "local"))
    all_frames = r.frame_poses(c.q)
    agree(all_frames[:, r.frame_names.index(c.frame)], r.frame_pose(c.q, c.frame))


@many
@given(trees())
def test_centroidal_map_and_its_rate(tree):
    c = Case(tree)
    r = c.robot
    mass = sum(b.inertia.mass for b in c.model.bodies)
    if not mass:
        return
    com, A = r.center_of_mass(c.q), r.centroidal_map(c.q)
    J = r.center_of_mass_jacobian(c.q)
    agree(dot(J, c.v), r.center_of_mass(c.along(c.v)).imag / STEP)
    agree(mass * J, A[:, :3])
    agree(r.centroidal_map_rate(c.q, c.v), r.centroidal_map(c.along(c.v)).imag / STEP)
    agree(r.centroidal_momentum(c.q, c.v), dot(A, c.v))
    # the momentum of each body, carried to the centre of mass by hand
    total = np.zeros((2, 6))
    for i, body in enumerate(c.model.bodies):
        X, V = r.body_poses(c.q)[:, i], r.body_velocities(c.q, c.v)[:, i]
        center = X[:, :3, :3] @ np.array(list(body.inertia.com)) + X[:, :3, 3]
        omega = X[:, :3, :3] @ V[:, 3:, None]
        tensor = (
            X[:, :3, :3]
            @ np.array([list(x) for x in body.inertia.tensor_at_com.rows])
            @ X[:, :3, :3].swapaxes(1, 2)
        )
        velocity = (X[:, :3, :3] @ V[:, :3, None])[..., 0] + np.cross(
            omega[..., 0], center - X[:, :3, 3]
        )
        total[:, :3] += body.inertia.mass * velocity
        total[:, 3:] += (tensor @ omega)[..., 0] + np.cross(
            center - com, body.inertia.mass * velocity
        )
    agree(r.centroidal_momentum(c.q, c.v), total)


@many
@given(trees(kinds=("revolute", "prismatic", "ball", "universal", "helical")))
def test_momentum_in_flight_changes_by_weight_only(tree):
    parts, seed = tree
    loose = [Part("free", WORLD, False, False, False, None)]
    # everything hangs on one free body, without armature (which would push on the world)
    hung = [
        Part(
            p.kind,
            p.parent + 1,
            p.aligned,
            False,
            False,
            p.follows and p.follows + 1 if p.follows else None,
        )
        for p in parts
    ]
    c = Case((loose + hung, seed))
    r = c.robot
    tau = np.concatenate([np.zeros((2, 6)), c.a[:, 6:]], axis=1)
    accel = r.forward_dynamics(c.q, c.v, tau)
    rate = dot(r.centroidal_map_rate(c.q, c.v), c.v) + dot(r.centroidal_map(c.q), accel)
    mass = sum(b.inertia.mass for b in c.model.bodies)
    weight = np.concatenate([mass * np.array(list(c.model.gravity)), np.zeros(3)])
    agree(rate, np.broadcast_to(weight, rate.shape), scale=np.abs(accel).max(), tolerance=1e-9)


@many
@given(trees())
def test_external_wrenches_act_through_the_jacobian(tree):
    c = Case(tree)
    r, rng = c.robot, np.random.default_rng(tree[1])
    other = str(rng.choice(r.frame_names))
    tau = r.inverse_dynamics(c.q, c.v, c.a)
    for reference in REFERENCES:
        F, G = rng.normal(size=(2, 6)), rng.normal(size=6)
        pushed = r.inverse_dynamics(
            c.q, c.v, c.a, [Wrench(c.frame, reference, F), Wrench(other, "local", G)]
        )
        J, K = r.frame_jacobian(c.q, c.frame, reference), r.frame_jacobian(c.q, other, "local")
        agree(pushed, tau - np.einsum("sij,si->sj", J, F) - np.einsum("sij,i->sj", K, G))
        back = r.forward_dynamics(
            c.q, c.v, pushed, f_ext=[Wrench(c.frame, reference, F), Wrench(other, "local", G)]
        )
        agree(r.inverse_dynamics(c.q, c.v, back), r.inverse_dynamics(c.q, c.v, c.a), tolerance=1e-8)


@many
@given(trees())
def test_friction_only_when_asked(tree):
    c = Case(tree)
    r = c.robot
    losses = r.friction(c.q, c.v)
    agree(
        r.inverse_dynamics(c.q, c.v, c.a, friction=True),
        r.inverse_dynamics(c.q, c.v, c.a) + losses,
    )
    tau = r.inverse_dynamics(c.q, c.v, c.a)
    agree(
        r.forward_dynamics(c.q, c.v, tau + losses, friction=True),
        r.forward_dynamics(c.q, c.v, tau),
        tolerance=1e-8,
    )


@many
@given(trees())
def test_configuration_manifold(tree):
    c = Case(tree)
    r = c.robot
    agree(r.integrate(c.q, 0 * c.v), c.q)
    step = 0.5 * c.v
    agree(r.difference(c.q, r.integrate(c.q, step)), step)
    other = r.random(tree[1] + 1, 2)
    across = r.difference(c.q, other)
    there = r.integrate(c.q, across)
    agree(r.frame_poses(there), r.frame_poses(other))
    agree(r.interpolate(c.q, other, 0.0), c.q)
    halfway = r.interpolate(c.q, other, np.array([0.5]))
    agree(r.difference(halfway, there), 0.5 * across, tolerance=1e-9)
    agree(r.difference(c.q, c.q), 0 * c.v)


def by_tangent(c: Case, function) -> tuple[np.ndarray, ...]:
    """Derivatives of a function of the configuration, along a last axis, by the complex step."""
    moved = c.robot.integrate(c.q[:, None].astype(complex), 1j * STEP * np.eye(c.robot.nv))
    return stepped(function(moved))


def by_vector(c: Case, x: np.ndarray, function) -> tuple[np.ndarray, ...]:
    """The same of a function of a vector."""
    return stepped(function(x[:, None] + 1j * STEP * np.eye(c.robot.nv)))


def stepped(value) -> tuple[np.ndarray, ...]:
    values = value if isinstance(value, tuple) else (value,)
    return tuple(np.moveaxis(x.imag / STEP, 1, -1) for x in values)


@many
@given(trees(most=8))
def test_derivatives_of_inverse_dynamics(tree):
    c = Case(tree)
    r, q, v, a = c.robot, c.q[:, None], c.v[:, None], c.a[:, None]
    dq, dv, M = r.inverse_dynamics_derivatives(c.q, c.v, c.a)
    agree(dq, *by_tangent(c, lambda x: r.inverse_dynamics(x, v, a)))
    agree(dv, *by_vector(c, c.v, lambda x: r.inverse_dynamics(q, x, a)))
    agree(M, r.mass_matrix(c.q))
    agree(r.gravity_derivatives(c.q), *by_tangent(c, r.gravity))


@many
@given(trees(most=8))
def test_derivatives_of_forward_dynamics(tree):
    c = Case(tree)
    r, q, v = c.robot, c.q[:, None], c.v[:, None]
    tau = r.inverse_dynamics(c.q, c.v, c.a)
    dq, dv, inverse = r.forward_dynamics_derivatives(c.q, c.v, tau)
    condition = float(np.linalg.cond(r.mass_matrix(c.q)).max()) if r.nv else 1.0
    tolerance = max(RELATIVE, 1e-14 * condition)
    by_q = by_tangent(c, lambda x: r.forward_dynamics(x, v, tau[:, None]))
    by_v = by_vector(c, c.v, lambda x: r.forward_dynamics(q, x, tau[:, None]))
    agree(dq, *by_q, tolerance=tolerance)
    agree(dv, *by_v, tolerance=tolerance)
    by_tau = by_vector(c, tau, lambda x: r.forward_dynamics(q, v, x))
    agree(inverse, *by_tau, tolerance=tolerance)


@many
@given(trees(most=8))
def test_derivatives_of_frame_velocities_and_momentum(tree):
    c = Case(tree)
    r, f, q, v = c.robot, c.frame, c.q[:, None], c.v[:, None]
    for reference in REFERENCES:
        dq, J = r.frame_velocity_derivatives(c.q, c.v, f, reference)
        agree(dq, *by_tangent(c, lambda x, o=reference: r.frame_velocity(x, v, f, o)))
        agree(J, *by_vector(c, c.v, lambda x, o=reference: r.frame_velocity(q, x, f, o)))
        agree(J, r.frame_jacobian(c.q, f, reference))
    if sum(b.inertia.mass for b in c.model.bodies):
        dq, A = r.centroidal_momentum_derivatives(c.q, c.v)
        agree(dq, *by_tangent(c, lambda x: r.centroidal_momentum(x, v)))
        agree(A, r.centroidal_map(c.q))


@many
@given(trees(most=4))
def test_second_derivatives_of_inverse_dynamics(tree):
    c = Case(tree)
    r, q, v, a = c.robot, c.q[:, None], c.v[:, None], c.a[:, None]
    qq, vq, vv, Mq = r.inverse_dynamics_second_derivatives(c.q, c.v, c.a)
    by_q = by_tangent(c, lambda x: r.inverse_dynamics_derivatives(x, v, a))
    for ours, theirs in zip((qq, vq, Mq), by_q, strict=True):
        agree(ours, theirs)
    agree(vv, by_vector(c, c.v, lambda x: r.inverse_dynamics_derivatives(q, x, a))[1])
    agree(vv, vv.swapaxes(-1, -2))
    agree(Mq, Mq.swapaxes(1, 2))


@many
@given(trees(most=8))
def test_a_coupled_model_is_the_free_one_seen_through_a_constant_map(tree):
    parts, seed = tree
    exact = build(parts, seed)
    free = build(
        [Part(p.kind, p.parent, p.aligned, p.massless, p.armature, None) for p in parts], seed
    )
    r, f = Robot(exact), Robot(free)
    rng = np.random.default_rng(seed)
    q, v, a = r.random(rng), rng.normal(size=r.nv), rng.normal(size=r.nv)
    G, qf = np.zeros((f.nv, r.nv)), np.zeros(f.nq)
    for body, loose in zip(exact.bodies, free.bodies, strict=True):
        G[loose.iv, body.iv] = body.joint.ratio * np.eye(body.joint.kind.nv)
        qf[loose.iq] = body.joint.displacement(list(q[body.iq]))
    agree(r.mass_matrix(q), G.T @ f.mass_matrix(qf) @ G)
    agree(r.inverse_dynamics(q, v, a), G.T @ f.inverse_dynamics(qf, G @ v, G @ a))
    agree(r.coriolis_matrix(q, v), G.T @ f.coriolis_matrix(qf, G @ v) @ G)
    agree(r.centroidal_map(q), f.centroidal_map(qf) @ G)
    agree(r.frame_jacobian(q, "f0", "world"), f.frame_jacobian(qf, "f0", "world") @ G)


def test_fifty_digits():
    """The same text in mpmath: identities to 1e-40 hold by algebra, not by luck."""
    with mpmath.workdps(50):
        parts = [
            Part("free", WORLD, False, False, False, None),
            Part("revolute", 0, True, False, True, None),
            Part("universal", 1, False, False, True, None),
            Part("helical", 1, False, False, False, 1),
            Part("ball", 2, False, False, False, None),
            Part("planar", 0, True, False, False, None),
            Part("prismatic", 5, False, False, True, 1),
            Part("revolute", 4, False, True, False, None),
            Part("revolute", 7, False, False, False, None),
        ]
        r = Robot(build(parts, 7, mpmath.mpf, mpmath.sqrt))
        rng = np.random.default_rng(3)
        wide = np.vectorize(mpmath.mpf, otypes=[object])
        v, a = (wide(rng.normal(size=r.nv)) for _ in range(2))
        q = r.integrate(wide(np.asarray(r.neutral())), wide(rng.normal(size=r.nv)))
        M, C, h = r.mass_matrix(q), r.coriolis_matrix(q, v), r.bias(q, v)
        tau = r.inverse_dynamics(q, v, a)
        residuals = {
            "τ = M a + h": tau - M @ a - h,
            "C v = h − g": C @ v + r.gravity(q) - h,
            "Ṁ = C + Cᵀ": r.mass_matrix_rate(q, v) - C - C.T,
            "FD ∘ ID": r.forward_dynamics(q, v, tau) - a,
            "M⁻¹ M": r.inverse_mass_matrix(q) @ M - np.eye(r.nv),
            "Y π": r.torque_regressor(q, v, a) @ np.array(r.model.parameters, object).ravel()
            + wide(armatures_exact(r.model)) * a - tau,
            "T": np.array([r.kinetic_energy(q, v).item() - (v @ M @ v) / 2]),
            "J v": r.frame_jacobian(q, "f8", "world") @ v - r.frame_velocity(q, v, "f8", "world"),
            "⊖ ⊕": r.difference(q, r.integrate(q, v / 3)) - v / 3,
        }  # fmt: skip
        for claim, residual in residuals.items():
            assert max(abs(x) for x in residual.ravel()) < mpmath.mpf("1e-40"), claim


def armatures_exact(model: Model) -> list:
    total = [mpmath.mpf(0)] * model.nv
    for body in model.bodies:
        for dof in body.dofs:
            total[dof] += body.armature
    return total


@pytest.mark.parametrize("kind", MOVING)
def test_every_joint_type_alone(kind):
    """One body on each joint type: power balance, where a wrong subspace rate shows at once."""
    c = Case(([Part(kind, WORLD, False, False, False, None)], 5))
    r = c.robot
    assert (r.nq, r.nv) == (JOINTS[kind].nq, JOINTS[kind].nv)
    q, v = c.along(c.v), c.v + 1j * STEP * c.a
    energy = (r.kinetic_energy(q, v) + r.potential_energy(q)).imag / STEP
    agree(energy, (c.v * r.inverse_dynamics(c.q, c.v, c.a)).sum(axis=1))


def test_batches_equal_single_states_and_nan_stays_in_its_row():
    c = Case(
        (
            [
                Part("free", WORLD, False, False, False, None),
                Part("universal", 0, False, False, True, None),
            ],
            1,
        )
    )
    r = c.robot
    q = r.random(0, (3, 4))
    v = np.random.default_rng(0).normal(size=(4, r.nv))
    M = r.mass_matrix(q)
    assert M.shape == (3, 4, r.nv, r.nv)
    np.testing.assert_allclose(M[2, 1], r.mass_matrix(q[2, 1]), rtol=1e-13, atol=1e-13)
    h = r.bias(q, v)
    assert h.shape == (3, 4, r.nv)
    q[1, 2, 0] = q[1, 2, 3] = np.nan
    spoiled = r.bias(q, v)
    assert np.isnan(spoiled[1, 2]).any()
    keep = np.ones((3, 4), bool)
    keep[1, 2] = False
    np.testing.assert_array_equal(spoiled[keep], h[keep])
    assert r.bias(q[:0], v).shape == (0, 4, r.nv)
