"""One text, many scalars: every operation and every catalogue function on every back end."""

from __future__ import annotations

import cmath
import math

import casadi
import mpmath
import numpy as np
import pytest
from everything import everything_robot

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.compile.trace.tape import record
from qddot.control.casadi_law import run_casadi
from qddot.model.links import Contact, Loop
from qddot.robot.robot import Robot
from qddot.spatial import scalar
from qddot.spatial.algebra import Transform
from qddot.spatial.dual import Dual, partials_of

OPTIONS = {
    "frame": "f2",
    "reference": "local_world_aligned",
    "forces": (("f1", "world"), ("f2", "local")),
    "friction": True,
    "axes": ("rz", "x", "y"),
    "actuated": ("j6", "j8"),
    "prescribed": ("j1", "j3"),
    "constraints": (
        Contact("f0"),
        Loop("hinge", "revolute", "f2", "f6", (1.0, 2.0, 2.0)),
        Loop("tie", "weld", "f3", "f8", rows=("x", "rz")),
        Contact("f8", "surface", Transform.identity(), rows=("z", "rx")),
    ),
    "stabilisation": 3.0,
}


def every_operation(x, y):
    """A function of two numbers that uses the whole closed list of operations."""
    big = scalar.where(scalar.less(x, y), scalar.sqrt(x * x + y * y), x / y)
    jumps = scalar.sign(x - y) * 0.5 + scalar.floor(x + 0.25)
    unit = scalar.tanh(x) * 0.75
    curved = scalar.exp(-x) * scalar.acos(unit) + scalar.asin(unit) * scalar.log(x * x + 0.5)
    bounded = scalar.minimum(x, 0.5) - scalar.maximum(x, 0.5 * y) * scalar.power(x * x + 1.0, y)
    inside = scalar.logical_and(scalar.less_equal(x, 1.0), scalar.less(-1.0, x))
    outside = scalar.logical_or(scalar.logical_not(inside), scalar.equal(x, 5.0 + x))
    chosen = scalar.where(outside, scalar.absolute(x) * y, 2.0 * x)
    smooth = scalar.sin(x) + scalar.cos(y) * big - scalar.atan2(x, y)
    return smooth + jumps + curved + bounded + chosen


@pytest.mark.parametrize(("x", "y"), [(0.3, 1.2), (1.7, 0.4), (-0.6, 0.9), (-1.5, -0.2)])
def test_every_operation_on_every_back_end(x, y):
    norm, angle = math.hypot(x, y), math.atan2(x, y)
    big = norm if x < y else x / y
    jumps = math.copysign(0.5, x - y) + math.floor(x + 0.25)
    unit = 0.75 * math.tanh(x)
    curved = math.exp(-x) * math.acos(unit) + math.asin(unit) * math.log(x * x + 0.5)
    bounded = min(x, 0.5) - max(x, 0.5 * y) * (x * x + 1.0) ** y
    chosen = abs(x) * y if not -1.0 < x <= 1.0 else 2.0 * x
    expected = math.sin(x) + math.cos(y) * big - angle + jumps + curved + bounded + chosen
    close = pytest.approx(expected, rel=1e-14)
    assert every_operation(x, y) == close
    assert every_operation(np.array([x]), np.array([y]))[0] == close
    assert every_operation(complex(x), complex(y)) == close
    a, b = casadi.SX.sym("a"), casadi.SX.sym("b")
    f = casadi.Function("f", [a, b], [every_operation(a, b)])
    assert float(f(x, y)) == close
    assert run_casadi(f, [[x], [y]])[0] == close
    with mpmath.workdps(40):
        assert float(every_operation(mpmath.mpf(x), mpmath.mpf(y))) == close
    # recorded, compiled, and back from CasADi
    tape = record(lambda p: [every_operation(*p)], [2])
    assert tape.run([x, y])[0] == close
    source = KernelSource(
        *("every", "Every operation."), lambda *p: [every_operation(*p)], ((), ()), ((),), "every"
    )
    assert compile_kernel(source).gufunc(x, y) == close
    again = record(lambda p: run_casadi(f, [p[:1], p[1:]]), [2])
    assert again.run([x, y])[0] == close


@pytest.mark.parametrize(("x", "y"), [(0.3, 1.2), (1.7, 0.4), (-1.5, 0.2)])
def test_dual_numbers_through_every_operation(x, y):
    found = partials_of(every_operation(Dual(x, {0: 1.0}), Dual(y, {1: 1.0})), 2)
    a, b = casadi.SX.sym("a"), casadi.SX.sym("b")
    f = every_operation(a, b)
    gradient = casadi.Function("g", [a, b], [casadi.gradient(f, casadi.vertcat(a, b))])
    expected = pytest.approx(np.array(gradient(x, y)).ravel().tolist(), rel=1e-12)
    assert found == expected
    # derivatives of what is recorded
    tape = record(
        lambda p: partials_of(every_operation(Dual(p[0], {0: 1.0}), Dual(p[1], {1: 1.0})), 2), [2]
    )
    assert tape.run([x, y]) == expected


