"""Put contact to the test beside MuJoCo and write the table: `python docs/contact.py [case …]`.

Both engines read one text of each case and take steps of 1 ms; MuJoCo has its default contact.
Results are kept in docs/contact.json, so that one case can be run again by itself. The table is the
end of docs/contact.md.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

import qddot
from qddot.control import PD
from qddot.simulate import rollout
from qddot.simulate.contact import (
    Box,
    ComplementarityContact,
    Pair,
    Plane,
    Point,
    Scene,
    Sphere,
    contact_ledger,
)

FOLDER = Path(__file__).parent
PAGE, KEPT = FOLDER / "contact.md", FOLDER / "contact.json"
MARK = "<!-- figures: written by docs/contact.py -->"
DT, GRAVITY, MU = 1e-3, 9.81, 0.5
RATIOS = (1e0, 1e2, 1e4, 1e6)
TOOL_MASSES = (1.0, 10.0)
HALVINGS = 14
MECHANISMS = ("a four-bar through 10 branches", "two four-bars", "a slider-crank through 12")
FINGERS, RESERVES, PICKS, SEED = ("flat", "four-ball"), (1.2, 2.0, 4.0), 200, 2
Figures = dict[str, list[float]]


def load(bodies: str, gravity: np.ndarray | None = None) -> Any:
    """MuJoCo's model of some bodies on a floor."""
    pull = np.array([0.0, 0.0, -GRAVITY]) if gravity is None else gravity
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{DT}" gravity="{pull[0]} {pull[1]} {pull[2]}"/><worldbody>'
        f'<geom type="plane" size="0 0 1" friction="{MU}"/>{bodies}</worldbody></mujoco>'
    )


def box(name: str, size: tuple[float, float, float], height: float, friction: float = MU) -> str:
    """A free box of 1 kg."""
    half = " ".join(f"{0.5 * x}" for x in size)
    return (
        f'<body name="{name}" pos="0 0 {height}"><freejoint/>'
        f'<geom type="box" size="{half}" mass="1" friction="{friction}"/></body>'
    )


def run_mujoco(model: Any, seconds: float, data: Any = None) -> Any:
    """MuJoCo's data after so long."""
    data = mujoco.MjData(model) if data is None else data
    for _ in range(round(seconds / DT)):
        mujoco.mj_step(model, data)
    return data


def bisect(passes: Callable[[float], bool], low: float, high: float) -> float:
    """The number between two at which a test begins to pass."""
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if passes(middle) else (middle, high)
    return 0.5 * (low + high)


