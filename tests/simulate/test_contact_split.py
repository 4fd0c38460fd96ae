"""Redundant contacts: how impulses are shared among them, and grips that depend on it."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from bare_rollouts import rollout
from contact_bodies import GRAVITY, block
from native_cases import cold_cache  # noqa: F401

from qddot.simulate.contact import ComplementarityContact, Plane, Point, Scene, contact_ledger
from qddot.simulate.contact.ledger import ContactLedger

DOCS = Path(__file__).resolve().parents[2] / "docs"
MASS = 2.0
LEGS = [(x, y) for x in (-0.1, 0.0, 0.1) for y in (-0.1, 0.0, 0.1)]
REST = [0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("friction", [0.0, 0.5])
@pytest.mark.parametrize("seed", [None, 3])
def test_nine_legs_carry_evenly_in_any_order(friction, seed):
    """The first step already shares the weight, whichever leg comes first."""
    order = np.arange(9) if seed is None else np.random.default_rng(seed).permutation(9)
    feet = [Point("block", (*LEGS[k], -0.05), f"leg {k}") for k in order]
    law = ComplementarityContact(Scene(planes=[Plane()], points=feet, friction=friction))
    found = rollout(
        block(native=False), REST, np.zeros(6), dt=1e-3, steps=1, contact=law, record=True
    )
    np.testing.assert_allclose(contact_ledger(found).normal_force, MASS * GRAVITY / 9.0, rtol=1e-3)


def test_a_box_between_two_fingers_is_held():
    """Four balls a finger, from random gaps: it neither slips nor turns."""
    grip = runpy.run_path(str(DOCS / "contact.py"))["Grip"]("four-ball", 1.2)
    held, turn, slip = grip.judge(grip.run(24, seed=5))
    assert (held, turn < 1e-4, slip < 1e-4) == (24, True, True)


def test_tables_show_the_places_that_carried():
    """A pair of boxes has thirteen places, of which a face on a face takes four."""
    names = (("crate", "pad"),) * 13 + (("ball", "pad"),) * 2
    wrench = np.zeros((5, 15, 6))
    wrench[2:, 3:7, 2] = 1.0
    ledger = ContactLedger(
        time=np.arange(5.0), names=names, bodies=(("a", "world"),) * 15, frames=("a",) * 15,
        friction=np.ones(15), gap=np.zeros((5, 15)), point=np.zeros((5, 15, 3)),
        normal=np.tile([0.0, 0.0, 1.0], (5, 15, 1)), wrench=wrench, slip=np.zeros((5, 15)),
        newton=np.zeros((5, 6)),
    )  # fmt: skip
    for text in (str(ledger), ledger._repr_html_(), ledger.table(0)):
        assert text.count("crate on pad") == 4
        # one that never touched is told of
        assert text.count("ball on pad") == 1
    assert len(ledger.at(0)) == 15
