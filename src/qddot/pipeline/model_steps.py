"""Steps 1 to 6 and 13: is the model in the file the robot that is meant?"""

from __future__ import annotations

import numpy as np

from qddot.display.text import joint_units
from qddot.errors import count_text
from qddot.evidence.record import Verdict
from qddot.evidence.results import record_audit, record_check, record_comparison
from qddot.model.model import WORLD
from qddot.pipeline.context import Context, NotApplicable, parse_vector, split_names
from qddot.robot.health import coordinate_range
from qddot.robot.robot import Robot
from qddot.verify.audit import audit
from qddot.verify.compare import ENGINES, Settings, compare
from qddot.verify.invariants import (
    check_composite_bodies,
    check_coriolis,
    check_gravity,
    check_positive_definite,
    check_power_balance,
    check_round_trip,
    check_skew_symmetry,
    check_symmetry,
    least_gravity,
)

__all__ = [
    "audit_inertias",
    "check_coriolis_matrix",
    "check_gravity_torques",
    "check_intent",
    "check_mass_matrix",
    "compare_engines",
    "equivalent_box",
    "read_description",
    "record_body_poses",
    "record_condition_map",
    "record_mass_ellipsoids",
    "static_torques",
    "tip_frame",
]

_FLAGGED = 1000.0
"""Condition number of M above which a configuration is flagged."""
_GRID = 25
_G = 9.81
"""Gravity of the earth, m/s²; it is 9.78 to 9.83 by place."""
_TURNS, _DEGREES = 8.0 * np.pi, 720.0
"""Limits of a joint that turns, rad, which only degrees have: four turns, up to two as degrees."""
_NARROW = 0.13
"""Range, rad, that all joints of a file have only where radians were read as degrees."""


def read_description(context: Context) -> None:
    """Step 1: the file is read, its joints form a tree; the picture of the robot."""
    robot, model = context.robot, context.robot.model
    recorder = context.recorder
    kinds = ", ".join(dict.fromkeys(b.joint.kind.name for b in model.bodies))
    recorder.claim(
        "the description is read",
        "file against its format",
        verdict=Verdict.PASS,
        detail=f"{model.name}: {count_text(model.nb, 'moving body', 'moving bodies')} "
        f"({kinds or 'nothing moves'}), {model.mass:.4g} kg, "
        f"{count_text(len(model.loops), 'loop')}",
    )
    doubtful = [f for f in robot.health if f.kind in ("axis", "coupling")]
    recorder.claim(
        "structure",
        "joint axes, couplings and hierarchy that can be taken as they are written",
        value=float(len(doubtful)),
        relation="=",
        bound=0.0,
        detail="; ".join(f"{f.subject}: {f.message}" for f in doubtful[:3]),
        fix="write unit axes, and couplings that are linear",
        label="model",
    )
    _judge_limits(context)
    if not model.nb:
        raise NotApplicable("nothing in it moves")
    record_body_poses(context)


def _judge_limits(context: Context) -> None:
    """Joint limits that leave room to move, in the units of the format."""
    limited = [
        (b.joint.name, b.joint.kind.turns, float(b.joint.limits.lower), float(b.joint.limits.upper))
        for b in context.robot.model.independent
        if b.joint.kind.takes_limits and b.joint.limits is not None
    ]
    stuck = [name for name, _, low, high in limited if low == high]
    degrees = [
        name
        for name, turns, low, high in limited
        if turns and any(_TURNS < abs(x) <= _DEGREES for x in (low, high))
    ]
    ranges = [high - low for _, turns, low, high in limited if turns and np.isfinite(high - low)]
    narrow = len(ranges) > 1 and 0.0 < max(ranges) < _NARROW
    words = [
        f"no room to move: {', '.join(stuck[:4])}" if stuck else "",
        f"more than four turns: {', '.join(degrees[:4])}" if degrees else "",
        f"no joint turns by more than {max(ranges):.3g} rad" if narrow else "",
    ]
    context.recorder.claim(
        "joint limits",
        "joints whose limits leave no room, or are those of other units",
        value=float(len(set(stuck) | set(degrees)) + narrow),
        relation="=",
        bound=0.0,
        detail="; ".join(filter(None, words)),
        fix="limits in rad or m, as the format has them; in MJCF <compiler angle>",
        label="model",
        cause="limits in other units" if degrees or narrow else "limits without room",
    )