class Tilted:
    """A box on a floor that is tilted, in both engines: pose and velocity after some time."""

    def __init__(self, size: tuple[float, float, float], friction: float, seconds: float) -> None:
        self.size, self.friction, self.seconds = size, friction, seconds
        scene = Scene(planes=[Plane()], boxes=[Box("b", size)], friction=friction)
        self.law = ComplementarityContact(scene)
        self.robot = qddot.load(self.model(0.0))

    def model(self, angle: float) -> Any:
        """MuJoCo's model, with the floor level and gravity tilted."""
        pull = GRAVITY * np.array([math.sin(angle), 0.0, -math.cos(angle)])
        body = box("b", self.size, 0.5 * self.size[2], self.friction)
        model = load(body, pull)
        model.geom_friction[:, 0] = self.friction
        return model

    def run(self, angle: float) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Position with quaternion (vector part first), velocity, and that at half time."""
        pull = GRAVITY * np.array([math.sin(angle), 0.0, -math.cos(angle)])
        start = [0.0, 0.0, 0.5 * self.size[2], 0.0, 0.0, 0.0, 1.0]
        steps = round(self.seconds / DT)
        found = rollout(
            self.robot,
            start,
            np.zeros(6),
            dt=DT,
            steps=steps,
            every=steps // 2,
            contact=self.law,
            parameters={"gravity": pull},
        )
        model = self.model(angle)
        data = run_mujoco(model, 0.5 * self.seconds)
        half = data.qvel.copy()
        run_mujoco(model, 0.5 * self.seconds, data)
        theirs = data.qpos[[0, 1, 2, 4, 5, 6, 3]].copy(), data.qvel.copy(), half
        return {"qddot": (found.q[-1], found.v[-1], found.v[-2]), "MuJoCo": theirs}


ENGINES = ("qddot", "MuJoCo")


def measure_sliding() -> Figures:
    """Tilt at which a flat box begins to slide, over atan μ; its speed at 80 % of that (mm/s)."""
    case = Tilted((0.2, 0.2, 0.1), MU, 1.0)
    limit, creeping = math.atan(MU), case.run(0.8 * math.atan(MU))
    found: Figures = {}
    for engine in ENGINES:

        def slides(tilt: float, engine: str = engine) -> bool:
            # a box that creeps has a speed, one that slides gets faster
            _, late, early = case.run(tilt * limit)[engine]
            return bool(late[0] - early[0] > 1e-4)

        found[engine] = [bisect(slides, 0.9, 1.1), 1e3 * abs(float(creeping[engine][1][0]))]
    return found


def measure_tipping() -> Figures:
    """Tilt at which a box of 0.1 m × 0.2 m tips over, over atan 1/2."""
    case = Tilted((0.1, 0.1, 0.2), 1.0, 2.0)
    limit = math.atan(0.5)
    found: Figures = {}
    for engine in ENGINES:

        def tips(tilt: float, engine: str = engine) -> bool:
            return bool(abs(case.run(tilt * limit)[engine][0][4]) > 0.05)

        found[engine] = [bisect(tips, 0.9, 1.1)]
    return found


def measure_stack() -> Figures:
    """Ten cubes of 0.1 m after 10 s: way sideways (mm), speed (m/s), how far the top sank (mm)."""
    count, seconds = 10, 10.0
    text = "".join(box(f"b{k}", (0.1, 0.1, 0.1), 0.05 + 0.1 * k) for k in range(count))
    model = load(text)
    robot = qddot.load(model)
    feet = [
        Point(f"b{k}", (0.045 * x, 0.045 * y, -0.05), f"foot {k} {x} {y}")
        for k in range(count)
        for x in (-1, 1)
        for y in (-1, 1)
    ]
    under = ["ground"] * 4 + [f"b{k // 4}" for k in range(4 * count - 4)]
    scene = Scene(
        planes=[Plane()],
        boxes=[Box(f"b{k}", (0.1, 0.1, 0.1)) for k in range(count)],
        points=feet,
        pairs=[(foot.name, name) for foot, name in zip(feet, under, strict=True)],
        friction=MU,
    )
    q = np.tile([0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0], (count, 1))
    q[:, 2] += 0.1 * np.arange(count)
    steps = round(seconds / DT)
    law = ComplementarityContact(scene)
    zero = np.zeros(6 * count)
    found = rollout(robot, q.ravel(), zero, dt=DT, steps=steps, every=steps, contact=law)
    data = run_mujoco(model, seconds)
    moved = {"qddot": found.q[-1].reshape(count, 7), "MuJoCo": data.qpos.reshape(count, 7)}
    speed = {"qddot": found.v[-1], "MuJoCo": data.qvel}
    return {
        engine: [
            1e3 * float(np.abs(moved[engine][:, :2]).max()),
            float(np.abs(speed[engine]).max()),
            1e3 * float(q[-1, 2] - moved[engine][-1, 2]),
        ]
        for engine in ENGINES
    }


def measure_mass_ratios() -> Figures:
    """A heavy ball on one of 1 kg: overlap (mm) after 1 s, for each ratio of masses."""
    found: Figures = {engine: [] for engine in ENGINES}
    for ratio in RATIOS:
        text = "".join(
            f'<body name="b{k}" pos="0 0 {0.05 + 0.1 * k}"><joint type="slide" axis="0 0 1"/>'
            f'<geom type="sphere" size="0.05" mass="{mass}"/></body>'
            for k, mass in enumerate((1.0, ratio))
        )
        model = load(text)
        scene = Scene(
            planes=[Plane()],
            spheres=[Sphere("b0", 0.05), Sphere("b1", 0.05)],
            pairs=[("b0", "ground"), ("b1", "b0")],
        )
        law = ComplementarityContact(scene)
        robot = qddot.load(model)
        ours = rollout(robot, np.zeros(2), np.zeros(2), dt=DT, steps=1000, contact=law).q[-1]
        theirs = run_mujoco(model, 1.0).qpos
        for engine, q in (("qddot", ours), ("MuJoCo", theirs)):
            gaps = np.array([q[0], q[1] - q[0]])
            found[engine].append(1e3 * max(0.0, float(-gaps.min())))
    return found


def measure_tool() -> Figures:
    """A tool pressed with 5 N that slides at 20 mm/s for 2 s, μ 0.6, without weight.

    For each mass of it: least and largest force after 0.1 s (N), share of time out of touch (%).
    """
    found: Figures = {engine: [] for engine in ENGINES}
    for mass in TOOL_MASSES:
        body = (
            '<body name="carrier"><joint type="slide" axis="1 0 0"/>'
            '<geom type="sphere" size="0.01" mass="1e6" pos="0 0 1" contype="0" conaffinity="0"/>'
            '<body name="tool" pos="0 0 0.01"><joint type="slide" axis="0 0 1"/>'
            f'<geom type="sphere" size="0.01" mass="{mass}" friction="0.6"/></body></body>'
        )
        model = load(body, np.zeros(3))
        model.geom_friction[:, 0] = 0.6
        steps, press, v = 2000, np.array([0.0, -5.0]), np.array([0.02, 0.0])
        scene = Scene(planes=[Plane()], spheres=[Sphere("tool", 0.01)], friction=0.6)
        law = ComplementarityContact(scene)
        robot = qddot.load(model)
        ours = rollout(robot, np.zeros(2), v, press, dt=DT, steps=steps, contact=law)
        forces = {"qddot": contact_ledger(ours).normal_force[:-1, 0], "MuJoCo": np.zeros(steps)}
        data = mujoco.MjData(model)
        data.qvel[:], data.qfrc_applied[:] = v, press
        wrench = np.zeros(6)
        for k in range(steps):
            mujoco.mj_step(model, data)
            for contact in range(data.ncon):
                mujoco.mj_contactForce(model, data, contact, wrench)
                forces["MuJoCo"][k] += wrench[0]
        for engine, force in forces.items():
            late = force[100:]
            lost = 100.0 * float(np.mean(late <= 0.0))
            found[engine] += [float(late.min()), float(late.max()), lost]
    return found


class Grip:
    """A box of 0.2 kg picked up by two fingers that slide along y, each pushed with 10 N.

    They close from random gaps of 0.1 to 5 mm on a box up to 2 mm off their middle, lift it by
    50 mm in 0.6 s and hold it. The reserve is the friction that the grip has by the weight.
    """

    half, pad, thick, ball = 0.02, 0.012, 0.005, 0.002
    mass, carriage, push, kp, kd = 0.2, 1.2, 10.0, 2e4, 4e2
    rise, closed, lifted, seconds = 0.05, 0.2, 0.6, 1.2
    sides = (("left", 1), ("right", -1))

    def __init__(self, fingers: str, reserve: float) -> None:
        self.flat, self.friction = fingers == "flat", reserve * self.mass * GRAVITY / 2 / self.push
        self.steps = round(self.seconds / DT)

    def places(self, side: int) -> list[tuple[float, float, float]]:
        """Centres of the four balls of a finger."""
        y = side * (self.thick - self.ball)
        return [(x * self.pad, y, z * self.pad) for x in (-1, 1) for z in (-1, 1)]

    def model(self) -> Any:
        """MuJoCo's model: carriage, left and right finger, box."""
        rough, fingers = f'friction="{self.friction} 0 0"', ""
        for name, side in self.sides:
            pads = (
                f'<geom type="box" size="{self.pad} {self.thick} {self.pad}" mass="0.1" {rough}/>'
            )
            if not self.flat:
                ball = f'<geom type="sphere" size="{self.ball}" mass="0.025" {rough}'
                places = self.places(side)
                pads = "".join(f'{ball} pos="{x} {y} {z}"/>' for x, y, z in places)
            fingers += (
                f'<body name="{name}" pos="0 {-side * (self.half + self.thick)} 0">'
                f'<joint type="slide" axis="0 {side} 0" damping="50"/>{pads}</body>'
            )
        cube = f'type="box" size="{self.half} {self.half} {self.half}" mass="{self.mass}"'
        return load(
            f'<body name="carriage" pos="0 0 {self.half}"><joint type="slide" axis="0 0 1"/>'
            f'<inertial pos="0 0 0" mass="1" diaginertia="1e-3 1e-3 1e-3"/>{fingers}</body>'
            f'<body name="box" pos="0 0 {self.half}"><freejoint/><geom {cube} {rough}/></body>'
        )

    def law(self) -> ComplementarityContact:
        """Contact of the fingers with the box, and of the box with the floor."""
        edges = (2 * self.pad, 2 * self.thick, 2 * self.pad)
        pads = [Box(name, edges) for name, _ in self.sides] if self.flat else []
        balls = [
            Sphere(name, self.ball, place, f"{name} ball {k}")
            for name, side in (() if self.flat else self.sides)
            for k, place in enumerate(self.places(side))
        ]
        pairs = [Pair(shape.name, "box", friction=self.friction) for shape in (*pads, *balls)]
        return ComplementarityContact(
            Scene(
                planes=[Plane()],
                boxes=[*pads, Box("box", (2 * self.half,) * 3)],
                spheres=balls,
                pairs=[Pair("box", "ground", friction=MU), *pairs],
            )
        )

    def starts(self, count: int, seed: int) -> np.ndarray:
        """Configurations: carriage, fingers, box with its quaternion (vector part first)."""
        rng, q = np.random.default_rng(seed), np.zeros((count, 10))
        q[:, 1:3] = -rng.uniform(1e-4, 5e-3, (count, 2))
        q[:, 0], q[:, 3] = rng.uniform(-2e-3, 2e-3, (2, count))
        q[:, 5], q[:, 9] = self.half, 1.0
        return q

    def lift(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Way and speed of the carriage at each step, and torques that are not fed back."""
        t = DT * np.arange(self.steps)
        s, span = np.clip((t - self.closed) / self.lifted, 0.0, 1.0), self.lifted
        way = self.rise * (10 * s**3 - 15 * s**4 + 6 * s**5)
        speed = self.rise / span * (30 * s**2 - 60 * s**3 + 30 * s**4)
        rate = self.rise / span**2 * (60 * s - 180 * s**2 + 120 * s**3)
        carried = self.carriage + self.mass * (t > self.closed)
        tau = np.zeros((self.steps, 9))
        tau[:, 0] = carried * GRAVITY + (self.carriage + self.mass) * rate
        tau[:, 1:3] = self.push
        return way, speed, tau

    def run(self, count: int, seed: int) -> np.ndarray:
        """Configurations of picks by qddot at each step."""
        q0, (way, speed, tau) = self.starts(count, seed), self.lift()
        q_ref = np.repeat(q0[:, None], self.steps, axis=1)
        q_ref[..., 0] += way
        only = np.eye(9)[0]
        found = rollout(
            qddot.load(self.model()),
            q0,
            np.zeros(9),
            tau,
            dt=DT,
            steps=self.steps,
            integrator="implicit_damping",
            contact=self.law(),
            feedback=PD(self.kp * only, self.kd * only),
            q_ref=q_ref,
            v_ref=speed[:, None] * only,
        )
        return found.q

    def run_mujoco(self, count: int, seed: int) -> np.ndarray:
        """The same by MuJoCo."""
        model, (way, speed, tau) = self.model(), self.lift()
        data, starts = mujoco.MjData(model), self.starts(count, seed)
        q = np.repeat(starts[:, None], self.steps + 1, axis=1)
        order = [0, 1, 2, 3, 4, 5, 7, 8, 9, 6]
        for path in q:
            mujoco.mj_resetData(model, data)
            data.qpos[order] = path[0]
            for k in range(self.steps):
                off = data.qpos[0] - path[0, 0] - way[k]
                servo = self.kp * off + self.kd * (data.qvel[0] - speed[k])
                data.qfrc_applied[:3] = tau[k, :3] - [servo, 0.0, 0.0]
                mujoco.mj_step(model, data)
                path[k + 1] = data.qpos[order]
        return q

    def judge(self, q: np.ndarray) -> list[float]:
        """Picks held with a turn below 1°, largest turn (°), largest slip in the grip (mm)."""
        held = q[:, -1, 5] - q[:, 0, 5] > 0.5 * self.rise
        turn = np.linalg.norm(q[..., 6:9], axis=-1)
        turn = np.degrees(2.0 * np.arctan2(turn, np.abs(q[..., 9]))).max(axis=1)
        place = np.stack([q[..., 3], q[..., 5] - q[..., 0]], axis=-1)
        slip = np.linalg.norm(place[:, -1] - place[:, round(self.closed / DT)], axis=-1)
        return [float(np.sum(held & (turn < 1.0))), float(turn.max()), 1e3 * float(slip.max())]


def measure_grips() -> Figures:
    """For each kind of fingers and reserve: picks held, largest turn (°), largest slip (mm)."""
    found: Figures = {engine: [] for engine in ENGINES}
    for fingers in FINGERS:
        for reserve in RESERVES:
            grip = Grip(fingers, reserve)
            found["qddot"] += grip.judge(grip.run(PICKS, SEED))
            found["MuJoCo"] += grip.judge(grip.run_mujoco(PICKS, SEED))
    return found


def rod(name: str, x: float, carried: str = "") -> str:
    """A rod of 1 m and 1 kg along x, on a hinge about y at x on its parent."""
    return (
        f'<body name="{name}" pos="{x} 0 0"><joint name="{name}" axis="0 1 0"/>'
        f'<inertial mass="1" pos="0.5 0 0" diaginertia="1e-6 {1 / 12} {1 / 12}"/>{carried}</body>'
    )


def closed_chain(bodies: str, pins: Sequence[tuple[str, str]]) -> Any:
    """MuJoCo's model of bodies whose ends are pinned to each other, with its RK4."""
    joined = "".join(f'<connect body1="{a}" body2="{b}" anchor="1 0 0"/>' for a, b in pins)
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{DT}" gravity="0 0 -{GRAVITY}" integrator="RK4"/>'
        f"<worldbody>{bodies}</worldbody><equality>{joined}</equality></mujoco>"
    )


