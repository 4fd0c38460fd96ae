"""Real logs of a TX40 and a UR10 against published figures."""

from __future__ import annotations

import numpy as np
import pytest
from identification_logs import STANDARD, WRIST, native, require, tx40, ur10

from qddot import identify
from qddot.identify import Shaft, base_parameters, torque_model
from qddot.identify.torque_model import DriveTerm


@pytest.mark.parametrize(
    ("terms", "shafts", "rank"),
    [((), (), 36), (("armature",), (), 40), (STANDARD, (), 58), (STANDARD, (WRIST,), 61)],
)
def test_ranks_of_the_tx40(terms, shafts, rank):
    robot = native(str(require("staubli_tx40", "tx40_mdh_modified.urdf")))
    base = base_parameters(torque_model(robot, terms, shafts=shafts))
    assert base.rank == rank


def test_groupings_of_the_tx40_are_the_published_ones():
    """The regressor of figaroh groups the same parameters, by another algorithm."""
    file = require("staubli_tx40", "TX40_bp_5.csv")
    robot = native(str(require("staubli_tx40", "tx40_mdh_modified.urdf")))
    base = base_parameters(torque_model(robot, STANDARD, shafts=(WRIST,)))
    short = {"viscous": "fv", "coulomb": "fs", "offset": "off", "armature": "Ia"}

    def rename(name: str) -> str:
        owner, kind = name.split(".")
        number = owner[-1]
        tail = f"m{number}" if owner.startswith("motor") else number
        return f"{short.get(kind, kind)}{tail}"

    ours = {}
    for k in range(base.rank):
        row = {rename(base.names[c]): base.mixing[k, c] for c in np.flatnonzero(base.mixing[k])}
        ours[rename(base.labels[k])] = row
    published = [line.split(",")[0] for line in file.read_text().splitlines()]
    assert len(published) == base.rank - 1  # it regroups the inertia of motor 6
    for text in published:
        terms = text.replace("- ", "+ -").split(" + ")
        row = {}
        for term in terms:
            factor, _, name = term.rpartition("*")
            sign = -1.0 if term.startswith("-") and not factor else 1.0
            row[name.lstrip("-")] = float(factor) if factor else sign
        first = next(iter(row))
        for name, factor in row.items():
            assert ours[first].get(name, 0.0) == pytest.approx(factor, abs=2e-6), text


def test_friction_of_the_tx40_is_within_three_published_deviations():
    robot, log = tx40()
    terms = (DriveTerm("armature"), DriveTerm("viscous"), DriveTerm("coulomb", 0.01))
    wrist = Shaft("motor6", WRIST.ratios, terms)
    fit = identify.fit(robot, log, STANDARD, v0=0.01, shafts=(wrist,))
    found = dict(zip(fit.design.base.labels, fit.values, strict=True))
    lines = require("staubli_tx40", "TX40_bp_5.csv").read_text().splitlines()
    published = {line.split(",")[0]: [float(x) for x in line.split(",")[3:]] for line in lines}
    shared = found["motor6.viscous"]
    for j in range(1, 7):
        # there the shaft's friction is written as a coupling only
        own = found[f"joint_{j}.viscous"] + (shared if j > 4 else 0.0)
        for name, x in ((f"fv{j}", own), (f"fs{j}", found[f"joint_{j}.coulomb"])):
            value, percent = published[name]
            assert abs(x - value) < 3.0 * abs(value) * percent / 100, name


@pytest.fixture(scope="module")
def tx40_fit():
    robot, log = tx40()
    train, test = log.split(2 / 3)
    return identify.fit(robot, train, shafts=(WRIST,)), test


def test_held_out_third_of_the_tx40(tx40_fit):
    fit, test = tx40_fit
    result = identify.validate(fit, test)
    assert result.total <= 0.055
    assert result.before > 0.5
    feasible = identify.fit(fit.prior_robot, fit.design.log, fit.model, "feasible", shafts=(WRIST,))
    assert abs(identify.validate(feasible, test).total - result.total) <= 0.003
    rows = feasible.full_parameters[: fit.model.rigid_count].reshape(-1, 10)
    assert identify.feasible.is_feasible(rows).all()


def test_held_out_third_of_the_ur10():
    robot, log = ur10()
    train, test = log.split(2 / 3)
    fit = identify.fit(robot, train)
    assert base_parameters(torque_model(robot, STANDARD)).rank == 58
    result = identify.validate(fit, test)
    assert result.total <= 0.062
    found = [j.relative for j in result.joints][:5]
    assert np.all(np.array(found) <= [0.14, 0.04, 0.06, 0.11, 0.12])


def test_the_momentum_form_gives_the_same_without_accelerations():
    robot, log = ur10()
    both = [identify.fit(robot, log, STANDARD, form=form) for form in ("torque", "momentum")]
    assert np.abs(both[0].values - both[1].values).max() < 0.2 * np.abs(both[0].values).max()
    inside = np.abs(both[0].values - both[1].values) < both[0].half_widths
    assert inside.mean() > 0.9


def test_the_database_and_the_csv_of_the_ur10_are_the_same_log():
    robot, log = ur10()
    file = require("ur10_unisa", "ur10_exciting_trajectory.csv")
    columns = {"t": 0, "q": range(1, 7), "v": range(7, 13), "tau": range(13, 19)}
    text = identify.read(file, robot, columns=columns)
    assert len(text) == len(log) == 3441
    np.testing.assert_allclose(text.q, log.q, atol=1e-8)
    np.testing.assert_allclose(text.tau, log.tau, atol=1e-6)


def test_clean_real_logs_raise_no_suspicion():
    for robot, log in (ur10(), tx40()):
        step = max(round(0.005 / log.dt), 1)
        v = None if log.v is None else log.v[::step]
        log = identify.make_log(robot, log.time[::step], log.q[::step], log.tau[::step], v)
        for part in (log, *log.split(0.5)):
            assert identify.inspect(robot, part).suspicions == ()
