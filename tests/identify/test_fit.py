"""Fits of virtual robots, whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from identification_logs import STANDARD, native, virtual

import qddot
from qddot import identify
from qddot.errors import InvalidArgument, NotIdentifiable, UnknownName
from qddot.identify import TorqueModel, base_parameters, torque_model
from qddot.identify.base_parameters import group_columns
from qddot.identify.design import REST_SHARE, Design, choose_filters, peak_speeds
from qddot.identify.estimators import gather_moments, solve_weighted
from qddot.identify.feasible import is_feasible, pseudo_inertia, repair_prior
from qddot.identify.signals import Filter
from qddot.robot.robot import Robot
from qddot.writers import convert


def truth_of(fit, truth):
    return fit.design.base.values(TorqueModel(truth, fit.model.drives).prior())


def with_drivetrains(robot, **values):
    bodies = [
        replace(b, joint=replace(b.joint, drivetrain=replace(b.joint.drivetrain, **values)))
        for b in robot.model.bodies
    ]
    return Robot(replace(robot.model, bodies=tuple(bodies)), native=True)


@pytest.fixture(scope="module")
def case():
    robot, truth, log = virtual("ur5e")
    return robot, truth, log, identify.fit(robot, log, STANDARD, v0=0.003)


# base parameters


def test_base_parameters_reproduce_the_torque():
    robot = native("ur5e")
    model = torque_model(robot, STANDARD)
    base = base_parameters(model)
    rng = np.random.default_rng(1)
    q, v, a = (rng.normal(size=(50, robot.nv)) for _ in range(3))
    Y = model.regressor(q, v, a)
    pi = rng.normal(size=len(model.names))
    np.testing.assert_allclose(Y[..., base.independent] @ base.values(pi), Y @ pi, atol=1e-7)


def test_rounding_does_not_become_a_rank():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 4))
    noise = 3e-14 * rng.normal(size=(200, 1))
    joined = np.hstack([rows, noise, rows[:, :1] + 1e-13 * rng.normal(size=(200, 1))])
    base = group_columns(joined, tuple("abcdef"))
    assert base.rank == 4
    assert base.unseen == ("e",)
    assert base.grouping(0) == "a + f"


def test_the_scale_of_a_column_does_not_decide_the_rank():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3)) * [1e-6, 1.0, 1e4]
    assert group_columns(rows, tuple("abc")).rank == 3


# filters


@pytest.mark.parametrize("bandwidth", [2.0, 8.0])
def test_a_filter_differentiates_slow_signals_exactly(bandwidth):
    dt = 0.002
    f = Filter(bandwidth, dt, attenuation=70.0)
    t = np.arange(3000) * dt
    x = np.sin(2 * np.pi * 0.25 * bandwidth * t)[:, None]
    w = 2 * np.pi * 0.25 * bandwidth
    inner = t[f.half : -f.half]
    np.testing.assert_allclose(f.apply(x)[:, 0], np.sin(w * inner), atol=5e-4)
    np.testing.assert_allclose(f.apply(x, 1)[:, 0] / w, np.cos(w * inner), atol=5e-4)
    np.testing.assert_allclose(f.apply(x, 2)[:, 0] / w**2, -np.sin(w * inner), atol=2e-3)
    fast = np.sin(2 * np.pi * 2.0 * bandwidth * t)[:, None]
    assert np.abs(f.apply(fast)).max() < 1e-3


def test_decimation_is_filtering_and_picking():
    f = Filter(5.0, 0.002)
    x = np.random.default_rng(0).normal(size=(4000, 2))
    whole = f.apply(x)
    count = (len(x) - 2 * f.half - 1) // f.step + 1
    picked = f.decimator(count) @ x[: 2 * f.half + 1 + (count - 1) * f.step]
    np.testing.assert_allclose(picked, whole[:: f.step][:count], atol=1e-12)


def test_blocks_do_not_change_the_sums(monkeypatch):
    robot, _, log = virtual()
    model = torque_model(robot, STANDARD)
    motion, torque = choose_filters(log)
    rest = REST_SHARE * peak_speeds(log, motion)
    design = Design(model, base_parameters(model), log, motion, torque, rest)
    whole = gather_moments(design.blocks(), design.rows).total
    monkeypatch.setattr("qddot.identify.design._BLOCK_BYTES", 1)
    assert sum(1 for _ in design.blocks()) > 5
    np.testing.assert_allclose(gather_moments(design.blocks(), design.rows).total, whole, rtol=1e-9)


def test_filtering_torques_alone_biases_coulomb_friction():
    """The reason to filter columns: the same log, columns taken at the filtered motion."""
    robot, truth, log = virtual(noise=0.0)
    fit = identify.fit(robot, log, STANDARD, v0=1e-4, method="ols")
    true = truth_of(fit, truth)
    blocks = list(fit.design.blocks())
    tau = np.concatenate([b.tau for b in blocks])
    q, v, a = (np.concatenate([getattr(b, n) for b in blocks]) for n in "qva")
    sharp = fit.model.regressor(q, v, a)[..., fit.design.base.independent]
    naive = np.linalg.lstsq(sharp.reshape(-1, sharp.shape[-1]), tau.ravel(), rcond=None)[0]
    friction = [k for k, n in enumerate(fit.design.base.labels) if n.endswith("coulomb")]
    ours, theirs = (np.abs(x - true)[friction].max() for x in (fit.values, naive))
    assert ours < 0.25 * theirs


def test_the_prior_has_the_springs_of_the_description():
    robot = with_drivetrains(native("planar_2r"), stiffness=3.0, rest=(0.4,), damping=0.2)
    # the reference position of MJCF is an offset of the joint
    bodies = [replace(b, joint=replace(b.joint, offset=0.1)) for b in robot.model.bodies]
    robot = Robot(replace(robot.model, bodies=tuple(bodies)))
    terms = ("armature", "viscous", "spring", "offset")
    rng = np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, 20, robot.nv))
    model = torque_model(robot, terms)
    expected = robot.inverse_dynamics(q, v, a, friction=True)
    pull = expected - robot.inverse_dynamics(q, v, a)
    np.testing.assert_allclose(pull, 0.2 * v + 3.0 * (q + 0.1 - 0.4), atol=1e-12)
    np.testing.assert_allclose(model.regressor(q, v, a) @ model.prior(), expected, atol=1e-12)
    # an offset alone is no spring
    alone = torque_model(robot, ("offset",))
    np.testing.assert_array_equal(alone.prior()[alone.rigid_count :], 0.0)


# estimates


def test_the_truth_is_found(case):
    _, truth, _, fit = case
    wrong = np.abs(fit.prior_values - truth_of(fit, truth))
    left = np.abs(fit.values - truth_of(fit, truth))
    assert left.sum() < 0.1 * wrong.sum()
    assert fit.total < 0.02
    assert np.mean(left < fit.half_widths) > 0.8


def test_intervals_cover_the_truth_over_seeds():
    """95 % intervals; six seeds here, fifty in docs/identification.py."""
    inside, naive = [], []
    for seed in range(6):
        robot, truth, log = virtual("ur5e", seed, duration=15.0)
        fit = identify.fit(robot, log, STANDARD, v0=0.003)
        error = np.abs(fit.values - truth_of(fit, truth))
        inside.append(np.mean(error < fit.half_widths))
        blocks = list(fit.design.blocks())
        products = gather_moments(blocks, fit.design.rows)
        plain = solve_weighted(products.total, products.counts.sum(axis=0))
        naive.append(np.mean(error < 1.96 * np.sqrt(np.diag(plain.inverse))))
    assert 0.88 <= np.mean(inside) <= 0.995
    assert np.mean(naive) < np.mean(inside)


def test_intervals_hold_with_a_bend_of_friction_that_is_not_given():
    """Where noise is low, a v₀ that is too large would bias more than intervals tell."""
    inside = []
    for seed in range(4):
        robot, truth, log = virtual("ur5e", seed, duration=30.0, rate=500.0, noise=0.001)
        fit = identify.fit(robot, log, ("viscous", "coulomb"))
        assert [[t.kind for t in terms] for terms in fit.model.drives] == [
            ["viscous", "coulomb"]
        ] * 6
        error = np.abs(fit.values - truth_of(fit, truth))
        inside += (error < fit.half_widths)[fit.is_determined].tolist()
    assert np.mean(inside) > 0.87
    # one that is given stays
    given = identify.fit(robot, log, ("viscous", "coulomb"), v0=0.02)
    assert {t.speed for terms in given.model.drives for t in terms} == {0.0, 0.02}


def test_outliers_count_less_in_a_robust_fit():
    robot, truth, log = virtual()
    tau = np.array(log.tau)
    rng = np.random.default_rng(0)
    for start in rng.integers(0, len(tau) - 40, 12):
        tau[start : start + 40] += 8.0 * np.abs(tau).max()
    spoiled = identify.make_log(robot, log.time, log.q, tau)
    errors = {}
    for method in ("wls", "robust"):
        fit = identify.fit(robot, spoiled, STANDARD, method, bandwidth=5.0)
        errors[method] = np.linalg.norm(fit.values - truth_of(fit, truth))
    assert errors["robust"] < 0.35 * errors["wls"]


def test_friction_terms_are_chosen_by_what_they_predict():
    robot, _, log = virtual()
    fit = identify.fit(robot, log, "auto")
    assert fit.selection is not None
    assert fit.selection.end <= fit.selection.start
    # the truth has none of the further terms: they may not make it worse
    plain = identify.fit(robot, log, STANDARD, v0=0.003)
    other = virtual(seed=0, duration=21.0)[2]
    ours, simple = (identify.validate(f, other).total for f in (fit, plain))
    assert ours < 1.3 * simple


def test_a_load_dependent_truth_is_recognised():
    robot, _, log = virtual("ur5e", noise=0.002)
    motion = choose_filters(log)[0]
    q, v, a = (motion.apply(log.q, order) for order in range(3))
    half = motion.half
    load = np.abs(robot.inverse_dynamics(q, v, a)) * np.sign(v) * 0.15
    tau = np.array(log.tau[half:-half])
    tau[:, 1:3] += load[:, 1:3]
    heavy = identify.make_log(robot, log.time[half:-half], log.q[half:-half], tau)
    chosen = identify.fit(robot, heavy, "auto").selection.drives
    for j in (1, 2):
        assert "load" in {t.kind for t in chosen[j]}


# what the data cannot say


def test_a_joint_that_does_not_move_gets_no_numbers():
    robot, _, log = virtual("ur5e")
    q = np.array(log.q)
    q[:, 0] = 0.3
    fit = identify.fit(robot, identify.make_log(robot, log.time, q, log.tau), STANDARD)
    refused = {r.name for r in fit.refusals}
    own = {f"{robot.joint_names[0]}.{k}" for k in ("viscous", "coulomb")}
    assert own <= refused
    assert not {row.name for row in fit.base} & refused
    assert all(name not in str(fit.base) for name in own)


def test_nothing_moves():
    robot, _, log = virtual()
    still = np.tile(log.q[:1], (len(log), 1))
    with pytest.raises((NotIdentifiable, qddot.QddotError)):
        identify.fit(robot, identify.make_log(robot, log.time, still, log.tau), STANDARD)


def test_a_feasible_fit_needs_a_prior_or_bounds():
    robot, _, log = virtual()
    with pytest.raises(NotIdentifiable, match="neither a prior nor bounds"):
        identify.fit(robot, log, STANDARD, "feasible", use_prior=False)
    bounds = dict.fromkeys(robot.body_names, (0.1, 20.0))
    fit = identify.fit(robot, log, STANDARD, "feasible", use_prior=False, mass_bounds=bounds)
    rows = fit.full_parameters[:20].reshape(-1, 10)
    assert np.all((rows[:, 0] > 0.09) & (rows[:, 0] < 20.1))
    assert is_feasible(rows).all()


def test_questions_that_make_no_sense():
    robot, _, log = virtual()
    for options, error in (
        ({"method": "magic"}, InvalidArgument),
        ({"friction": ("glue",)}, UnknownName),
        ({"friction": "some"}, InvalidArgument),
        ({"bandwidth": -1.0}, InvalidArgument),
        ({"mass_bounds": {"nobody": (0, 1)}}, InvalidArgument),
    ):
        with pytest.raises(error):
            identify.fit(robot, log, **options)
    body = robot.body_names[0]
    box = ((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))
    for options, message in (
        ({"com_boxes": {"nobody": box}}, "com_boxes: 'nobody' .* bodies are 'link1', 'link2'"),
        ({"com_boxes": {body: box[::-1]}}, "two corners"),
        ({"com_boxes": {body: ((0.0, 1.0), (1.0, 1.0, 1.0))}}, "two corners"),
        ({"com_boxes": {body: box}, "method": "robust"}, "robust has no bounds"),
        ({"mass_bounds": {body: (1.0, 2.0)}, "method": "wls"}, "wls has no bounds"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            identify.fit(robot, log, STANDARD, **{"method": "feasible", **options})
    with pytest.raises(InvalidArgument, match="the robot has"):
        identify.fit(native("ur5e"), log)
    with pytest.raises(qddot.QddotError, match="one freedom each"):
        torque_model(qddot.load("quadruped"))


# possible bodies


def test_pseudo_inertia_is_the_second_moment_of_mass():
    points = np.random.default_rng(0).normal(size=(6, 3))
    masses = np.random.default_rng(1).uniform(0.5, 2.0, 6)
    I = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points, strict=True))
    ten = [masses.sum(), *(masses @ points), *I[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]
    lifted = np.column_stack([points, np.ones(6)])
    np.testing.assert_allclose(pseudo_inertia(ten), lifted.T @ (masses[:, None] * lifted))
    assert is_feasible(ten)
    ten[4] *= -1.0
    assert not is_feasible(ten)


def test_a_singular_prior_is_repaired_and_said_so():
    rows = np.array([[0.2, 0.0, 0.0, 0.0084, *np.zeros(6)]])
    made, notes = repair_prior(rows, ["tool"])
    assert np.linalg.eigvalsh(pseudo_inertia(made[0])).min() > 0.0
    assert "tool" in notes[0]


def test_a_feasible_fit_goes_back_into_the_file(tmp_path, case):
    robot, truth, log, _ = case
    fit = identify.fit(robot, log, STANDARD, "feasible")
    source = tmp_path / "arm.urdf"
    convert(qddot.load("ur5e"), source)
    out = tmp_path / "identified.urdf"
    fit.write(source, out)
    again = Robot(qddot.load(out).model, native=True)
    q = robot.random(0, 40)
    before, after = (np.abs(r.gravity(q) - truth.gravity(q)).max() for r in (robot, again))
    assert after < 0.2 * before
    again.rollout(robot.neutral(), np.zeros(robot.nv), steps=10, dt=0.001)


def test_identified_friction_is_the_same_both_ways():
    """Friction of the description at negative speed does not outlive the fit."""
    robot, truth, log = virtual()
    uneven = with_drivetrains(robot, friction=0.5, backward_friction=50.0)
    found = identify.fit(uneven, log, STANDARD, "feasible").robot
    expected = [b.joint.drivetrain.friction for b in truth.model.bodies]
    for sign in (0, 1):
        levels = [b.joint.drivetrain.friction_levels[sign] for b in found.model.bodies]
        np.testing.assert_allclose(levels, expected, rtol=0.1)


def test_a_fit_predicts_the_torques_of_the_truth(case):
    robot, truth, _, fit = case
    rng = np.random.default_rng(1)
    q, v, a = robot.random(rng, 50), rng.normal(size=(50, 6)), rng.normal(size=(50, 6))
    expected = truth.inverse_dynamics(q, v, a, friction=True)
    error = np.linalg.norm(fit.predict(q, v, a) - expected) / np.linalg.norm(expected)
    assert error < 0.02


def test_uncertainty_reaches_the_terms(case):
    robot, truth, _, fit = case
    q = robot.random(0, 30)
    spread = identify.torque_uncertainty(fit, q)
    rest = np.zeros_like(q)
    rigid = fit.design.base.independent < fit.model.rigid_count
    columns = fit.model.regressor(q, rest, rest)[..., fit.design.base.independent]
    found = (columns * rigid) @ fit.values
    error = np.abs(found - truth.gravity(q))
    assert np.mean(error[:, 1:] <= spread.gravity[:, 1:]) > 0.75
    assert spread.mass_matrix.shape == (30, robot.nv, robot.nv)
    assert np.all(spread.acceleration >= 0.0)