def bifurcating_chains() -> Iterator[tuple[Any, np.ndarray, np.ndarray, float]]:
    """Models, starts and seconds: one and two four-bars (IFToMM A02), a slider-crank."""
    for n in (1, 2):
        cranks = [rod(f"crank{k}", k, rod(f"bar{k}", 1.0) if k < n else "") for k in range(n + 1)]
        model = closed_chain("".join(cranks), [(f"bar{k}", f"crank{k + 1}") for k in range(n)])
        signs = [-1.0 if model.joint(j).name.startswith("bar") else 1.0 for j in range(model.njnt)]
        yield model, -0.5 * math.pi * np.array(signs), np.array(signs), 10.0
    slider = (
        '<body name="slider" pos="2 0 0"><joint name="slide" type="slide" axis="1 0 0"/>'
        '<inertial mass="0.8" pos="0 0 0" diaginertia="0.01 0.01 0.01"/></body>'
    )
    # crank and rod of one length: the slider passes the hinge of the crank
    angle, speed = 0.7, 8.0
    q = np.array([-angle, 2 * angle, 2 * math.cos(angle) - 2])
    v = np.array([-speed, 2 * speed, -2 * math.sin(angle) * speed])
    yield closed_chain(rod("crank", 0.0, rod("rod", 1.0)) + slider, [("rod", "slider")]), q, v, 5.0


