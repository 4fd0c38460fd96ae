"""The native compiler: tape and lowering, and every catalogue function against its definition."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_cases import (
    SECOND,
    assert_close,
    cold_cache,  # noqa: F401
    inputs_of,
    results,
    robots,
    same_bits,
)

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.compile.ir.calls import FunctionCall
from qddot.compile.ir.loop import loop_ir
from qddot.compile.ir.schedule import schedule_pieces
from qddot.compile.ir.stores import split_outputs, writes_after, writes_of
from qddot.compile.ir.types import VectorType, vector_type
from qddot.compile.kernel import KernelSource, compile_kernel
from qddot.compile.trace.tape import record
from qddot.spatial import scalar

EPS = np.finfo(float).eps
STEP = 1e-30
# the second derivatives of larger robots take too long to compile
NAMES = ("short", "everything", "ur5e", "panda", "quadruped", "delta", "planar_2r")
# vectors of each width run all functions on a small robot, and on a large one those that differ
# in the shapes and zeros of their results
WIDE = ("inverse_dynamics", "mass_matrix", "torque_regressor", "constrained_dynamics")
CASES = [
    pytest.param(r, f, marks=pytest.mark.native_core if r == "short" or f in wide else ())
    for r in NAMES
    for wide in [WIDE if r == "everything" else ()]
    for f in CATALOGUE
    if f != SECOND
]
CASES += [(r, SECOND) for r in ("short", "planar_2r", "delta")]
# in single precision only what is quick to compile
COSTLY = ("derivatives", "regressor", "body_", "frame_poses", "coriolis", "rate", "inverse_mass")
SINGLE_PRECISION = [
    pytest.param("short", f, marks=pytest.mark.native_core) for f in CATALOGUE if f != SECOND
]
SINGLE_PRECISION += [(r, f) for r in ("delta", "planar_2r") for f in CATALOGUE]
SINGLE_PRECISION += [("everything", f) for f in CATALOGUE if not any(c in f for c in COSTLY)]


# catalogue


@pytest.mark.parametrize(("robot", "name"), CASES)
def test_native_equals_interpreted(robot, name):
    native, definition = robots(robot)
    for batch in ((7,), (3, 4), ()):
        arrays, options = inputs_of(native, name, batch)
        found = native.call(name, *arrays, **options)
        assert isinstance(found, tuple) == (len(CATALOGUE[name].outputs) > 1)
        assert all(np.asarray(x).dtype == np.float64 for x in results(found))
        expected = definition.call(name, *arrays, **options)
        floor = load_size(definition, name, arrays)
        assert_close(found, expected, rounding(definition, name, arrays[0], options), floor)


def load_size(robot, name, arrays) -> float:
    """The size of torques where constraints may carry all of a load, and leave motors rounding."""
    if name != "constrained_inverse_dynamics":
        return 0.0
    return np.abs(robot.inverse_dynamics(*arrays[:3])).max()


def rounding(robot, name, q, options) -> float:
    """What the order of operations, which depends on the processor, may change in results.

    Multipliers come from equations that are as ill-conditioned as J M⁻¹ Jᵀ is at these states.
    """
    if name not in ("constrained_dynamics", "constrained_inverse_dynamics", "impact"):
        return 1e-12
    J = robot.call("constraint_jacobian", q, constraints=options["constraints"])
    compliance = J @ np.linalg.solve(robot.mass_matrix(q), np.swapaxes(J, -1, -2))
    return max(1e-12, EPS * np.linalg.cond(compliance).max())


@pytest.mark.native_core
@pytest.mark.parametrize("name", CATALOGUE)
def test_methods_give_the_same_bits_in_one_call_and_in_a_batch(name):
    native, _ = robots("planar_2r")
    arrays, options = inputs_of(native, name, (6,))
    if options.pop("forces", None):
        arrays.pop()
    options.pop("friction", None)
    method = getattr(native, name)
    batch = results(method(*arrays, **options))
    for k in range(6):
        single = results(method(*(x[k].copy() for x in arrays), **options))
        assert isinstance(method(*arrays, **options), tuple) == (len(single) > 1)
        assert all(same_bits(a, b[k]) for a, b in zip(single, batch, strict=True))


@pytest.mark.parametrize(("robot", "name"), SINGLE_PRECISION)
def test_float32_is_right_to_its_precision(robot, name):
    """To 1e-4 of the largest entry; rounding of the inputs alone moves results by 1e-6."""
    native, definition = robots(robot)
    arrays, options = inputs_of(native, name, (9,))
    short = [x.astype(np.float32) for x in arrays]
    found = native.call(name, *short, **options)
    assert all(x.dtype == np.float32 for x in results(found))
    wide = [x.astype(np.float64) for x in short]
    floor = load_size(definition, name, wide)
    assert_close(found, definition.call(name, *wide, **options), 1e-4, floor)


@pytest.mark.native_core
def test_numbers_of_any_real_type_as_numpy_would():
    """First call and later ones alike; float32 only where all inputs are."""
    native, _ = robots("planar_2r")
    robot = type(native)(native.model, native=True)
    q, v = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    expected = native.bias(q, v)
    kinds = (np.int8, np.int16, np.int32, np.int64, np.float16, ">f8", ">i2")
    for kind in kinds:
        for _ in range(2):
            found = robot.bias(q.astype(kind), v.astype(kind))
            assert same_bits(found, expected), kind
    for mixed in (
        ([1, 2], [3, -1]), ((1.0, 2.0), v), (q.astype(np.float32), v), (q, v.astype("f4")),
        (q.astype(np.int32), v.astype(np.float32)), (list(q), v.astype(np.int8)),
    ):  # fmt: skip
        assert same_bits(robot.bias(*mixed), expected)
    assert robot.bias(q.astype("f4"), v.astype("f4")).dtype == np.float32
    assert robot.bias(q.astype(">f4"), v.astype("f4")).dtype == np.float32
    flags = np.array([True, False])
    assert same_bits(robot.gravity(flags), robot.gravity(np.array([1.0, 0.0])))
    halves = [
        robot.interpolate(q.astype("f4"), v.astype("f4"), t) for t in (0.5, 0.5, np.float64(0.5))
    ]
    assert {x.dtype for x in halves} == {np.dtype(np.float64)}


def test_other_numbers_are_interpreted():
    native, definition = robots("planar_2r")
    q = np.array([0.3, -0.4])
    native.gravity(q)
    turned = native.gravity(q + 1j * STEP * np.array([1.0, 0.0]))
    assert turned.dtype == complex
    np.testing.assert_allclose(turned.imag / STEP, native.gravity_derivatives(q)[:, 0], rtol=1e-12)
    with mpmath.workdps(30):
        wide = native.gravity(np.array([mpmath.mpf(3) / 10, mpmath.mpf(-4) / 10]))
        assert isinstance(wide[0], mpmath.mpf)
    assert_close(wide.astype(float), definition.gravity(q), 1e-15)


@pytest.mark.parametrize("kind", ["complex64", "complex128", "object"])
def test_out_of_interpreted_functions(kind):
    native, definition = robots("planar_2r")
    q = np.array([[0.3, -0.4]] * 3)
    out = np.empty((3, 2), kind)
    assert native.gravity(q.astype(kind), out=out) is out
    np.testing.assert_allclose(out.astype(complex).real, definition.gravity(q), rtol=1e-6)


# derivatives


def by_tangent(robot, q, function):
    """Derivative of a function of the configuration, by the complex step; a last axis is added."""
    moved = robot.integrate(q.astype(complex)[None], 1j * STEP * np.eye(robot.nv))
    return tuple(np.moveaxis(x.imag / STEP, 0, -1) for x in results(function(moved)))


def by_velocity(robot, v, function):
    """The same by a vector."""
    moved = v + 1j * STEP * np.eye(robot.nv)
    return tuple(np.moveaxis(x.imag / STEP, 0, -1) for x in results(function(moved)))


@pytest.mark.parametrize("robot", ["everything", "delta"])
def test_first_derivatives_by_complex_step(robot):
    r, _ = robots(robot)
    rng = np.random.default_rng(3)
    q, (v, a) = r.random(rng), rng.normal(size=(2, r.nv))
    frame = r.frame_names[-1]
    expected = (
        *by_tangent(r, q, lambda x: r.inverse_dynamics(x, v, a)),
        *by_velocity(r, v, lambda x: r.inverse_dynamics(q, x, a)),
        r.mass_matrix(q),
    )
    assert_close(r.inverse_dynamics_derivatives(q, v, a), expected, 1e-11)
    expected = (
        *by_tangent(r, q, lambda x: r.forward_dynamics(x, v, a)),
        *by_velocity(r, v, lambda x: r.forward_dynamics(q, x, a)),
        r.inverse_mass_matrix(q),
    )
    condition = np.linalg.cond(r.mass_matrix(q))
    tolerance = max(1e-11, 10 * EPS * condition)
    assert_close(r.forward_dynamics_derivatives(q, v, a), expected, tolerance)
    assert_close(r.gravity_derivatives(q), by_tangent(r, q, r.gravity), 1e-11)
    for reference in ("local", "world", "local_world_aligned"):
        expected = (
            *by_tangent(r, q, lambda x, o=reference: r.frame_velocity(x, v, frame, o)),
            r.frame_jacobian(q, frame, reference),
        )
        found = r.frame_velocity_derivatives(q, v, frame, reference)
        assert_close(found, expected, 1e-11)
    expected = (
        *by_tangent(r, q, lambda x: r.centroidal_momentum(x, v)),
        r.centroidal_map(q),
    )
    assert_close(r.centroidal_momentum_derivatives(q, v), expected, 1e-11)


@pytest.mark.parametrize("robot", ["short", "planar_2r"])
def test_second_derivatives_by_complex_step(robot):
    r, _ = robots(robot)
    rng = np.random.default_rng(3)
    q, (v, a) = r.random(rng), rng.normal(size=(2, r.nv))
    qq, vq, _ = by_tangent(r, q, lambda x: r.inverse_dynamics_derivatives(x, v, a))
    _, vv, _ = by_velocity(r, v, lambda x: r.inverse_dynamics_derivatives(q, x, a))
    expected = (qq, vq, vv, *by_tangent(r, q, r.mass_matrix))
    assert_close(r.inverse_dynamics_second_derivatives(q, v, a), expected, 1e-11)


# tape


def compiled(function, n):
    """A function of n numbers as a kernel of one vector."""
    outputs = len(record(lambda x: function(*x), [n]).outputs)
    key = str(record(lambda x: function(*x), [n]))
    return compile_kernel(
        KernelSource("f", "A test.", lambda x: function(*x), ((n,),), ((outputs,),), key)
    ).gufunc


@pytest.mark.native_core
@pytest.mark.parametrize("constant_first", [True, False])
def test_an_index_and_a_constant_of_the_same_value_differ(constant_first):
    """A symbol times 2.0, and times the input of number 2; likewise in the outputs."""

    def function(w, x, y, z):
        constant = [x * 2.0, x + 2.0, x - 3.0, w * 3.0, scalar.atan2(x, 2.0), 2.0, 3.0, 1.0]
        symbol = [x * y, x + y, x - z, w * z, scalar.atan2(x, y), y, z, x]
        return [*constant, *symbol] if constant_first else [*symbol, *constant]

    values = [3.0, 5.0, 7.0, 11.0]
    expected = function(*values)
    assert record(lambda x: function(*x), [4]).run(values) == expected
    np.testing.assert_allclose(compiled(function, 4)(values), expected, rtol=1e-15)


@pytest.mark.native_core
def test_zero_and_minus_zero_differ():
    def function(x):
        return [scalar.atan2(0.0, x), scalar.atan2(-0.0, x), scalar.where(x < 0.0, -0.0, 1.0)]

    found = compiled(function, 1)([-2.0])
    np.testing.assert_allclose(found, [math.pi, -math.pi, 0.0])
    assert math.copysign(1.0, found[2]) == -1.0


FOLDED = {
    "x + 0": (lambda x, y: x + 0.0, "return %0"),
    "0 + x": (lambda x, y: 0 + x, "return %0"),
    "x - 0": (lambda x, y: x - 0.0, "return %0"),
    "0 - x": (lambda x, y: 0.0 - x, "%2 = neg %0\nreturn %2"),
    "x - x": (lambda x, y: x - x, "return 0.0"),
    "x · 0": (lambda x, y: x * 0.0, "return 0.0"),
    "x · 1": (lambda x, y: 1 * x, "return %0"),
    "x · -1": (lambda x, y: x * -1.0, "%2 = neg %0\nreturn %2"),
    "-(x · -1)": (lambda x, y: -(x * -1.0), "return %0"),
    "x / x": (lambda x, y: x / x, "return 1.0"),
    "x / 4": (lambda x, y: x / 4.0, "%2 = mul %0, 0.25\nreturn %2"),
    "2 · (3 · x)": (lambda x, y: 2.0 * (3.0 * x), "%2 = mul %0, 6.0\nreturn %2"),
    "x + -y": (lambda x, y: x + -y, "%2 = sub %0, %1\nreturn %2"),
    "-x + y": (lambda x, y: -x + y, "%2 = sub %1, %0\nreturn %2"),
    "x - -y": (lambda x, y: x - -y, "%2 = add %0, %1\nreturn %2"),
    "-(x - y)": (lambda x, y: -(x - y), "%2 = sub %1, %0\nreturn %2"),
    "-x · -y": (lambda x, y: -x * -y, "%2 = mul %0, %1\nreturn %2"),
    "-x · 3": (lambda x, y: -x * 3.0, "%2 = mul %0, -3.0\nreturn %2"),
    "sin(-x)": (lambda x, y: scalar.sin(-x), "%2 = sin %0\n%3 = neg %2\nreturn %3"),
    "cos(-x)": (lambda x, y: scalar.cos(-x), "%2 = cos %0\nreturn %2"),
    "x y - y x": (lambda x, y: x * y - y * x, "return 0.0"),
    "sin(0.5)": (lambda x, y: scalar.sin(0.5), f"return {math.sin(0.5)!r}"),
    "x y twice": (lambda x, y: x * y + y * x, "%2 = mul %0, %1\n%3 = add %2, %2\nreturn %3"),
}


@pytest.mark.parametrize("case", FOLDED)
def test_folding(case):
    function, expected = FOLDED[case]
    tape = record(lambda x: [function(*x)], [2])
    assert str(tape) == "%0 = input 0\n%1 = input 1\n" + expected
    x, y = 0.75, -1.25
    assert tape.run([x, y])[0] == pytest.approx(function(x, y), rel=1e-15, abs=1e-15)


def test_counts_and_dead_code():
    tape = record(lambda x: [scalar.sin(x[0]) * x[1] + 1.0, [x[0] / x[1]] and x[1]], [3])
    assert tape.operation_counts() == {"sin": 1, "mul": 1, "add": 1}
    assert (tape.operations, tape.inputs, len(tape.code)) == (3, 3, 6)


def test_counts_of_a_robot_are_those_of_its_tape():
    native, _ = robots("planar_2r")
    kernel = native.explain("inverse_dynamics")
    tape = kernel.source.record_tape()
    assert kernel.facts["operations"] == tape.operation_counts()
    assert tape.operation_counts()["sin"] <= 2
    assert len(str(tape).splitlines()) == len(tape.code) + 1
    assert "operations" in str(kernel)
    assert (kernel.bytes_in, kernel.bytes_out) == (48, 16)
    assert "48 bytes in, 16 bytes out" in str(kernel)
    assert kernel.gufunc.signature == kernel.source.signature == "(2),(2),(2)->(2)"


def test_symbols_refuse_what_they_cannot_record():
    with pytest.raises(TypeError, match="ask for the truth"):
        record(lambda x: [x[0] if x[0] < x[1] else x[1]], [2])
    with pytest.raises(TypeError):
        record(lambda x: [x[0] * 1j], [1])
    with pytest.raises(TypeError):
        record(lambda x: [x[0] + "1"], [1])


@pytest.mark.parametrize("scalar", ["double", "float"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_writes_cover_every_output_when_it_is_known(lanes, scalar):
    vector = VectorType(scalar, lanes)
    tape = record(lambda x: [x[0], 0.0, x[0] * x[1], *[2.0] * 9, x[1] + 1.0, x[0]], [2])
    shapes = [(1,), (2, 5), (), (2,)]
    parts = split_outputs(tape.outputs, shapes)
    written = [{} for _ in shapes]
    for entry, writes in writes_after(tape, parts, vector).items():
        assert -1 <= entry < len(tape.code)
        for write in writes:
            assert len(write.values) in (lanes, lanes // 2, len(parts[write.array]))
            for k, x in enumerate(write.values, start=write.first):
                assert type(x) is float or x <= entry
                assert written[write.array].setdefault(k, x) == x
    assert [[row[k] for k in sorted(row)] for row in written] == [list(part) for part in parts]


def test_rows_that_begin_with_a_line_are_written_a_line_at_a_time():
    tape = record(lambda x: [y * 2.0 for y in x], [24])
    wide = VectorType("double", 8)
    lengths = [len(w.values) for w in writes_of([tape.outputs], wide)]
    assert lengths == [8, 8, 8]
    # 20 numbers are two lines and a half: halves, but constants fill vectors
    parts = [tape.outputs[:20], [0.0] * 10 + list(tape.outputs[:10])]
    writes = writes_of(parts, wide)
    assert [len(w.values) for w in writes if w.array == 0] == [4] * 5
    assert [(w.first, len(w.values)) for w in writes if w.array == 1] == [
        (0, 8),
        (8, 4),
        (12, 4),
        (16, 4),
    ]
    assert {len(w.values) for w in writes_of(parts, VectorType("double", 4))} == {4}


@pytest.mark.parametrize("lanes", [0, 4])
def test_schedule_keeps_every_value_that_crosses(lanes):
    source = robots("everything")[0].explain("mass_matrix").source
    tape = source.record_tape()
    writes = (
        writes_after(tape, split_outputs(tape.outputs, source.outputs), VectorType("double", 4))
        if lanes
        else {}
    )
    plan = schedule_pieces(tape, writes, piece=50)
    assert len(plan.pieces) > 5
    home = {i: k for k, part in enumerate(plan.pieces) for i in part}
    assert sorted(home) == list(range(len(tape.code)))
    last = {}
    for i, (name, *args) in enumerate(tape.code):
        later = [x for write in writes.get(i, ()) for x in write.values]
        for x in (*(args if name != "input" else ()), *later):
            if type(x) is int and tape.code[x][0] != "input" and home[x] != home[i]:
                last[x] = home[i]
    assert set(last) == set(plan.slots)
    assert max(plan.slots.values()) < plan.workspace < len(plan.slots)
    # two values never share a slot while both are needed
    for k in range(len(plan.pieces)):
        alive = [plan.slots[i] for i in last if home[i] <= k <= last[i]]
        assert len(alive) == len(set(alive))


def test_functions_of_code_stay_shallow():
    """LLVM climbs through the loops of a function one in the other: thousands end its stack."""
    vector = vector_type("float64", 32)
    calls = [FunctionCall(f"piece{k}", None, vector) for k in range(3000)]
    loop = loop_ir(vector, [(3,)], [(2,)], 100, calls, "loop")
    functions = loop.split("define ")[1:]
    # for batches near and far
    assert sum(text.count("call void @piece") for text in functions) == 2 * 3000
    assert max(text.count("phi i64") for text in functions) < 100


# programs


def run_program(program, inputs):
    """The values of a program of the closed list of operations, in any scalar."""
    values = list(inputs)

    def value(x):
        return values[x % len(values)] if isinstance(x, int) else x

    def given_value(x):
        return inputs[x % len(inputs)] if isinstance(x, int) else x

    for name, i, j, k, m in program:
        # where a function jumps or is singular it is asked about inputs, which are exact
        a, b, p, r = value(i), value(j), given_value(k), given_value(m)
        values.append(
            {
                "add": lambda a=a, b=b: a + b,
                "sub": lambda a=a, b=b: a - b,
                "mul": lambda a=a, b=b: a * b,
                "div": lambda a=a, b=b: a / (b * b + 0.5),
                "neg": lambda a=a: -a,
                "sin": lambda a=a: scalar.sin(a),
                "cos": lambda a=a: scalar.cos(a),
                "sqrt": lambda a=a: scalar.sqrt(a * a + 0.25),
                "atan2": lambda a=a, b=b: scalar.atan2(a, b * b + 0.5),
                "angle": lambda p=p, r=r: scalar.atan2(p, r),
                "where": lambda a=a, b=b, p=p, r=r: scalar.where(scalar.less(p, r), a, b),
                "sign": lambda a=a, p=p: scalar.sign(p) * a,
                "floor": lambda a=a, p=p: scalar.floor(p) * a,
            }[name]()
        )
    return values


class Rounded:
    """A float with a bound on what two ulp of rounding an operation can have done to it."""

    def __init__(self, value: float, error: float) -> None:
        self.value, self.error = value, error + 2 * EPS * abs(value)

    def __add__(self, other):
        return Rounded(self.value + of(other).value, self.error + of(other).error)

    def __sub__(self, other):
        return Rounded(self.value - of(other).value, self.error + of(other).error)

    def __neg__(self):
        return Rounded(-self.value, self.error)

    def __mul__(self, other):
        o = of(other)
        spread = abs(self.value) * o.error + abs(o.value) * self.error + self.error * o.error
        return Rounded(self.value * o.value, spread)

    def __truediv__(self, other):
        inverse = 1.0 / other.value
        return self * Rounded(inverse, other.error * inverse**2 * 1.01)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other):
        return of(other) - self


def of(x):
    return x if isinstance(x, Rounded) else Rounded(float(x), 0.0)


def bounds(program, values):
    """The error bound of each value of a program: the operations again, on errors."""
    rounded = [Rounded(x, 0.0) for x in values]

    def value(x, upto):
        return rounded[x % upto] if isinstance(x, int) else of(x)

    for n, (name, i, j, _, _) in enumerate(program, start=3):
        a, b = value(i, n), value(j, n)
        spread = {
            "add": a + b, "sub": a - b, "mul": a * b, "neg": a, "sin": a, "cos": a, "sqrt": a,
            "div": a / (b * b + 0.5), "atan2": (a + b * b + 0.5) * 4.0, "angle": of(4.0),
            "where": of(abs(a.error) + abs(b.error)), "sign": a, "floor": a * 10.0,
        }[name]  # fmt: skip
        error = spread.error + (spread.value if name == "where" else 0.0)
        rounded[n] = Rounded(rounded[n].value, error + 4 * EPS)
    return [x.error for x in rounded]


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, 1e-200, -1e200, 1e100, math.inf, -math.inf, math.nan]
OPERATIONS = {
    "add": (lambda x, y: x + y, np.add),
    "sub": (lambda x, y: x - y, np.subtract),
    "mul": (lambda x, y: x * y, np.multiply),
    "div": (lambda x, y: x / y, np.divide),
    "neg": (lambda x, y: -x, lambda x, y: -x),
    "sin": (lambda x, y: scalar.sin(x), lambda x, y: np.sin(x)),
    "cos": (lambda x, y: scalar.cos(x), lambda x, y: np.cos(x)),
    "sqrt": (lambda x, y: scalar.sqrt(x), lambda x, y: np.sqrt(x)),
    "atan2": (lambda x, y: scalar.atan2(x, y), np.arctan2),
    "where": (
        lambda x, y: scalar.where(scalar.less(x, y), x, 7.0),
        lambda x, y: np.where(x < y, x, 7.0),
    ),
    "sign": (lambda x, y: scalar.sign(x), lambda x, y: np.sign(x)),
    "floor": (lambda x, y: scalar.floor(x), lambda x, y: np.floor(x)),
}
CONSTANTS = st.sampled_from([0.0, 1.0, -1.0, 2.0, 3.0, 0.1, -0.7, 10.0])
OPERAND = st.integers(0, 30) | CONSTANTS
PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from((*OPERATIONS, "angle")),
        *(OPERAND,) * 4,
    ),
    min_size=1,
    max_size=20,
)
NUMBERS = st.floats(-5, 5).filter(lambda x: x == 0 or abs(x) > 1e-3)


@pytest.mark.native_core
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS, st.lists(st.tuples(*[NUMBERS] * 3), min_size=5, max_size=5))
def test_random_programs_agree_interpreted_on_the_tape_and_compiled(program, states):
    tape = record(lambda x: run_program(program, x), [3])
    kernel = compiled(lambda *x: run_program(program, list(x)), 3)
    with np.errstate(all="ignore"):
        batch = kernel(np.array(states))
    for state, native in zip(states, batch, strict=True):
        direct = run_program(program, list(state))
        if max(map(abs, direct)) > 1e12:
            continue
        taped = tape.run(state)
        for limit, x, y, z in zip(bounds(program, direct), direct, taped, native, strict=True):
            assert abs(x - y) <= limit
            assert abs(x - z) <= limit


@pytest.mark.native_core
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_on_special_numbers(name):
    """Zeros, infinities and NaN as NumPy has them, which is how a batch is interpreted."""
    ours, theirs = OPERATIONS[name]
    grid = np.array([(x, y) for x in SPECIAL for y in SPECIAL])
    with np.errstate(all="ignore"):
        expected = theirs(grid[:, 0], grid[:, 1])
        found = compiled(lambda x, y: [ours(x, y)], 2)(grid)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=4 * EPS, atol=0)


@pytest.mark.native_core
def test_constants_beyond_float32_become_infinite():
    kernel = compiled(lambda x: [x * 1e300, x + 1.0], 1)
    with np.errstate(all="ignore"):
        found = kernel(np.ones((3, 1), np.float32))
    assert found.dtype == np.float32
    assert (found == np.array([np.inf, 2.0], np.float32)).all()


def test_a_float32_loop_that_cannot_be_made_gives_nan_and_a_warning(monkeypatch):
    kernel = compiled(lambda x, y: [x * y, x + y, x - y], 2)

    def fail(*_):
        raise MemoryError("none left")

    monkeypatch.setattr("qddot.compile.kernel._load_code", fail)
    x = np.ones((5, 2), np.float32)
    out = np.zeros((3, 5), np.float32).T
    with pytest.warns(RuntimeWarning, match="no float32 loop: none left"):
        kernel(x, out=out)
    assert np.isnan(out).all()
    monkeypatch.undo()
    assert kernel(x).tolist() == [[1.0, 2.0, 0.0]] * 5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_while_a_float32_loop_is_made_gives_nan(monkeypatch):
    kernel = compiled(lambda x, y: [x * y, x + y], 2)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("qddot.compile.kernel._load_code", interrupted)
    out = np.zeros((5, 2), np.float32)
    kernel(np.ones((5, 2), np.float32), out=out)
    assert np.isnan(out).all()


def test_errors_of_shape_are_those_of_the_interpreter():
    for robot in robots("planar_2r"):
        robot.bias(np.zeros(2), np.zeros(2))
        for q, v in (
            (np.zeros(3), np.zeros(2)), (np.zeros(2), np.zeros((2, 1))), (0.0, np.zeros(2)),
            (np.zeros(2), np.zeros((4, 5))), ([], [0.0, 0.0]),
        ):  # fmt: skip
            with pytest.raises(qddot.errors.ShapeMismatch, match="must have shape"):
                robot.bias(q, v)
        with pytest.raises(qddot.QddotError, match=r"batch shapes.*broadcast"):
            robot.bias(np.zeros((2, 2)), np.zeros((3, 2)))
        for wrong in (None, "ab", ["a", "b"], [None, None]):
            with pytest.raises((qddot.QddotError, TypeError)):
                robot.bias(wrong, np.zeros(2))
