"""Write plots and figures of docs/identification.md: `python docs/identification.py`.

Real logs are taken from `../shared`; what is not there is left as it is on the page.
"""

from __future__ import annotations

import importlib
import re
import sys
import time
from pathlib import Path

import numpy as np

import qddot
from qddot import identify
from qddot.identify import TorqueModel
from qddot.identify.estimators import gather_moments, solve_weighted
from qddot.identify.excitation import _Problem
from qddot.identify.fourier import fourier_basis
from qddot.robot.robot import Robot

sys.path.insert(0, str(Path(__file__).parent))
from detective import DATA, PAGE, ROOT

ARM = ROOT.parent / "shared" / "menagerie" / "universal_robots_ur10e__ur10e.xml"
SHARE = 0.3
"""Speed of a wave that rejection draws at most, as a share of the velocity limits."""
STANDARD = ("armature", "viscous", "coulomb", "offset")


def put(mark: str, text: str) -> None:
    """Replace what stands between two marks of the page."""
    page = PAGE.read_text(encoding="utf-8")
    pattern = f"<!-- {mark} -->.*?<!-- /{mark} -->"
    block = f"<!-- {mark} -->\n{text}\n<!-- /{mark} -->"
    PAGE.write_text(re.sub(pattern, lambda _: block, page, flags=re.S), encoding="utf-8")
    print(text)


def real_logs() -> None:
    """Held-out errors of the real logs, and the plots of the UR10."""
    from detective import real

    lines = [
        "| log | method | bandwidth | held out | by joint |",
        "| --- | --- | --- | --- | --- |",
    ]
    for robot, log in real(decimate=1):
        shafts = (
            (identify.Shaft("motor6", {"joint_5": 1.0, "joint_6": 1.0}),)
            if "tx40" in robot.name
            else ()
        )
        train, test = log.split(2 / 3)
        for method in ("wls", "robust", "feasible"):
            fit = identify.fit(robot, train, method=method, shafts=shafts)
            result = identify.validate(fit, test)
            joints = " ".join(f"{100 * j.relative:.1f}" for j in result.joints)
            lines.append(
                f"| {robot.name} | {method} | {result.bandwidth:.3g} Hz | "
                f"{100 * result.total:.2f} % | {joints} % |"
            )
        if "ur10" in robot.name:
            folder = ROOT / "docs"
            title = f"UR10: held-out third, {100 * result.total:.2g} % remain"
            file = folder / "identification-ur10.png"
            identify.plot_prediction(result.residuals, test, file, title)
            whole = identify.fit(robot, log)
            identify.plot_budget(
                identify.budget(whole), folder / "identification-budget.png", "UR10: torque budget"
            )
            curves = identify.friction_curves(whole)
            identify.plot_friction(curves, folder / "identification-friction.png")
    put("real", "\n".join(lines))


DEFAULTS = (
    ("design", "_BAND", "torque bandwidth, times that of the motion"),
    ("selection", "_GAIN", "gain that a friction term must bring"),
    ("selection", "_STRIBECK", "Stribeck speed, share of the peak"),
    ("fitting", "REST_SHARE", "speed of rest, share of the peak"),
    ("design", "_STILL", "share of rest from which a row is left out"),
)
"""Defaults of a fit: module, name, words."""


def defaults() -> None:
    """Held-out errors of the real logs with each default halved and doubled."""
    from detective import real

    logs = [(robot, *log.split(2 / 3)) for robot, log in real(decimate=1)]

    def errors() -> list[str]:
        made = []
        for robot, train, test in logs:
            tx40 = "tx40" in robot.name
            wrist = identify.Shaft("motor6", {"joint_5": 1.0, "joint_6": 1.0})
            fit = identify.fit(robot, train, shafts=(wrist,) if tx40 else ())
            made.append(f"{100 * identify.validate(fit, test).total:.2f} %")
        return made

    names = " | ".join(robot.name for robot, *_ in logs)
    lines = [f"| default | × | {names} |", "| --- | --- |" + " --- |" * len(logs)]
    lines.append(f"| all as they are | 1 | {' | '.join(errors())} |")
    for place, name, words in DEFAULTS:
        module = importlib.import_module(f"qddot.identify.{place}")
        value = getattr(module, name)
        for factor in (0.5, 2.0):
            setattr(module, name, factor * value)
            lines.append(f"| {words} ({value:g}) | {factor:g} | {' | '.join(errors())} |")
            print(lines[-1], flush=True)
        setattr(module, name, value)
    put("defaults", "\n".join(lines))


