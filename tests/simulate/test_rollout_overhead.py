"""The work of a call of a simulator beside its steps, as counts."""

from __future__ import annotations

import numpy as np
import pytest

import qddot
from qddot.simulate.contact import ComplementarityContact, Scene
from qddot.simulate.contact import complementarity as law
from qddot.simulate.simulator import make_simulator


def test_points_of_contact_are_found_once_for_all_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = qddot.load("quadruped")
    contact = ComplementarityContact(Scene.from_file("quadruped", only="*/sphere"))
    size = contact.state_size(robot.model)
    step = make_simulator(robot, dt=1e-3, contact=contact).step
    first = step.initial_states()[-1]
    calls: list[object] = []
    monkeypatch.setattr(law, "find_sites", lambda *given: calls.append(given) or [])
    again = step.initial_states()[-1]
    assert not calls
    # each rollout has an array of its own
    assert first is not again
    np.testing.assert_array_equal(first, np.zeros(size))
    np.testing.assert_array_equal(again, first)


def test_the_key_of_a_step_has_no_model_and_no_notes() -> None:
    """The model is there by its digest; its text is long, and notes change no kernel."""
    step = make_simulator(qddot.load("double_pendulum"), dt=1e-3, without="passive").step
    assert {"model", "notes", "immutable"}.isdisjoint(step._fixed_contents)
    assert "integrator" in step._fixed_contents
    assert step._key() == (step.model.digest, *step._fixed_contents.values())
