"""Good robots made bad on purpose: a corpus of files with one known mistake each.

Files are changed with Python's own XML library and nothing of the audit: a `Part` is a handle on
the numbers of one link, a damage is a function that changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from agreement import SHARED, example_urdfs

from qddot.loaders import locate_source

ENTRIES = {"ixx": (0, 0), "iyy": (1, 1), "izz": (2, 2), "ixy": (0, 1), "ixz": (0, 2), "iyz": (1, 2)}


def numbers(element: ElementTree.Element | None, key: str, default: str) -> np.ndarray:
    given = default if element is None else element.get(key, default)
    return np.array([float(x) for x in given.split()])


def text(values: np.ndarray | list[float]) -> str:
    return " ".join(repr(float(x)) for x in values)


def rotation_x(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def rotation_rpy(rpy: np.ndarray) -> np.ndarray:
    turns = [np.roll(np.roll(rotation_x(a), k, 0), k, 1) for k, a in enumerate(rpy)]
    return turns[2] @ turns[1] @ turns[0]


class Robot:
    """A file to be damaged, and where its meshes are found."""

    def __init__(self, name: str) -> None:
        self.file = find(name)
        self.root = ElementTree.parse(self.file).getroot()
        self.urdf = self.root.tag == "robot"

    def part(self, name: str) -> Part:
        kind = "link" if self.urdf else "body"
        return Part(next(x for x in self.root.iter(kind) if x.get("name") == name), self.urdf)

    def joint(self, name: str) -> ElementTree.Element:
        return next(x for x in self.root.iter("joint") if x.get("name") == name)

    def remove(self, *names: str) -> None:
        """Take links and the joints that carry them out of a URDF file."""
        for x in list(self.root):
            child = x.find("child")
            if x.get("name") in names or (child is not None and child.get("link") in names):
                self.root.remove(x)

    def write(self, folder: Path) -> Path:
        """The damaged file; addresses of meshes are made absolute, so that it may lie anywhere."""
        for mesh in self.root.iter("mesh"):
            address = mesh.get("filename", "")
            if address and "://" not in address:
                mesh.set("filename", str(self.file.parent / address))
        file = folder / f"{self.file.stem}{self.file.suffix}"
        file.write_text(ElementTree.tostring(self.root, encoding="unicode"))
        return file


class Part:
    """The inertia of a link of a URDF file, or of a body of an MJCF file."""

    def __init__(self, element: ElementTree.Element, urdf: bool) -> None:
        self.urdf, inertial = urdf, element.find("inertial")
        assert inertial is not None, element.get("name")
        self.inertial = inertial
        self._origin = inertial.find("origin") if urdf else inertial
        self._mass = inertial.find("mass") if urdf else inertial

    @property
    def mass(self) -> float:
        return float(numbers(self._mass, "value" if self.urdf else "mass", "0")[0])

    @mass.setter
    def mass(self, value: float) -> None:
        self._mass.set("value" if self.urdf else "mass", repr(value))

    @property
    def com(self) -> np.ndarray:
        return numbers(self._origin, "xyz" if self.urdf else "pos", "0 0 0")

    @com.setter
    def com(self, value: np.ndarray) -> None:
        if self._origin is None:
            self._origin = ElementTree.SubElement(self.inertial, "origin")
        self._origin.set("xyz" if self.urdf else "pos", text(value))

    @property
    def R(self) -> np.ndarray:
        if self.urdf:
            return rotation_rpy(numbers(self._origin, "rpy", "0 0 0"))
        w, x, y, z = (q := numbers(self.inertial, "quat", "1 0 0 0")) / np.linalg.norm(q)
        v = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        return np.eye(3) + 2 * w * v + 2 * v @ v

    @property
    def written(self) -> np.ndarray:
        """The tensor in the axes of the inertial frame."""
        T = np.zeros((3, 3))
        if not self.urdf:
            moments = numbers(self.inertial, "fullinertia", self.inertial.get("diaginertia", ""))
            values = dict(zip(ENTRIES, [*moments, 0, 0, 0][:6], strict=True))
        else:
            tensor = self.inertial.find("inertia")
            values = {k: numbers(tensor, k, "0")[0] for k in ENTRIES}
        for k, (i, j) in ENTRIES.items():
            T[i, j] = T[j, i] = values[k]
        return T

    @written.setter
    def written(self, T: np.ndarray) -> None:
        values = {k: float(T[at]) for k, at in ENTRIES.items()}
        if self.urdf:
            for k, value in values.items():
                self.inertial.find("inertia").set(k, repr(value))
        elif np.array_equal(T, np.diag(np.diag(T))) and "fullinertia" not in self.inertial.attrib:
            self.inertial.set("diaginertia", text([values[k] for k in ("ixx", "iyy", "izz")]))
        else:
            # MuJoCo takes a full tensor in the axes of the body only
            in_body = self.R @ T @ self.R.T
            self.inertial.attrib.pop("diaginertia", None)
            self.inertial.attrib.pop("quat", None)
            self.inertial.set("fullinertia", text([in_body[at] for at in ENTRIES.values()]))

    def turn(self, R: np.ndarray) -> None:
        """Write the tensor as seen from turned axes."""
        self.written = R @ self.written @ R.T


Damage = Callable[[Part], None]


def scale(entry: str, factor: float) -> Damage:
    def damage(part: Part) -> None:
        T, (i, j) = part.written, ENTRIES[entry]
        T[i, j] = T[j, i] = T[i, j] * factor
        part.written = T

    return damage


def scale_mass(factor: float) -> Damage:
    def damage(part: Part) -> None:
        part.mass *= factor

    return damage


def scale_all(mass: float, length: float, moment: float) -> Damage:
    def damage(part: Part) -> None:
        part.mass, part.com, part.written = (
            part.mass * mass,
            part.com * length,
            part.written * moment,
        )

    return damage


def about_origin(part: Part) -> None:
    c, R = part.com, part.R
    part.written = part.written + R.T @ (part.mass * (c @ c * np.eye(3) - np.outer(c, c))) @ R


def flip_products(part: Part) -> None:
    T = part.written
    part.written = 2 * np.diag(np.diag(T)) - T


def swap(*order: int) -> Damage:
    def damage(part: Part) -> None:
        T = part.written
        moments = np.diag(T)
        part.written = T - np.diag(moments) + np.diag(moments[list(order)])

    return damage


def turned(*rpy: float) -> Damage:
    return lambda part: part.turn(rotation_rpy(np.array(rpy)))


def lose_rotation(part: Part) -> None:
    """Forget the rotation of the inertial frame."""
    if part.urdf:
        part._origin.set("rpy", "0 0 0")
    else:
        part.inertial.set("quat", "1 0 0 0")


def claim_rotation(*rpy: float) -> Damage:
    """Say that the inertial frame is turned, while the tensor is in the axes of the link."""

    def damage(part: Part) -> None:
        part.com = part.com
        part._origin.set("rpy", text(rpy))

    return damage


def move_com(*offset: float) -> Damage:
    def damage(part: Part) -> None:
        part.com = part.com + np.array(offset)

    return damage


def stretch(axis: int, factor: float) -> Damage:
    """Spread the mass along one axis of the inertial frame by so much more."""

    def damage(part: Part) -> None:
        T = part.written
        along = (np.trace(T) / 2 - T[axis, axis]) * (factor**2 - 1)
        part.written = T + along * (np.eye(3) - np.diag(np.eye(3)[axis]))

    return damage


def fill(mass: float, moments: tuple[float, float, float]) -> Damage:
    def damage(part: Part) -> None:
        part.mass, part.written = mass, np.diag(moments)

    return damage


def blow_up(factor: float) -> Damage:
    """More mass and moments in the same place."""
    return scale_all(factor, 1.0, factor)


def find(name: str) -> Path:
    """A robot of the Menagerie folder, of example-robot-data ("erd:…"), or a built-in one."""
    if name.startswith("menagerie:"):
        return SHARED / "menagerie" / f"{name.removeprefix('menagerie:')}.xml"
    if name.startswith("erd:"):
        stem = name.removeprefix("erd:")
        return next((f for f in example_urdfs() if f.stem == stem), Path(f"{stem}.urdf"))
    return locate_source(name)


@dataclass(frozen=True)
class Case:
    """A robot, what is damaged, and the hypothesis that must be named first."""

    robot: str
    subject: str
    hypothesis: str
    damage: Callable[[Robot], None]
    mass: float | None = None

    @property
    def label(self) -> str:
        return f"{self.robot} {self.subject}: {self.hypothesis}"

    def make(self, folder: Path) -> Path:
        robot = Robot(self.robot)
        self.damage(robot)
        return robot.write(folder)


def one(robot: str, link: str, hypothesis: str, damage: Damage) -> Case:
    return Case(robot, link, hypothesis, lambda r: damage(r.part(link)))


def joint(robot: str, name: str, tag: str, **values: str) -> Case:
    def damage(r: Robot) -> None:
        element = r.joint(name)
        if tag:
            found = element.find(tag)
            element = found if found is not None else ElementTree.SubElement(element, tag)
        for key, value in values.items():
            element.set(key, value)

    return Case(robot, name, "drivetrain", damage)


def several(robot: str, links: tuple[str, ...], damage: Damage) -> Case:
    def every(r: Robot) -> None:
        for link in links:
            damage(r.part(link))

    return Case(robot, links[0], "placeholder", every)


GO2, SOLO, XARM, Z1, A1 = "erd:go2", "erd:solo12", "erd:xarm7", "erd:z1", "erd:a1"
M_GO2, M_H1 = "menagerie:unitree_go2__go2", "menagerie:unitree_h1__h1"
M_UR5E, M_ANYMAL = "menagerie:universal_robots_ur5e__ur5e", "menagerie:anybotics_anymal_c__anymal_c"
M_CASSIE, M_IIWA = "menagerie:agility_cassie__cassie", "menagerie:kuka_iiwa_14__iiwa14"
M_G1 = "menagerie:unitree_g1__g1"
UR5E_ARM = ("shoulder_link", "upper_arm_link", "forearm_link", "wrist_1_link")

CORPUS = (
    # not physical: a moment far beyond the others, products beyond the moments, a negative moment
    one("ur5e", "wrist_1_link", "not physical", scale("ixx", 3.5)),
    one("planar_3r", "link2", "not physical", scale("izz", 3.5)),
    one("panda", "panda_link3", "not physical", scale("ixz", 6.0)),
    one("quadruped", "FL_hip", "not physical", scale("iyy", 4.0)),
    one("quadruped", "base", "not physical", scale("ixx", -1.0)),
    one(GO2, "base", "not physical", scale("izz", 3.5)),
    one(XARM, "link3", "not physical", scale("iyy", -1.0)),
    one(M_UR5E, "forearm_link", "not physical", scale("ixx", 4.0)),
    # power of ten in one entry
    one("ur5e", "upper_arm_link", "power of ten", scale("iyy", 10.0)),
    one("ur5e", "forearm_link", "power of ten", scale("izz", 0.1)),
    one("planar_3r", "link1", "power of ten", scale("izz", 100.0)),
    one("quadruped", "RR_thigh", "power of ten", scale("ixx", 10.0)),
    one("quadruped", "FR_calf", "power of ten", scale("iyy", 0.1)),
    one(GO2, "FL_thigh", "power of ten", scale("izz", 10.0)),
    one(Z1, "link02", "power of ten", scale("iyy", 0.01)),
    one(M_H1, "left_hip_pitch_link", "power of ten", scale("ixx", 10.0)),
    one(M_CASSIE, "right-tarsus", "power of ten", scale("iyy", 0.1)),
    # power of ten in the mass
    one("ur5e", "upper_arm_link", "power of ten", scale_mass(10.0)),
    one("quadruped", "RL_thigh", "power of ten", scale_mass(10.0)),
    one("planar_3r", "link3", "power of ten", scale_mass(0.1)),
    one(SOLO, "FR_UPPER_LEG", "power of ten", scale_mass(100.0)),
    one(M_ANYMAL, "LF_SHANK", "power of ten", scale_mass(10.0)),
    # units
    one("ur5e", "forearm_link", "units", scale_mass(1e3)),
    one("ur5e", "wrist_2_link", "units", scale_all(1, 1, 1e6)),
    one("panda", "panda_link4", "units", scale_all(1e3, 1e3, 1e9)),
    one("planar_3r", "link1", "units", scale_all(1, 1e3, 1)),
    one("quadruped", "base", "units", scale_all(1, 1, 1e9)),
    one("delta", "arm2", "units", scale_all(1, 1, 1e4)),
    one("double_pendulum", "rod2", "units", scale_all(1, 1e3, 1e6)),
    one(XARM, "link5", "units", scale_all(1, 1, 1e-6)),
    one(M_G1, "left_knee_link", "units", scale_all(1e3, 1e3, 1e9)),
    # tensor about the origin of the link
    one("ur5e", "upper_arm_link", "about the origin", about_origin),
    one("planar_3r", "link1", "about the origin", about_origin),
    one("quadruped", "RR_calf", "about the origin", about_origin),
    one("double_pendulum", "rod1", "about the origin", about_origin),
    one(SOLO, "HL_UPPER_LEG", "about the origin", about_origin),
    one(XARM, "link2", "about the origin", about_origin),
    one(M_H1, "right_elbow_link", "about the origin", about_origin),
    one(M_ANYMAL, "RH_THIGH", "about the origin", about_origin),
    # wrong frame: a rotation lost, one that is claimed but not done, axes of CAD
    one("ur5e", "forearm_link", "wrong frame", turned(0.0, 0.6, 0.5)),
    one("planar_3r", "link2", "wrong frame", claim_rotation(0.4, 0.7, 0.3)),
    one("quadruped", "FL_thigh", "wrong frame", turned(0.5, 0.6, 0.0)),
    one(GO2, "RL_thigh", "wrong frame", claim_rotation(0.3, 0.8, 0.0)),
    one(Z1, "link02", "wrong frame", turned(0.3, 0.8, 0.4)),
    one(M_GO2, "FR_calf", "wrong frame", turned(0.5, 0.4, 0.0)),
    # signs of the products
    one(GO2, "FR_thigh", "signs of products", flip_products),
    one(SOLO, "FL_UPPER_LEG", "signs of products", flip_products),
    one(Z1, "link03", "signs of products", flip_products),
    one(A1, "RR_thigh", "signs of products", flip_products),
    # principal moments in each other's place
    one("ur5e", "upper_arm_link", "swapped moments", swap(1, 0, 2)),
    one("planar_3r", "link1", "swapped moments", swap(2, 1, 0)),
    one("quadruped", "base", "swapped moments", swap(2, 1, 0)),
    one("delta", "rod3", "swapped moments", swap(0, 2, 1)),
    one(GO2, "FL_calf", "swapped moments", swap(0, 2, 1)),
    one(M_H1, "left_knee_link", "swapped moments", swap(2, 1, 0)),
    # a twin that disagrees
    one("quadruped", "FL_thigh", "twin disagrees", blow_up(1.4)),
    one("quadruped", "RR_hip", "twin disagrees", scale_all(1, 1, 1.7)),
    one(GO2, "RL_calf", "twin disagrees", blow_up(1.5)),
    one(SOLO, "HR_UPPER_LEG", "twin disagrees", move_com(0.0, 0.0, -0.025)),
    one(M_CASSIE, "left-shin", "twin disagrees", blow_up(0.6)),
    # radius of gyration
    one("ur5e", "wrist_3_link", "radius of gyration", stretch(1, 9.0)),
    one("planar_3r", "link3", "radius of gyration", stretch(0, 3.5)),
    one("quadruped", "RL_calf", "radius of gyration", stretch(2, 3.0)),
    one(GO2, "base", "radius of gyration", stretch(1, 5.0)),
    one(Z1, "link06", "radius of gyration", stretch(0, 6.0)),
    # centre of mass outside
    one("ur5e", "wrist_2_link", "centre of mass outside", move_com(0.0, 0.3, 0.0)),
    one("planar_3r", "link2", "centre of mass outside", move_com(0.0, 0.0, 0.25)),
    one("quadruped", "base", "centre of mass outside", move_com(0.0, 0.4, 0.1)),
    one(GO2, "FR_hip", "centre of mass outside", move_com(0.2, 0.0, 0.0)),
    one(XARM, "link7", "centre of mass outside", move_com(0.0, 0.0, -0.3)),
    one(M_IIWA, "link6", "centre of mass outside", move_com(0.3, 0.0, 0.1)),
    # density
    one("ur5e", "shoulder_link", "density", blow_up(40.0)),
    one("planar_3r", "link1", "density", blow_up(33.0)),
    one("quadruped", "base", "density", blow_up(45.0)),
    one(GO2, "base", "density", blow_up(60.0)),
    one(XARM, "link2", "density", blow_up(0.004)),
    # a tensor unlike that of the shapes
    one("ur5e", "forearm_link", "differs from its shapes", scale_all(1, 1, 2.2)),
    one("planar_3r", "link1", "differs from its shapes", scale_all(1, 1, 0.4)),
    one("double_pendulum", "rod1", "differs from its shapes", scale_all(1, 1, 1.6)),
    one(Z1, "link02", "differs from its shapes", scale_all(1, 1, 0.22)),
    # placeholders
    several("ur5e", UR5E_ARM, fill(2.0, (0.02, 0.02, 0.02))),
    several("planar_3r", ("link1", "link2", "link3"), fill(1.0, (0.01, 0.02, 0.02))),
    several("panda", tuple(f"panda_link{k}" for k in range(1, 8)), fill(1.0, (0.1, 0.1, 0.1))),
    several(XARM, ("link1", "link2", "link3", "link4"), fill(1.5, (0.003, 0.003, 0.003))),
    several("quadruped", ("base", "FL_hip", "FL_thigh", "FL_calf"), fill(1.0, (0.02, 0.03, 0.02))),
    # zero or default
    one("ur5e", "upper_arm_link", "zero or default", fill(8.058, (0.0, 0.0, 0.0))),
    one("planar_3r", "link2", "zero or default", fill(2.5, (1.0, 1.0, 1.0))),
    one("quadruped", "base", "zero or default", fill(5.2, (0.1, 0.1, 0.1))),
    one(XARM, "link4", "zero or default", fill(0.0, (0.0, 0.0, 0.0))),
    # total mass
    Case("ur5e", "ur5e", "total mass", lambda r: None, mass=18.4),
    Case("planar_3r", "planar_3r", "total mass", lambda r: None, mass=8.6),
    Case("quadruped", "quadruped", "total mass", lambda r: None, mass=10.0),
    # a tool that is missing
    Case("ur5e", "wrist_3_link", "missing payload", lambda r: r.remove("gripper", "grasp")),
    Case(XARM, "link7", "missing payload", lambda r: None),
    # drivetrain
    joint("planar_3r", "joint1", "dynamics", friction="250"),
    joint("planar_3r", "joint2", "dynamics", damping="100"),
    joint("panda", "panda_joint3", "dynamics", friction="500"),
    joint("ur5e", "elbow_joint", "dynamics", damping="2000"),
    joint("quadruped", "FL_hip_joint", "", armature="60"),
    joint("quadruped", "RR_calf_joint", "", frictionloss="90"),
    joint(M_GO2, "FL_thigh_joint", "", armature="100"),
)  # fmt: skip
