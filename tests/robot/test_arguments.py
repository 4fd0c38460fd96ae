"""Arguments that cannot be meant: one error of ours, which says what is accepted."""

from __future__ import annotations

import copy
import dataclasses
import decimal
import inspect
import pickle

import numpy as np
import pytest
from native_cases import cold_cache, robots  # noqa: F401

import qddot
from qddot.algorithms.catalogue import CATALOGUE, OTHER_NAMES
from qddot.compile.runtime import memory
from qddot.errors import BatchMismatch, InvalidArgument, NotEnoughMemory, QddotError
from qddot.robot.robot import Robot


class Thing:
    """No number."""

    def __repr__(self) -> str:
        return "Thing()"


ARRAYS = {
    "none": [None, 1.0],
    "nested none": [[0.0, 1.0], [None, 1.0]],
    "only none": None,
    "text": "ab",
    "texts": ["a", "b"],
    "bytes": b"ab",
    "ragged": [[1.0, 2.0], [1.0]],
    "objects": np.array([1.0, "a"], object),
    "things": [Thing(), Thing()],
    "dates": np.zeros(2, "M8[s]"),
    "records": np.zeros(2, [("a", float)]),
    "dictionary": {"q": 1.0},
    "set": {1.0, 2.0},
    "decimals": [decimal.Decimal(1), decimal.Decimal(2)],
    "huge": [10**400, 0],
    "generator": (x for x in (1.0, 2.0)),
}


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("kind", ARRAYS)
def test_what_is_no_array_of_numbers(native, kind):
    robot = robots("planar_2r")[0 if native else 1]
    good = np.zeros(2)
    for name in ("bias", "integrate", "difference"):
        method = getattr(robot, name)
        method(good, good)
        for arguments in ((ARRAYS[kind], good), (good, ARRAYS[kind])):
            with pytest.raises(InvalidArgument, match=f"{name}: .*(numbers|floats)"):
                method(*arguments)
    wrench = qddot.Wrench("tool", "world", ARRAYS[kind])
    with pytest.raises(QddotError, match="f_ext"):
        robot.inverse_dynamics(good, good, good, f_ext=wrench)


def test_number_objects_are_numbers():
    robot, definition = robots("planar_2r")
    expected = robot.bias([1.0, 2.0], [0.0, 1.0])
    for q in (np.array([1, 2.0], object), [True, 2], np.array([1, 2], np.int8)):
        for r in (robot, definition):
            found = r.bias(q, [0.0, 1.0])
            assert found.dtype == float
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("native", [True, False])
def test_more_axes_than_arrays_have(native):
    robot = robots("planar_2r")[0 if native else 1]
    q = np.zeros((1,) * 63 + (2,))
    other = np.ones((3, *(1,) * 39, 2))
    for method in (robot.bias, robot.difference):
        assert method(q, other).shape == (*(1,) * 23, 3, *(1,) * 39, 2)
    with pytest.raises(BatchMismatch):
        robot.bias(np.ones((4, *(1,) * 39, 2)), other)
    with pytest.raises(InvalidArgument, match="arrays have 64 axes at most"):
        robot.mass_matrix(q)
    assert robot.mass_matrix(q[(0,) * 20]).ndim == 45


BAD_SIZES = ["a", None, 2.5, -1, [1.5], [2, -1], True, (1,) * 70, Thing(), {2}, np.array(2.5)]


@pytest.mark.parametrize("size", BAD_SIZES, ids=repr)
def test_sizes(size):
    robot, _ = robots("planar_2r")
    with pytest.raises(InvalidArgument, match=r"size: .*(whole number|64 axes)"):
        robot.random(0, size)
    with pytest.raises(InvalidArgument, match=r"batch: .*(whole number|64 axes)"):
        robot.empty("bias", size)


def test_sizes_that_are_accepted():
    robot, _ = robots("planar_2r")
    for size, shape in ((3, (3,)), ((), ()), ([2, 3], (2, 3)), (np.int8(2), (2,)), (0, (0,))):
        assert robot.random(0, size).shape == (*shape, 2)
        assert robot.empty("bias", size).shape == (*shape, 2)
    assert robot.random(0, np.array([2, 3])).shape == (2, 3, 2)


@pytest.mark.parametrize("rng", ["a", -1, 1.5, Thing()], ids=repr)
def test_generators(rng):
    with pytest.raises(InvalidArgument, match=r"rng: .*a seed or a np\.random\.Generator"):
        robots("planar_2r")[0].random(rng)


@pytest.mark.parametrize("dtype", ["foo", int, object, ">f8", Thing(), "f2", 3], ids=repr)
def test_dtypes(dtype):
    with pytest.raises(InvalidArgument, match=r"dtype: .*float64 and float32"):
        robots("planar_2r")[0].empty("bias", 3, dtype)