def record_body_poses(context: Context) -> None:
    """Record the poses of the bodies at the neutral configuration, and their equivalent boxes."""
    model, recorder = context.robot.model, context.recorder
    poses = context.robot.call("body_poses", context.robot.neutral())
    rows: dict[str, list[np.ndarray]] = {k: [] for k in ("origin", "com", "edges", "axes")}
    for body, X in zip(model.bodies, poses, strict=True):
        edges, R = equivalent_box(np.array(tuple(body.inertia), float))
        com = np.array(tuple(body.inertia.com), float) if body.inertia.mass > 0 else np.zeros(3)
        rows["origin"].append(X[:3, 3])
        rows["com"].append(X[:3, :3] @ com + X[:3, 3])
        rows["edges"].append(edges)
        rows["axes"].append((X[:3, :3] @ R).ravel())
    recorder.trace(
        "picture",
        {
            **{k: np.array(x) for k, x in rows.items()},
            "parent": [b.parent for b in model.bodies],
            "mass": [float(b.inertia.mass) for b in model.bodies],
        },
        {"origin": "m", "com": "m", "edges": "m", "mass": "kg"},
        [b.name for b in model.bodies],
        frame="world, at the neutral configuration",
    )


def equivalent_box(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges (m) and axes of the uniform box with the mass and the tensor of ten parameters.

    NaN where no box has that inertia.
    """
    m, first = parameters[0], parameters[1:4]
    if m <= 0.0:
        return np.full(3, np.nan), np.eye(3)
    xx, xy, yy, xz, yz, zz = parameters[4:]
    tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    c = first / m
    central = tensor - m * (c @ c * np.eye(3) - np.outer(c, c))
    moments, axes = np.linalg.eigh(central)
    squares = 6.0 / m * (moments.sum() - 2.0 * moments)
    return np.sqrt(np.where(squares >= 0.0, squares, np.nan)), axes


def audit_inertias(context: Context) -> None:
    """Step 2: every link against physics, its shapes, its twins and density."""
    result = audit(context.source, None, context.on_step, context.settings.trust)
    record_audit(context.recorder, result, doubts=True, accepted=context.settings.accept)


def check_intent(context: Context) -> None:
    """Step 3: degrees of freedom, base and joint names against what was meant."""
    model, expect = context.robot.model, context.settings.expect
    base = "free" if context.floats else "fixed"
    fix = "--base free or fixed, couplings, or the joint types in the file"
    found = {"nq": model.nq, "nv": model.nv}
    for key, value in found.items():
        if key in expect:
            context.recorder.claim(
                key, f"{key} of the model against --expect", value=float(value), relation="=",
                bound=float(expect[key]), fix=fix, label="model",
            )  # fmt: skip
    if "base" in expect:
        context.recorder.claim(
            "base", "base of the model against --expect",
            verdict=Verdict.PASS if base == expect["base"] else Verdict.FAIL,
            detail=f"{base}, {expect['base']} is meant", fix="--base free or fixed", label="model",
            cause="wrong base type",
        )  # fmt: skip
    if "joints" in expect:
        names = split_names(expect["joints"])
        same = names == list(model.joint_names)
        moved = sorted(names) == sorted(model.joint_names)
        missing = [x for x in names if x not in model.joint_names]
        words = "same names in another order" if moved else f"not in the model: {missing}"
        context.recorder.claim(
            "joints", "names and order against --expect",
            verdict=Verdict.PASS if same else Verdict.FAIL,
            detail="" if same else f"{words}; it has {', '.join(model.joint_names)}",
            fix="name joints in the order of the controller", label="model",
            cause="joints swapped" if moved else "other joints than meant",
        )  # fmt: skip
    if "mass" in expect:
        context.recorder.claim(
            "mass", "total mass against --expect, relative",
            value=abs(float(model.mass) / float(expect["mass"]) - 1.0), relation="≤", bound=0.05,
            detail=f"{model.mass:.4g} kg", fix="`qddot audit --mass` finds who is wrong",
            label="model",
        )  # fmt: skip
    if not expect:
        joints = ", ".join(model.joint_names[:12]) + (" …" if len(model.joint_names) > 12 else "")
        context.skip(
            "intent",
            "nq, nv, base, joint names against intent",
            f"nobody said what is meant; the file has nq {model.nq}, nv {model.nv}, a {base} base, "
            f"joints {joints}",
            f"--expect nv={model.nv} --expect base={base} "
            f"--expect joints={','.join(model.joint_names)}, where that is what is meant",
        )


def static_torques(robot: Robot, q: np.ndarray) -> np.ndarray:
    """Holding torques by hand: weights times lever arms about each axis; NaN for other joints."""
    model, poses = robot.model, robot.call("body_poses", q)
    gravity = np.array(tuple(model.gravity), float)
    torques = np.full(model.nv, np.nan)
    for k, body in enumerate(model.bodies):
        kind = body.joint.kind
        if kind.nv != 1 or not (kind.turns or kind.slides) or body.joint.leader is not None:
            continue
        axis = poses[k][:3, :3] @ np.array(tuple(body.joint.axes[0]), float)
        total = 0.0
        for i, other in enumerate(model.bodies):
            if k in model.ancestors(i) and other.inertia.mass > 0:
                weight = float(other.inertia.mass) * gravity
                centre = poses[i][:3, :3] @ np.array(tuple(other.inertia.com)) + poses[i][:3, 3]
                lever = np.cross(centre - poses[k][:3, 3], weight) if kind.turns else weight
                total -= float(axis @ lever)
        torques[body.iv.start] = total
    return torques


def _judge_gravity(context: Context) -> None:
    """Gravity of the model against that of the earth, or against what --expect says is meant."""
    expect = context.settings.expect
    gravity = np.array(tuple(context.robot.model.gravity), float)
    meant = parse_vector(expect["gravity"]) if "gravity" in expect else None
    goal = np.array([0.0, 0.0, -_G]) if meant is None else meant
    length = float(np.linalg.norm(gravity))
    whose = "−z of the world, 9.81 m/s²" if meant is None else "--expect"
    said = f"({', '.join(f'{x:.4g}' for x in gravity)}) m/s²"
    fix = (
        "the <option gravity> of the file, or the mounting of the base; where it is meant, "
        f"--expect gravity={','.join(f'{x:g}' for x in gravity)}"
    )
    if length > 0.0 and goal.any():
        cosine = float(gravity @ goal) / (length * float(np.linalg.norm(goal)))
        context.recorder.claim(
            "gravity points down",
            f"angle between gravity and {whose}",
            value=float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))),
            relation="≤",
            bound=1.0,
            unit="°",
            cause="gravity sign" if cosine < -0.99 else "gravity in another frame",
            detail=said,
            fix=fix,
            label="model",
        )
    context.recorder.claim(
        "size of gravity",
        "size of gravity less that of the earth"
        if meant is None
        else "size of gravity less that of --expect",
        value=abs(length - float(np.linalg.norm(goal))),
        relation="≤",
        bound=0.05,
        unit="m/s²",
        cause="no gravity" if length == 0.0 else "gravity in other units",
        detail=said,
        fix=fix,
        label="model",
    )


def check_gravity_torques(context: Context) -> None:
    """Step 4: g against the potential and a hand calculation; gravity points down."""
    robot, recorder, at = context.robot, context.recorder, context.states
    units = {"q": "rad, m", "v": "rad/s, m/s", "a": "rad/s², m/s²"}
    recorder.trace("states", {k: getattr(at, k) for k in ("q", "v", "a", "x")}, units)
    record_check(recorder, check_gravity(robot, at))
    _judge_gravity(context)
    gravity = np.array(tuple(robot.model.gravity), float)
    single = not robot.model.has_couplings
    poses = [robot.neutral(), *at.q[:20]]
    by_hand = np.array([static_torques(robot, q) for q in poses])
    columns = ~np.isnan(by_hand).any(axis=0)
    if not columns.any() or not single or not gravity.any():
        reason = "no joint turns or slides about one axis, or joints are coupled, or no gravity"
        context.skip("g by hand", "weights times lever arms", reason)
        return
    g = robot.call("gravity", np.array(poses))
    by_hand, g = by_hand[:, columns], g[:, columns]
    size = max(float(np.abs(g).max()), float(least_gravity(robot, np.array(poses)).max()))
    context.measure(
        "static",
        "largest_magnitude",
        {"by_hand": by_hand, "g": g, "error": (g - by_hand) / size},
        ("error",),
        units={"by_hand": "N m, N", "g": "N m, N"},
    )
    recorder.claim(
        "g by hand",
        "g(q) against weights times lever arms, neutral and 20 random poses, relative",
        metric="static",
        relation="<",
        bound=1e-9,
        fix="a defect of the library: report it with the file",
        label="model",
    )


def check_mass_matrix(context: Context) -> None:
    """Step 5: M symmetric, positive definite, and the map of its condition number."""
    robot, recorder, at = context.robot, context.recorder, context.states
    for measure in (
        check_symmetry,
        check_positive_definite,
        check_composite_bodies,
        check_round_trip,
    ):
        record_check(recorder, measure(robot, at))
    n = context.settings.samples
    rng = np.random.default_rng([context.settings.seed, 3])
    q = np.concatenate([robot.neutral()[None], robot.random(rng, n)])
    with np.errstate(all="ignore"):
        condition = np.linalg.cond(robot.call("mass_matrix", q))
    worst = context.measure(
        "condition", "largest", {"q": q, "condition": condition}, ("condition",)
    )
    share = recorder.metric(
        "condition/flagged", "share_above", "condition.condition", bound=_FLAGGED
    )
    record_condition_map(context)
    record_mass_ellipsoids(context)
    recorder.claim(
        "M can be inverted",
        f"largest cond(M) of {len(q)} poses; above {_FLAGGED:g} a pose is flagged",
        metric="condition",
        relation="<",
        bound=1e10,
        detail=f"{100 * share:.0f} % of poses are flagged, worst {worst:.3g}: "
        + ("damped inverses there" if share > 0 else "none needs damping"),
        fix="a link with next to no inertia behind a joint: give it its real inertia or armature",
        label="model",
    )


def record_condition_map(context: Context) -> None:
    """Record cond(M) over the two joints on which it depends most."""
    robot, model = context.robot, context.robot.model
    single = [b for b in model.independent if b.joint.kind.nv == 1]
    if len(single) < 2 or robot.singular_joints:
        return
    ranges = {}
    for b in single:
        low, high = coordinate_range(model, b)
        ranges[b.joint.name] = (float(np.ravel(low)[0]), float(np.ravel(high)[0]))
    neutral = robot.neutral()
    spread = []
    for b in single:
        q = np.tile(neutral, (9, 1))
        q[:, b.iq.start] = np.linspace(ranges[b.joint.name][0], ranges[b.joint.name][1], 9)
        values = np.log(np.linalg.cond(robot.call("mass_matrix", q)))
        spread.append(float(np.ptp(values)))
    first, second = (single[k] for k in sorted(np.argsort(spread)[-2:]))
    x, y = (
        np.linspace(low, high, _GRID)
        for low, high in (ranges[b.joint.name] for b in (first, second))
    )
    grid = np.tile(neutral, (_GRID, _GRID, 1))
    grid[..., first.iq.start], grid[..., second.iq.start] = x[None, :], y[:, None]
    condition = np.linalg.cond(robot.call("mass_matrix", grid))
    context.recorder.trace(
        "condition_map",
        {"y": y, "x": x, "condition": condition},
        {
            axis: f"{b.joint.name}, {joint_units(b.joint.kind.angular)[0]}"
            for axis, b in (("x", first), ("y", second))
        },
    )


def record_mass_ellipsoids(context: Context) -> None:
    """Record the mass that is felt at the tip along directions of the x–z plane, at four poses.

    It is 1 / (uᵀ J M⁻¹ Jᵀ u) along u, the belted ellipsoid of Khatib (1995).
    """
    robot = context.robot
    if robot.singular_joints or robot.model.loops or robot.nv < 2:
        return
    frame = tip_frame(robot)
    q = np.concatenate([robot.neutral()[None], context.states.q[:3]])
    J = robot.frame_jacobian(q, frame, "local_world_aligned")[:, [0, 2]]
    mobility = J @ np.linalg.solve(robot.mass_matrix(q), np.swapaxes(J, 1, 2))
    angle = np.linspace(0.0, 2.0 * np.pi, 73)
    u = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    inverse = np.einsum("ai,pij,aj->ap", u, mobility, u)
    # a tip that cannot move along u feels like a wall
    mass = np.where(inverse > 1e-6 * inverse.max(), 1.0 / np.maximum(inverse, 1e-300), np.nan)
    context.recorder.trace(
        "mass_ellipsoids",
        {"angle": np.degrees(angle), "mass": mass},
        {"angle": "° from x towards z", "mass": "kg"},
        frame=f"{frame}, world axes; columns are the neutral and three random poses",
    )


def check_coriolis_matrix(context: Context) -> None:
    """Step 6: skew symmetry of Ṁ − 2C at 100 states and more, and what follows from it."""
    robot, at = context.robot, context.states
    for measure in (check_skew_symmetry, check_coriolis, check_power_balance):
        record_check(context.recorder, measure(robot, at))


def compare_engines(context: Context) -> None:
    """Step 13: the same file in the other engines that are installed."""
    names = [name for name, engine in ENGINES.items() if engine.is_installed]
    if not names:
        raise NotApplicable("no other engine is installed: pip install 'qddot[oracles]'")
    settings = Settings(
        base=context.settings.base, seed=context.settings.seed, trust=context.settings.trust
    )
    report = compare(context.source, None, names, settings, context.on_step)
    record_comparison(context.recorder, report, unread=True)


def tip_frame(robot: Robot) -> str:
    """The frame furthest from the base along the tree, last in the file among equals."""
    model = robot.model
    moving = [f for f in model.frames if f.body != WORLD]
    if not moving:
        raise NotApplicable("no frame of it moves")
    return max(reversed(moving), key=lambda f: len(model.ancestors(f.body))).name