def measure_bifurcations() -> Figures:
    """For each mechanism: largest error of energy (J), largest opening (mm), passes in line."""
    found: Figures = {engine: [] for engine in ENGINES}
    for model, q0, v0, seconds in bifurcating_chains():
        robot, steps = qddot.load(model), round(seconds / DT)
        own = rollout(robot, q0, v0, dt=DT, steps=steps, integrator="rk4", without="passive")
        data, adapter, states = mujoco.MjData(model), qddot.adapt.mujoco(robot, model), []
        data.qpos[:], data.qvel[:] = adapter.to_q(q0), adapter.to_v(q0, v0)
        for _ in range(steps):
            mujoco.mj_step(model, data)
            states.append(np.concatenate([data.qpos, data.qvel]))
        qpos, qvel = np.split(np.array(states), [model.nq], axis=1)
        q = adapter.from_q(qpos)
        start = robot.kinetic_energy(q0, v0) + robot.potential_energy(q0)
        for engine, x, v in (
            ("qddot", own.q, own.v),
            ("MuJoCo", q, adapter.from_v(qpos, qvel)),
        ):
            energy = robot.kinetic_energy(x, v) + robot.potential_energy(x)
            opening = np.abs(robot.constraint_residual(x)).max()
            passes = np.count_nonzero(np.diff(np.sign(np.sin(x[:, 0]))))
            drift = np.abs(energy - start).max()
            found[engine] += [float(drift), 1e3 * float(opening), float(passes)]
    return found