def test_more_random_states_than_memory_holds(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    with pytest.raises(NotEnoughMemory, match="at most 67108864 states fits"):
        robots("planar_2r")[0].random(0, 10**14)


def test_names_and_options_of_a_wrong_type():
    robot, _ = robots("planar_2r")
    for bad in (None, 3, [], Thing()):
        for call in (robot.compile, robot.casadi, robot.empty, robot.explain):
            with pytest.raises(QddotError, match="no function"):
                call(bad)
        with pytest.raises(QddotError, match="no frame"):
            robot.compile("frame_pose", frame=bad)
        with pytest.raises(QddotError, match="parameter"):
            robot.compile("bias", parameters=[bad])


def test_a_number_of_arrays_that_is_wrong():
    for robot in robots("planar_2r"):
        for arrays in ((), (np.zeros(2),), (np.zeros(2),) * 4):
            with pytest.raises(InvalidArgument, match="it needs q, v, a"):
                robot.call("inverse_dynamics", *arrays)


# arrays of other libraries


def foreign(package: str, error: type[Exception] | None) -> object:
    """An array of another library, which cannot be converted."""

    def convert(self, *_, **__):
        raise error("no conversion")

    members = {"__module__": package, "shape": (2,), "ndim": 1, "__len__": lambda self: 2}
    members |= {"__array__": convert, "__getitem__": lambda self, _: self}
    return type("Foreign", (), members)()


class TracerArrayConversionError(TypeError):
    """As JAX has it."""


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("package", "error", "says"),
    [
        ("torch", RuntimeError, r"x\.detach\(\)\.cpu\(\)\.numpy\(\)"),
        ("torch", TypeError, r"x\.detach\(\)\.cpu\(\)\.numpy\(\)"),
        ("jax._src.interpreters.partial_eval", TracerArrayConversionError, "jax.pure_callback"),
        ("casadi.casadi", TypeError, r'robot\.casadi\("bias"\)'),
        ("casadi.casadi", NotImplementedError, r'robot\.casadi\("bias"\)'),
        ("unknown", ZeroDivisionError, "an array of numbers"),
    ],
)
def test_arrays_of_other_libraries(native, package, error, says):
    robot = robots("planar_2r")[0 if native else 1]
    good, x = np.zeros(2), foreign(package, error)
    robot.bias(good, good)
    for arguments in ((x, good), (good, x)):
        with pytest.raises(InvalidArgument, match=says) as caught:
            robot.bias(*arguments)
        assert "\n" not in str(caught.value)
    with pytest.raises(QddotError):
        robot.bias(good, good, out=x)


def test_symbols_of_casadi_are_sent_to_the_symbolic_form():
    casadi = pytest.importorskip("casadi")
    for robot in robots("planar_2r"):
        robot.mass_matrix(np.zeros(2))
        for kind in (casadi.SX, casadi.MX):
            q = kind.sym("q", 2)
            for given in (q, [q[0], q[1]], np.array([q[0], q[1]])):
                with pytest.raises(InvalidArgument, match=r'robot\.casadi\("mass_matrix"\)'):
                    robot.mass_matrix(given)
    assert robot.casadi("mass_matrix")(casadi.SX.sym("q", 2)).shape == (2, 2)


# names


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_misspelt_keyword_lists_the_real_ones(name):
    robot, _ = robots("planar_2r")
    method = getattr(robot, name)
    known = list(inspect.signature(method).parameters)
    assert known[-1] == "out"
    assert "unknown" not in known
    given = dict.fromkeys(known[:-1])
    with pytest.raises(TypeError, match=f"it takes {', '.join(known)}$") as caught:
        method(**given, outt=1)
    assert isinstance(caught.value, QddotError)
    assert "closest: 'out'" in str(caught.value)


def test_the_closest_keyword_is_named():
    robot, _ = robots("planar_2r")
    x = np.zeros(2)
    robot.inverse_dynamics(x, x, x)
    expected = (
        "inverse_dynamics has no argument 'fext' (closest: 'f_ext'); "
        "it takes q, v, a, f_ext, friction, out"
    )
    with pytest.raises(QddotError) as caught:
        robot.inverse_dynamics(x, x, x, fext=[])
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("rnea", "robot.inverse_dynamics(q, v, a)"),
        ("mj_inverse", "robot.inverse_dynamics(q, v, a)"),
        ("crba", "robot.mass_matrix(q)"),
        ("inertia", "robot.mass_matrix(q)"),
        ("aba", "robot.forward_dynamics(q, v, tau)"),
        ("accel", "robot.forward_dynamics(q, v, tau)"),
        ("nle", "robot.bias(q, v)"),
        ("coriolis", "robot.coriolis_matrix(q, v)"),
        ("computeCoriolisMatrix", "robot.coriolis_matrix(q, v)"),
        ("gravload", "robot.gravity(q)"),
        ("forward_kinematics", "robot.frame_pose(q, frame)"),
        ("fkine", "robot.frame_pose(q, frame)"),
        ("jacobian", "robot.frame_jacobian(q, frame, reference)"),
        ("jacob0", "robot.frame_jacobian(q, frame, reference)"),
    ],
)
def test_names_of_other_libraries(theirs, ours):
    robot, _ = robots("planar_2r")
    with pytest.raises(AttributeError) as caught:
        getattr(robot, theirs)
    assert str(caught.value) == f"'Robot' object has no attribute {theirs!r}; it is {ours} here"
    assert not hasattr(robot, theirs)
    assert getattr(robot, theirs, None) is None
    assert theirs not in dir(robot)


