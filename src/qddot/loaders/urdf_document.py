"""The raw reader of URDF: the elements of a document and how they hang together.

It judges nothing. The loader takes its elements strictly, an audit and the writers as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass

from qddot.loaders.xml import Element

__all__ = ["UrdfDocument", "read_urdf_document"]


@dataclass(frozen=True)
class UrdfDocument:
    """The links and joints of a <robot> element, in the order of the file."""

    robot: Element
    links: tuple[Element, ...]
    joints: tuple[Element, ...]

    @property
    def links_by_name(self) -> dict[str, Element]:
        """Links by name; of two with one name, the last."""
        return {link.get("name"): link for link in self.links}

    @property
    def inertials(self) -> tuple[Element, ...]:
        """The <inertial> elements of all links."""
        return tuple(x for link in self.links for x in link.all("inertial"))

    @property
    def actuators(self) -> tuple[Element, ...]:
        """The <actuator> elements of all transmissions."""
        return tuple(a for t in self.robot.all("transmission") for a in t.all("actuator"))

    @staticmethod
    def parent_and_child(joint: Element) -> tuple[str, str]:
        """The names of the links that a joint connects."""
        return joint.need("parent").get("link"), joint.need("child").get("link")


def read_urdf_document(robot: Element) -> UrdfDocument:
    """The document of a <robot> element; joints of Drake's extensions are joints too."""
    links = tuple(robot.all("link"))
    if not links:
        raise robot.error("has no <link>")
    return UrdfDocument(robot, links, tuple(robot.all("joint", "drake:joint")))