def excitation(robot: Robot) -> None:
    """Plans beside the best of a thousand random series that fill the limits."""
    lines = [
        "UR10e, 20 s, 5 harmonics, beside the best of 1,000 random series of two samplers;",
        "processor time. *Random*: normal coefficients, each joint scaled until it touches one of",
        "its limits, placed at random in the room that is left. *Rejection*: the middle uniform",
        f"within the position limits, the speeds of all ten waves uniform within ± {SHARE:g} of",
        "the velocity limits, all joints drawn anew until every one keeps position, velocity and",
        "acceleration limits, 1,000 accepted. The result depends on that share: with 0.1 or 0.2",
        "motions are slow and the best is worse, with 0.4 one draw in ten thousand is accepted.",
        "",
        "| speeds, rad/s | objective | condition | random | rejection "
        "| mean deviation, random ÷ plan | s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    noise = 0.02 * robot.limits.effort
    model = identify.torque_model(robot, STANDARD, v0=0.02)
    base = identify.base_parameters(model)
    for speed, text in ((None, "1"), ([2.0, 2.0, 3.0, 3.0, 3.0, 3.0], "2, 3")):
        limits = identify.motion_limits(robot, velocity=speed)
        box = (limits.lower, limits.upper, limits.velocity, limits.acceleration)
        problem = _Problem(model, base, limits, 20.0, 5, noise, 2000)
        rng = np.random.default_rng(0)
        chance = [
            identify.random_motion(robot.joint_names, 20.0, 5, *box, rng) for _ in range(1000)
        ]
        lowest = np.exp(min(problem.score(m, "condition") for m in chance))
        volume = min(problem.score(m, "d-optimal") for m in chance)
        rejected = np.exp(
            min(problem.score(_draw_motion(robot, limits, rng), "condition") for _ in range(1000))
        )
        for objective in ("condition", "d-optimal"):
            began = time.process_time()
            plan = identify.plan(robot, 20.0, objective, limits=limits)
            took = time.process_time() - began
            assert max(plan.usage.values()) <= 1.0
            ratio = np.exp((plan.log_det + volume) / (2 * base.rank))
            lines.append(
                f"| {text} | {objective} | {plan.condition:.0f} | {lowest:.0f} "
                f"({lowest / plan.condition:.2f} ×) | {rejected:.0f} "
                f"({rejected / plan.condition:.2f} ×) | {ratio:.2f} | {took:.0f} |"
            )
    put("plan", "\n".join(lines))


def _draw_motion(
    robot: Robot, limits: identify.MotionLimits, rng: np.random.Generator
) -> identify.FourierMotion:
    """A random series of 5 harmonics, drawn until it keeps the limits."""
    basis = fourier_basis(np.linspace(0.0, 20.0, 400), 20.0, 5)
    while True:
        waves = rng.uniform(-SHARE, SHARE, (robot.nv, 10)) * limits.velocity[:, None]
        c = np.hstack([rng.uniform(limits.lower, limits.upper)[:, None], waves])
        q, v, a = basis @ c.T
        inside = np.all((q >= limits.lower) & (q <= limits.upper))
        slow = np.all((np.abs(v) <= limits.velocity) & (np.abs(a) <= limits.acceleration))
        if inside and slow:
            return identify.FourierMotion(robot.joint_names, 20.0, c)


def coverage(robot: Robot, seeds: int = 50) -> None:
    """Share of true base parameters inside their 95 % intervals, over seeds."""
    limits = identify.motion_limits(robot, velocity=[2.0, 2.0, 3.0, 3.0, 3.0, 3.0])
    box = (limits.lower, limits.upper, limits.velocity, limits.acceleration)
    inside, naive, before, after = [], [], [], []
    feasible = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        motion = identify.random_motion(robot.joint_names, 20.0, 5, *box, rng)
        truth = identify.perturb_robot(robot, 0.15, seed)
        log = identify.virtual_log(truth, motion, 60.0, 500.0, noise=0.01, seed=seed)
        fit = identify.fit(robot, log, STANDARD, v0=0.005)
        true = fit.design.base.values(TorqueModel(truth, fit.model.drives).prior())
        error = np.abs(fit.values - true)
        inside.append(np.mean(error < fit.half_widths))
        moments = gather_moments(fit.design.blocks(), fit.design.rows)
        plain = solve_weighted(moments.total, moments.counts.sum(axis=0))
        naive.append(np.mean(error < 1.96 * np.sqrt(np.diag(plain.inverse))))
        if seed < 5:
            other = identify.random_motion(robot.joint_names, 20.0, 5, *box, rng)
            held = identify.virtual_log(truth, other, 20.0, 500.0, noise=0.01, seed=seed + 1000)
            possible = identify.fit(robot, log, STANDARD, "feasible", v0=0.005)
            result = identify.validate(possible, held)
            before.append(result.before)
            after.append(result.total)
            feasible += possible.robot is not None
        print(seed, f"{inside[-1]:.2f} {naive[-1]:.2f}", flush=True)
    cover, plain = (f"{100 * np.mean(x):.3g} %" for x in (inside, naive))
    first, last = (f"{100 * np.mean(x):.2g} %" for x in (before, after))
    put(
        "coverage",
        f"UR10e, 60 s at 500 Hz, bodies ± 15 %, friction, torque noise of 1 % of the ratings,\n"
        f"encoders of 2e-5 rad, {seeds} seeds: true base parameters lie inside their 95 %\n"
        f"intervals in **{cover}** of cases ({plain} with the textbook covariance). On another\n"
        f"motion, feasible fits of five seeds leave {last} of the torques,\n"
        f"the description {first}; all bodies are possible in {feasible} of {len(after)}.",
    )


if __name__ == "__main__":
    asked = set(sys.argv[1:]) or {"real", "defaults", "plan", "coverage"}
    if "real" in asked and DATA.exists():
        real_logs()
    if "defaults" in asked and DATA.exists():
        defaults()
    if ARM.exists():
        arm = Robot(qddot.load(ARM).model, native=True)
        if "plan" in asked:
            excitation(arm)
        if "coverage" in asked:
            coverage(arm)