def test_names_of_other_libraries_hide_nothing():
    robot, _ = robots("planar_2r")
    assert not set(OTHER_NAMES) & {name for name in vars(Robot) if not name.startswith("_")}
    assert set(CATALOGUE) <= set(dir(robot))
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        robot.nonsense  # noqa: B018
    # attributes of a class with __getattr__ are slower to find
    assert "__getattr__" not in {name for kind in Robot.__mro__ for name in vars(kind)}
    assert copy.copy(robot).name == robot.name
    assert pickle.loads(pickle.dumps(robot.mass_matrix)).__name__ == "mass_matrix"
    assert pickle.loads(pickle.dumps(Robot.mass_matrix)) is Robot.mass_matrix


# limits

URDF = """<robot name="limited"><link name="base"/>
<link name="a"/><link name="b"/><link name="c"/><link name="d"/>
<joint name="turn" type="revolute"><parent link="base"/><child link="a"/>
  <limit lower="-1" upper="2" velocity="3" effort="40"/></joint>
<joint name="follow" type="revolute"><parent link="a"/><child link="b"/>
  <limit lower="-1" upper="1" velocity="9" effort="9"/>
  <mimic joint="turn" multiplier="-2" offset="0.5"/></joint>
<joint name="slide" type="prismatic"><parent link="b"/><child link="c"/>
  <limit lower="0" upper="0.5" velocity="0.1" effort="7"/></joint>
<joint name="spin" type="continuous"><parent link="c"/><child link="d"/>
  <limit velocity="5" effort="6"/></joint>
</robot>"""


def test_limits_are_arrays_in_the_order_of_the_coordinates(tmp_path):
    (tmp_path / "limited.urdf").write_text(URDF)
    limits = qddot.load(tmp_path / "limited.urdf").limits
    # the follower is within [-1, 1] where -2 q + 0.5 is: q within [-0.25, 0.75]
    np.testing.assert_allclose(limits.lower, [-0.25, 0.0, -np.inf])
    np.testing.assert_allclose(limits.upper, [0.75, 0.5, np.inf])
    np.testing.assert_allclose(limits.velocity, [3.0, 0.1, 5.0])
    np.testing.assert_allclose(limits.effort, [40.0, 7.0, 6.0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        limits.lower = 0.0
    with pytest.raises(ValueError, match="read-only"):
        limits.lower[0] = 0.0


def test_limits_of_a_floating_base(tmp_path):
    (tmp_path / "limited.urdf").write_text(URDF)
    robot = qddot.load(tmp_path / "limited.urdf", base="free")
    limits = robot.limits
    assert [x.size for x in dataclasses.astuple(limits)] == [robot.nq] * 2 + [robot.nv] * 2
    assert np.isinf(limits.lower[:7]).all()
    assert np.isinf(limits.effort[:6]).all()
    np.testing.assert_allclose(limits.velocity[6:], [3.0, 0.1, 5.0])
    q = robot.random(0, 100)
    assert ((q >= limits.lower) & (q <= limits.upper)).all()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("native", [True, False])
def test_classes_of_arrays_become_plain_arrays(native):
    robot = Robot(qddot.load("planar_2r").model, native=native)
    q, v = np.array([[0.1, 0.2]]), np.array([0.3, 0.4])
    compiled = robot.compile(lambda robot, q, v: robot.mass_matrix(q) @ v)
    refill = robot.compile("mass_matrix", zeros="kept")
    wanted = robot.call("mass_matrix", q), robot.call("inverse_dynamics", q, v, v)
    product = robot.call("mass_matrix", q) @ v
    # the first call and the second one, which goes past the checks; alone and beside lists
    for given in (np.matrix(q), np.ma.masked_array(q), q.view(np.recarray), np.matrix(q)):
        results = (
            (robot.mass_matrix(given), wanted[0]),
            (robot.inverse_dynamics(given, [0.3, 0.4], v), wanted[1]),
            (compiled(given, v), product),
            (refill(given), wanted[0]),
        )
        for found, expected in results:
            assert type(found) is np.ndarray
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("native", [True, False])
def test_masked_entries_are_refused_in_words(native):
    robot = Robot(qddot.load("planar_2r").model, native=native)
    q = np.array([0.1, 0.2])
    masked = np.ma.masked_array(q, [False, True])
    calls = (
        lambda: robot.mass_matrix(masked),
        lambda: robot.inverse_dynamics([0.1, 0.2], masked, q),
        lambda: robot.compile("mass_matrix", zeros="kept")(masked),
        lambda: robot.compile(lambda robot, q: robot.gravity(q))(masked),
    )
    robot.mass_matrix(q)
    robot.inverse_dynamics(q, q, q)
    for call in calls:
        for _ in range(2):
            with pytest.raises(QddotError, match="masked entries have no value"):
                call()
