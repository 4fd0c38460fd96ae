"""Code of rollouts is that of the parts as they are: edited between processes and within one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import dataclass, field

import numpy as np
import pytest

import qddot
from qddot.robot.content import content_of, is_portable
from qddot.simulate.contact.penalty import PenaltyContact
from qddot.simulate.contact.scene import Plane, Scene, Sphere
from qddot.simulate.drivetrain import Friction, coulomb
from qddot.simulate.plant import StatelessEffect

PENDULUM = qddot.load("double_pendulum")
GAIN = 1.0

# a module of a user's own: {n} is what is edited
PARTS = {
    "effect": """
        @dataclass(frozen=True)
        class Own(StatelessEffect):
            def act(self, context, state):
                return [t - {n} * v for t, v in zip(context.tau, context.v)], None
        CHOICES = dict(effects=[Own()])
    """,
    "base class": """
        class Base(StatelessEffect):
            def act(self, context, state):
                return [t - {n} * v for t, v in zip(context.tau, context.v)], None
        @dataclass(frozen=True)
        class Own(Base):
            pass
        CHOICES = dict(effects=[Own()])
    """,
    "captured global": """
        FACTOR = {n}
        def factor():
            return FACTOR
        @dataclass(frozen=True)
        class Own(StatelessEffect):
            def act(self, context, state):
                return [t - factor() * v for t, v in zip(context.tau, context.v)], None
        CHOICES = dict(effects=[Own()])
    """,
    "sensor": """
        @dataclass(frozen=True)
        class Own:
            def state_size(self, model):
                return 0
            def initial_state(self, model):
                return []
            def read(self, model, q, v, dt, state):
                return q, [{n} * x for x in v], []
        CHOICES = dict(sensors=[Own()], feedback=control.GravityCompensation(1.0))
    """,
    "contact": """
        @dataclass(frozen=True)
        class Own(PenaltyContact):
            def act(self, context, state):
                tau, forces = super().act(context, state)
                return [t - {n} * v for t, v in zip(tau, context.v)], forces
        SCENE = Scene([Plane(point=(0.0, 0.0, -9.0))], spheres=[Sphere(ROBOT.body_names[0], 0.1)])
        CHOICES = dict(effects=[Own(SCENE)])
    """,
    "law": """
        @dataclass(frozen=True)
        class Own:
            def references(self, robot):
                return {{}}
            def senses(self, robot):
                return ()
            def memory(self, robot):
                return {{}}
            def command(self, robot, state, reference, memory):
                return -{n} * state.v, {{}}
        CHOICES = dict(feedback=Own())
    """,
}
HEAD = """
    from dataclasses import dataclass
    import qddot
    from qddot import control
    from qddot.robot.robot import Robot
    from qddot.simulate.contact.penalty import PenaltyContact
    from qddot.simulate.contact.scene import Plane, Scene, Sphere
    from qddot.simulate.plant import StatelessEffect
    ROBOT = qddot.load("planar_2r")
"""
RUN = """
    def end(native):
        robot = Robot(ROBOT.model, native=native)
        found = robot.rollout([0.3, -0.4], [0.5, 0.2], dt=1e-2, steps=12, **CHOICES)
        return found.q[-1, 0]
    print(repr(float(end(True))), repr(float(end(False))))
"""


@pytest.mark.parametrize("part", PARTS)
def test_an_edited_part_runs_as_it_is_written(tmp_path, part, monkeypatch):
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    ends = []
    for n in (1.0, 5.0):
        text = "".join(textwrap.dedent(x) for x in (HEAD, PARTS[part].format(n=n), RUN))
        (tmp_path / "own.py").write_text(text)
        command = [sys.executable, "-B", str(tmp_path / "own.py")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        compiled, interpreted = map(float, done.stdout.split())
        assert compiled == pytest.approx(interpreted, rel=1e-12)
        ends.append(compiled)
    assert abs(ends[1] - ends[0]) > 1e-4


def drag(size: float) -> type:
    """A class of one name whose text differs."""

    @dataclass(frozen=True, repr=False)
    class Drag(StatelessEffect):
        hidden: float = field(default=0.0, repr=False, compare=False)

        def act(self, context, state):
            rate = size + self.hidden + GAIN
            return [t - rate * v for t, v in zip(context.tau, context.v, strict=True)], None

        def __repr__(self):
            return "Drag()"

    return Drag


def test_parts_that_print_alike_have_code_of_their_own(monkeypatch):
    def swing(effect, native=True):
        robot = qddot.robot.robot.Robot(PENDULUM.model, native=native)
        return robot.rollout([0.5, 0.2], [0, 0], dt=1e-3, steps=60, effects=[effect]).q[-1]

    found = {}
    for size, hidden in ((0.0, 0.0), (0.3, 0.0), (0.3, 0.2)):
        effect = drag(size)(hidden)
        found[size, hidden] = swing(effect)
        np.testing.assert_allclose(found[size, hidden], swing(effect, native=False), rtol=1e-11)
    assert len({tuple(x) for x in found.values()}) == 3
    # a global that the text reads
    monkeypatch.setattr(sys.modules[__name__], "GAIN", 2.0)
    effect = drag(0.0)()
    np.testing.assert_allclose(swing(effect), swing(effect, native=False), rtol=1e-11)
    assert not np.allclose(swing(effect), found[0.0, 0.0], rtol=1e-6)


def test_parts_of_the_library_are_known_in_any_process():
    parts = (
        Friction(coulomb(0.1)),
        PenaltyContact(Scene([Plane()], spheres=[Sphere("link1", 0.1)])),
    )
    for part in parts:
        assert is_portable(content_of(part))
        assert content_of(part) == content_of(part)
    assert content_of(Friction(coulomb(0.1))) != content_of(Friction(coulomb(np.nextafter(0.1, 1))))
    assert not is_portable(content_of(drag(1.0)()))
