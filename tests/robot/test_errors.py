"""Errors travel: between processes, into copies, with their message and all their fields."""

from __future__ import annotations

import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qddot
from qddot.errors import (
    InvalidArgument,
    InvalidModel,
    QddotError,
    SingularInertia,
    UnknownName,
    Unsupported,
)

HANG = 120
VALUES = {
    "str": lambda: "panda_hnd",
    "str | Path": lambda: Path("folder") / "robot.urdf",
    "object": lambda: ("found", 1.5),
    "int": lambda: 3,
    "float": lambda: 0.25,
    "bool": lambda: True,
    "int | None": lambda: 7,
    "str | None": lambda: "package[extra]",
    "tuple[int, ...]": lambda: (2, 3),
    # an iterator is used up when the message is made
    "Iterable[str]": lambda: iter(["shoulder", "elbow"]),
    "Sequence[str]": lambda: ("q", "v"),
    "Iterable[tuple[int, ...]]": lambda: iter([(2,), (3,)]),
    "Mapping[str, float]": lambda: {"shoulder": 1.5, "elbow": -2.0},
    "Mapping[str, Mapping[str, float]]": lambda: {"row": {"other": 0.5}},
}
"""A value for an argument of an error, by its annotation."""


def classes() -> list[type[QddotError]]:
    """All errors of the library, those of every module."""
    for module in pkgutil.walk_packages(qddot.__path__, "qddot."):
        if "__main__" not in module.name and ".peers." not in module.name:
            importlib.import_module(module.name)
    found, left = [], [QddotError]
    while left:
        found.append(left.pop())
        left += found[-1].__subclasses__()
    return [kind for kind in dict.fromkeys(found) if kind.__module__.startswith("qddot.")]


CLASSES = classes()


def made(kind: type[QddotError]) -> QddotError:
    """An error of a class, from arguments of the types that it asks for."""
    if "__init__" not in {name for base in kind.__mro__[:-3] for name in vars(base)}:
        return kind("a reason", 2)
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    return kind(**{p.name: VALUES[p.annotation]() for p in parameters})


def test_the_list_is_whole():
    names = {kind.__name__ for kind in CLASSES}
    assert {"QddotError", "InvalidArgument", "NotEnoughMemory", "Skipped"} <= names
    assert names >= {
        n
        for n, kind in vars(qddot.errors).items()
        if inspect.isclass(kind) and n[0].isupper() and issubclass(kind, QddotError)
    }


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "travel",
    [
        copy.copy,
        copy.deepcopy,
        *(lambda e, p=p: pickle.loads(pickle.dumps(e, p)) for p in range(2, 6)),
    ],
    ids=["copy", "deepcopy", "pickle2", "pickle3", "pickle4", "pickle5"],
)
def test_every_error_travels(kind, travel):
    error = made(kind)
    assert str(error)
    error.add_note("a note") if hasattr(error, "add_note") else None
    other = travel(error)
    assert type(other) is kind
    assert other is not error
    assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))
    assert repr(other) == repr(error)


def test_a_copy_is_deep_or_not():
    error = InvalidArgument("q", [1, 2], "numbers")
    assert copy.copy(error).found is error.found
    assert copy.deepcopy(error).found is not error.found
    both = [error, error.found]
    again = copy.deepcopy(both)
    assert again[0].found is again[1]


class Local(UnknownName):
    """A class of a user, who knows nothing of pickling."""

    def __init__(self, *, flavour: str) -> None:
        self.flavour = flavour
        super().__init__("flavour", flavour, ("up", "down"))


def test_a_class_of_a_user_travels():
    error = Local(flavour="strange")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.flavour) == (Local, str(error), "strange")


class Missing(QddotError, FileNotFoundError):
    """A class with the layout of a builtin one."""


def test_a_class_that_is_an_error_of_the_system_too_travels():
    error = Missing("robot.urdf is gone")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (Missing, str(error))


def test_a_value_that_cannot_travel_goes_as_its_text():
    """The value that was not understood may be anything; the message must arrive all the same."""
    for found in (lambda: 0, (x for x in "ab"), sys, open):
        error = InvalidArgument("q", found, "it needs numbers")
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error)
        assert again.accepted == error.accepted
        assert again.found in (found, repr(found))
        assert copy.copy(error).found is found


def test_a_sound_choice_and_a_missing_one_are_named_as_such():
    choice = Unsupported("robot", "spot", "its base is free")
    assert str(choice) == "robot: 'spot' cannot be used here; its base is free"
    missing = InvalidArgument("frame", None, "name the frame of the payload")
    assert str(missing) == "frame: nothing is given; name the frame of the payload"


def test_errors_arrive_as_the_cause_of_others():
    try:
        try:
            raise InvalidModel("link 'a'", "no mass")
        except InvalidModel as error:
            raise SingularInertia("r", ["j"]) from error
    except SingularInertia as error:
        again = pickle.loads(pickle.dumps(error))
    assert again.joints == ("j",)


PROGRAM = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import qddot

def work(name):
    return qddot.load(name).nq

def refuse(value):
    return qddot.load("planar_2r").mass_matrix(value)

if __name__ == "__main__":
    context = get_context(sys.argv[1])
    with context.Pool(2) as pool:
        for function, value in ((work, "pandaa"), (refuse, [None, 1.0]), (refuse, [1.0])):
            try:
                pool.apply(function, (value,))
            except qddot.QddotError as error:
                print(type(error).__name__, error)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        try:
            list(pool.map(work, ["planar_2r", "pandaa"]))
        except qddot.QddotError as error:
            print(type(error).__name__, error.known[:1], error)
"""


@pytest.mark.parametrize("start", multiprocessing.get_all_start_methods())
def test_errors_come_back_from_other_processes(tmp_path, start):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, script, start], capture_output=True, text=True, timeout=HANG, check=False
    )
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        "UnknownName",
        "WrongType",
        "ShapeMismatch",
        "UnknownName",
    ], done.stderr
    assert "closest: 'panda'" in lines[0]
    assert np.all(["needs an array of numbers" in lines[1], "(..., nq=2)" in lines[2]])