CASES: dict[str, Callable[[], Figures]] = {
    "sliding": measure_sliding,
    "tipping": measure_tipping,
    "stack": measure_stack,
    "mass ratios": measure_mass_ratios,
    "tool": measure_tool,
    "grips": measure_grips,
    "bifurcations": measure_bifurcations,
}


def small(x: float, unit: str) -> str:
    """A number beside zero; below 1e-12 it is rounding."""
    if x <= 1e-12:
        return "0"
    return f"{x:.2g} {unit}" if x >= 1e-3 else f"{x:.1e} {unit}"


def rows(kept: dict[str, Figures]) -> list[str]:
    """The table, from the results that are kept."""
    lines = [
        "| case, steps of 1 ms | right | qddot | MuJoCo |",
        "| --- | --- | --- | --- |",
    ]

    def add(what: str, right: str, case: str, text: Callable[[list[float]], str]) -> None:
        cells = " | ".join(text(kept[case][engine]) for engine in ENGINES)
        lines.append(f"| {what} | {right} | {cells} |")

    add("tilt at which a box slides, over atan μ", "1", "sliding", lambda x: f"{x[0]:.4f}")
    add("its speed at 80 % of that", "0", "sliding", lambda x: small(x[1], "mm/s"))
    add("tilt at which a tall box tips, over atan b/h", "1", "tipping", lambda x: f"{x[0]:.4f}")
    add("ten boxes after 10 s: way sideways", "0", "stack", lambda x: small(x[0], "mm"))
    add("the same: largest speed", "0", "stack", lambda x: small(x[1], "m/s"))
    add("the same: the top sinks by", "0", "stack", lambda x: small(x[2], "mm"))
    for k, ratio in enumerate(RATIOS):
        what = f"1 kg under {ratio:g} kg: overlap"
        add(what, "0", "mass ratios", lambda x, k=k: small(x[k], "mm"))
    for k, mass in enumerate(TOOL_MASSES):
        what = f"tool of {mass:g} kg, 5 N, 20 mm/s: force"
        add(what, "5 N", "tool", lambda x, k=k: f"{x[3 * k]:.3f} to {x[3 * k + 1]:.3f} N")
        add("the same: out of touch", "0", "tool", lambda x, k=k: f"{x[3 * k + 2]:.0f} %")
    for k, (fingers, reserve) in enumerate((f, r) for f in FINGERS for r in RESERVES):
        what = f"{PICKS} picks, {fingers} fingers, reserve {reserve:g}: held, turned below 1°"
        add(what, f"{PICKS}", "grips", lambda x, k=k: f"{x[3 * k]:.0f}")
        add("the same: largest turn", "0", "grips", lambda x, k=k: small(x[3 * k + 1], "°"))
        add("the same: largest slip", "0", "grips", lambda x, k=k: small(x[3 * k + 2], "mm"))
    for k, what in enumerate(MECHANISMS):
        for n, (label, unit) in enumerate((("energy is off by", "J"), ("pins open by", "mm"))):
            name = f"{what}: {label}" if n == 0 else f"the same: {label}"
            add(name, "0", "bifurcations", lambda x, k=3 * k + n, u=unit: small(x[k], u))
    return lines


def main() -> None:
    """Measure the cases that are asked for, or all, and write the table."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for name in sys.argv[1:] or CASES:
        kept[name] = CASES[name]()
        print(name, kept[name], flush=True)
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    head = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n" + "\n".join(rows(kept)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