@pytest.mark.parametrize("x", [0.3, 2.0, -2.0])
def test_complex_step_through_every_operation(x):
    y, step = 0.7, 1e-30
    slope = every_operation(complex(x, step), complex(y)).imag / step
    array = every_operation(np.array([complex(x, step)]), np.array([complex(y)]))[0].imag / step
    with mpmath.workdps(40):
        expected = float(mpmath.diff(lambda t: every_operation(t, mpmath.mpf(y)), x))
    assert slope == pytest.approx(expected, rel=1e-13)
    assert array == pytest.approx(expected, rel=1e-13)
    assert cmath.isfinite(slope)


def arguments(robot: Robot, row, rng):
    """Random inputs and all options of a catalogue function."""
    options = {o.name: OPTIONS[o.name] for o in row.options}
    inputs = []
    for argument in row.inputs:
        if argument.shape == ("nq",):
            inputs.append(robot.random(rng))
        else:
            nc = sum(c.size for c in OPTIONS["constraints"])
            shapes = {"nv": (robot.nv,), "nw": (2, 6), "nc": (nc,)}
            inputs.append(rng.normal(size=shapes[argument.shape[0]] if argument.shape else ()))
    return inputs, options


def results(value) -> tuple:
    """The outputs of a function, also where there is only one."""
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("name", CATALOGUE)
def test_casadi_equals_interpreted(name):
    robot, rng = everything_robot(), np.random.default_rng(2)
    row = CATALOGUE[name]
    f = robot.casadi(name, **{o.name: OPTIONS[o.name] for o in row.options})
    assert f.name_in() == [a.name for a in row.inputs]
    states = [arguments(robot, row, rng) for _ in range(3)]
    # one call for all states: that a batch equals single states has a test of its own
    stacked = [np.stack(x) for x in zip(*(inputs for inputs, _ in states), strict=True)]
    interpreted = results(robot.call(name, *stacked, **states[0][1]))
    assert len(interpreted) == len(row.outputs)
    for k, (inputs, _) in enumerate(states):
        for batch, theirs in zip(interpreted, results(f(*inputs)), strict=True):
            ours = batch[k] if stacked else batch
            symbolic = np.array(theirs).reshape(ours.shape)
            scale = max(1.0, np.abs(ours).max(initial=0.0))
            assert np.abs(symbolic - ours).max(initial=0.0) <= 1e-12 * scale


@pytest.mark.parametrize("name", CATALOGUE)
def test_batch_equals_single_states(name):
    robot, rng = everything_robot(), np.random.default_rng(4)
    row = CATALOGUE[name]
    states = [arguments(robot, row, rng) for _ in range(4)]
    stacked = [
        np.stack(x).reshape(2, 2, *np.shape(x[0]))
        for x in zip(*(s for s, _ in states), strict=True)
    ]
    batches = results(robot.call(name, *stacked, **states[0][1]))
    singles = [results(robot.call(name, *inputs, **options)) for inputs, options in states]
    for batch, *single in zip(batches, *singles, strict=True):
        batch = batch.reshape(4, *single[0].shape)
        np.testing.assert_allclose(batch, single, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_row_has_a_method_with_documentation(name):
    method = getattr(Robot, name)
    assert CATALOGUE[name].doc in method.__doc__
    assert CATALOGUE[name].doc.endswith((".", ")", "."))
    for argument in (*CATALOGUE[name].inputs, *CATALOGUE[name].outputs):
        if argument.name != "f_ext":  # given by wrenches, which have their own shapes
            shape = ", ".join(("...", *argument.shape))
            assert f"{argument.name}: ({shape}) " in method.__doc__


def test_derivatives_of_the_manifold_at_zero_are_finite():
    """Automatic differentiation through integrate and difference at a zero step."""
    robot = everything_robot()
    q, dv = casadi.SX.sym("q", robot.nq), casadi.SX.sym("dv", robot.nv)
    there = robot.casadi("integrate")(q, dv)
    back = robot.casadi("difference")(q, there)
    slope = casadi.Function("s", [q, dv], [casadi.jacobian(back, dv)])
    at = np.array(slope(robot.random(0), np.zeros(robot.nv)))
    np.testing.assert_allclose(at, np.eye(robot.nv), atol=1e-12)


def test_shape_errors_say_what_is_needed():
    robot = everything_robot()
    with pytest.raises(
        qddot.QddotError, match=r"gravity: q must have shape \(\.\.\., nq=19\), got \(3,\)"
    ):
        robot.gravity(np.zeros(3))
    with pytest.raises(qddot.QddotError, match=r"batch shapes q \(2,\), v \(3,\) do not broadcast"):
        robot.bias(robot.random(0, 2), np.zeros((3, robot.nv)))
    with pytest.raises(qddot.QddotError, match="it needs an array of numbers"):
        robot.gravity(["a"] * robot.nq)
    with pytest.raises(qddot.QddotError, match="it needs an array of numbers"):
        robot.gravity([None] * robot.nq)
    with pytest.raises(qddot.QddotError, match="no frame 'f22' in 'random'; closest: 'f2'"):
        robot.frame_pose(robot.neutral(), "f22")
    with pytest.raises(qddot.QddotError, match="no reference 'wrld'; closest: 'world'"):
        robot.frame_jacobian(robot.neutral(), "f1", "wrld")
    with pytest.raises(qddot.QddotError, match="no function 'mass_matrx'; closest: 'mass_matrix'"):
        robot.casadi("mass_matrx")
