"""Multiply-adds say the same as the products and sums they are made of, with fewer operations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import qddot
from qddot.algorithms.catalogue import CATALOGUE
from qddot.compile.trace.fuse import fuse_multiply_adds
from qddot.compile.trace.tape import record
from qddot.robot.native import source_of

OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a, b: -a,
}
PROGRAMS = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 40), st.integers(0, 40)),
    min_size=1,
    max_size=60,
)


def run(program, inputs):
    """All values of a program whose operands are numbers of values before."""
    values = [*inputs, 3.0]
    for name, i, j in program:
        values.append(OPERATIONS[name](values[i % len(values)], values[j % len(values)]))
    return values


@given(PROGRAMS, st.lists(st.integers(-9, 9).map(float), min_size=3, max_size=3), st.booleans())
def test_the_same_values_where_arithmetic_is_exact(program, inputs, every):
    """On small integers nothing is rounded, so any order of the terms gives the same."""
    tape = record(lambda x: run(program, x) if every else run(program, x)[-1:], [3])
    expected = tape.run(inputs)
    if max(map(abs, run(program, inputs))) < 2.0**50:
        assert fuse_multiply_adds(tape).run(inputs) == expected
    assert fuse_multiply_adds(tape).operations <= tape.operations


@pytest.mark.parametrize(
    ("terms", "counts"),
    [
        (lambda a, b, c, d, e: a * b + c * d, {"mul": 1, "fma": 1}),
        (lambda a, b, c, d, e: e + (a * b + c * d), {"fma": 2}),
        (lambda a, b, c, d, e: a * b - e, {"fms": 1}),
        (lambda a, b, c, d, e: e - (a * b - c * d), {"fma": 1, "fnma": 1}),
        (lambda a, b, c, d, e: (e + a * b) * (e - a * b), {"fma": 1, "fnma": 1, "mul": 1}),
        (lambda a, b, c, d, e: (c - d) + a * b, {"sub": 1, "fma": 1}),
        (lambda a, b, c, d, e: a * b * c, {"mul": 2}),
    ],
)
def test_what_is_fused(terms, counts):
    tape = fuse_multiply_adds(record(lambda x: [terms(*x)], [5]))
    assert tape.operation_counts() == counts
    assert tape.run([2.0, 3.0, 5.0, 7.0, 11.0]) == [terms(2.0, 3.0, 5.0, 7.0, 11.0)]


def test_an_exact_difference_stays_exact():
    tape = fuse_multiply_adds(record(lambda x: [(x[2] - x[1]) + x[0] * x[3]], [4]))
    assert tape.run([1e-20, 1e6, 1e6 + 1e-9, 1.0]) == [(1e6 + 1e-9) - 1e6 + 1e-20]


@pytest.mark.parametrize("function", ["inverse_dynamics", "forward_dynamics", "mass_matrix"])
@pytest.mark.parametrize("robot", ["ur5e", "quadruped"])
def test_most_products_of_a_robot_are_fused(robot, function):
    tape = source_of(CATALOGUE[function], qddot.load(robot).model, {}).record_tape()
    assert fuse_multiply_adds(tape).operations < 0.75 * tape.operations


def test_terms_from_far_away_are_not_waited_for():
    """A running sum keeps its steps: each would otherwise keep its factors until the end."""

    def function(x):
        total, y = x[0], x[1]
        for _ in range(50):
            total = total + y * x[2]
            y = y * y + 1.0
            for _ in range(40):
                y = y * x[1] - 2.0
        return [total + y]

    code = fuse_multiply_adds(record(function, [3])).code
    waits = [
        i - x
        for i, (name, *args) in enumerate(code)
        for x in args
        if name == "fma" and type(x) is int and code[x][0] != "input"
    ]
    assert 0 < max(waits) < 200
