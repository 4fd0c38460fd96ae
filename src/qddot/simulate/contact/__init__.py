"""Contact: scenes, penalty forces, complementarity, and the contact ledger."""

from __future__ import annotations

from qddot.simulate.contact.complementarity import ComplementarityContact
from qddot.simulate.contact.ledger import ContactEntry, ContactLedger, contact_ledger
from qddot.simulate.contact.penalty import PRESETS, PenaltyContact, PenaltyStops
from qddot.simulate.contact.scene import Box, Capsule, Pair, Plane, Point, Scene, Sphere
from qddot.simulate.contact.stops import RigidStops

__all__ = [
    "PRESETS",
    "Box",
    "Capsule",
    "ComplementarityContact",
    "ContactEntry",
    "ContactLedger",
    "Pair",
    "PenaltyContact",
    "PenaltyStops",
    "Plane",
    "Point",
    "RigidStops",
    "Scene",
    "Sphere",
    "contact_ledger",
]
