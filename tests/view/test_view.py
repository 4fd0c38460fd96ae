"""The view: geometry, sliders, readings and motions as numbers, and a server that answers."""

from __future__ import annotations

import importlib.util
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from html_pages import HOSTILE, PLAIN, check_page, read_page, skeleton

import qddot
from qddot.control import PD
from qddot.display.markup import script_hash
from qddot.display.text import html_table
from qddot.errors import (
    DescriptionError,
    InvalidArgument,
    ShapeMismatch,
    UnknownName,
    UnsupportedVersion,
)
from qddot.model.tool_frame import tool_frame
from qddot.robot.robot import Robot
from qddot.simulate import save_trajectory
from qddot.simulate.contact import ComplementarityContact, Plane, Scene, Sphere
from qddot.view.client import client_scripts, secure_page
from qddot.view.coordinates import (
    coordinates_from_sliders,
    sliders_from_coordinates,
    sliders_of,
    start_configuration,
)
from qddot.view.geometry import inertia_part, robot_geometry
from qddot.view.motion import as_motion, read_motion, sweep_motion
from qddot.view.readings import Dynamics, torque_bars

needs_viser = pytest.mark.skipif(
    importlib.util.find_spec("viser") is None, reason="viser is not installed"
)


@pytest.fixture(scope="module")
def panda() -> Robot:
    return qddot.load("panda")


@pytest.fixture(scope="module")
def arm() -> Robot:
    return Robot(qddot.load("planar_2r").model, native=True)


def mesh_moments(vertices: np.ndarray, faces: np.ndarray):
    """Volume, centre and second moments of a closed surface, by tetrahedra from the origin."""
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    volumes = np.einsum("ni,ni->n", a, np.cross(b, c)) / 6
    s = a + b + c
    squares = sum(np.einsum("n,ni,nj->ij", volumes, x, x) for x in (a, b, c, s)) / 20
    return volumes.sum(), volumes @ s / 4 / volumes.sum(), squares


@pytest.mark.parametrize("name", ["panda", "ur5e", "quadruped", "delta", "planar_2r"])
def test_built_in_robots_have_closed_shapes_that_face_outward(name):
    geometry = robot_geometry(qddot.load(name))
    assert geometry.has_shapes
    for part in geometry.parts:
        assert mesh_moments(part.vertices - part.vertices.mean(axis=0), part.faces)[0] > 0
        # every edge is shared by two triangles that run along it in opposite ways, but at poles
        assert part.faces.max() < len(part.vertices)


@pytest.mark.parametrize("form", ["box", "ellipsoid"])
def test_inertia_shapes_have_the_inertia_of_their_bodies(panda, form):
    for i, body in enumerate(panda.model.bodies):
        part = inertia_part(i, body, form, (0, 0, 0, 1))
        volume, centre, squares = mesh_moments(part.vertices, part.faces)
        m = body.inertia.mass
        spread = (squares / volume - np.outer(centre, centre)) * m
        central = np.trace(spread) * np.eye(3) - spread
        com = np.array(list(body.inertia.com))
        I = np.array([list(row) for row in body.inertia.I.rows])
        expected = I - m * (com @ com * np.eye(3) - np.outer(com, com))
        # a sphere of triangles is a little smaller than the sphere
        tolerance = 1e-9 if form == "box" else 0.05
        assert centre == pytest.approx(com, abs=1e-9)
        assert central == pytest.approx(expected, abs=tolerance * np.trace(expected))


def test_a_robot_without_shapes_is_a_skeleton():
    robot = qddot.Robot.from_dh("rods", [{"a": 0.5, "mass": 1.0}, {"a": 0.3, "mass": 1.0}])
    geometry = robot_geometry(robot)
    assert not geometry.has_shapes
    assert {part.body for part in geometry.parts} >= {0, 1}
    # rods reach from joint to joint
    reach = max(part.vertices[:, 0].max() for part in geometry.parts)
    assert reach == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("name", "frame"), [("panda", "panda_hand_tcp"), ("ur5e", "grasp"), ("planar_2r", "tool")]
)
def test_tool_frames(name, frame):
    assert tool_frame(qddot.load(name).model) == frame


def test_the_tool_is_not_a_finger():
    fingers = [
        {
            "name": f"finger{k}",
            "parent": "link4",
            "joint": "prismatic",
            "axis": (0, 1, 0),
            "mass": 0.1,
        }
        for k in (1, 2)
    ]
    chain = [{"name": "base", "parent": None, "joint": "fixed"}] + [
        {"name": f"link{k}", "parent": "base" if k == 1 else f"link{k - 1}", "joint": "revolute",
         "axis": (0, 0, 1), "mass": 1.0}
        for k in range(1, 5)
    ]  # fmt: skip
    robot = qddot.Robot.from_links("gripper", [*chain, *fingers])
    assert tool_frame(robot.model) == "link4"
    # one jaw that closes against a fixed one has no branch, but a name
    jaw = {**fingers[0], "name": "mover", "joint_name": "jointGripper"}
    assert tool_frame(qddot.Robot.from_links("jaw", [*chain, jaw]).model) == "link4"


@pytest.mark.parametrize("name", ["panda", "quadruped", "quadrotor", "delta"])
def test_sliders_and_coordinates_are_one_to_one(name):
    robot = qddot.load(name)
    sliders, q = sliders_of(robot), robot.random(3)
    values = list(sliders_from_coordinates(sliders, q))
    again = coordinates_from_sliders(sliders, values, robot.neutral())
    assert np.abs(robot.difference(q, again)).max() < 1e-12
    assert len({(s.group, s.label) for s in sliders}) == len(sliders) >= robot.nv


def test_limbs_have_names():
    groups = list(dict.fromkeys(s.group for s in sliders_of(qddot.load("quadruped"))))
    assert groups == ["root", "FL", "FR", "RL", "RR"]


def test_start_is_within_the_limits(panda):
    q = start_configuration(panda)
    assert (panda.limits.lower <= q).all()
    assert (q <= panda.limits.upper).all()


def test_readings_are_those_of_the_robot_with_its_payload(arm):
    dynamics, q = Dynamics(arm), np.array([0.3, -0.8])
    dynamics.set_payload("tool", 2.0)
    loaded = arm.with_payload("tool", 2.0)
    readings = dynamics.read(q)
    assert readings.torque == pytest.approx(loaded.gravity(q), rel=1e-9)
    assert readings.condition == pytest.approx(np.linalg.cond(loaded.mass_matrix(q)), rel=1e-6)
    assert readings.center_of_mass == pytest.approx(loaded.center_of_mass(q), abs=1e-9)
    v, a = np.array([0.2, 0.1]), np.array([1.0, -1.0])
    torque = dynamics.read(q, v, a).torque
    assert torque == pytest.approx(loaded.inverse_dynamics(q, v, a), rel=1e-9)


def test_torque_bars_are_shares_of_the_limits():
    page = torque_bars(["a<b", "c"], np.array([5.0, -30.0]), np.array([10.0, 20.0]), ["N m"] * 2)
    assert "a&lt;b" in page
    assert "left:50.0%;width:25.0%" in page  # half of the limit, forward
    assert "left:0.0%;width:50.0%" in page  # beyond it, backward
    assert "#b5484a" in page  # in red
    assert "-30.00 / 20 N m" in page


def test_motions_of_all_kinds(arm, tmp_path):
    rollout = arm.rollout([0.1, 0.2], [0.0, 0.0], None, dt=1e-3, steps=100, every=10)
    moved = as_motion(rollout)
    assert (len(moved.time), moved.duration) == (11, pytest.approx(0.1))
    assert moved.tau.shape == (11, 2)
    assert moved.sample(np.array([0.0, 0.055])) == pytest.approx(rollout.q[[0, 5]])
    # configurations alone have the velocities of their steps
    turning = as_motion(np.linspace([0.0, 0.0], [1.0, 2.0], 11), arm)
    assert turning.v == pytest.approx(np.tile([5.0, 10.0], (11, 1)))
    file = tmp_path / "motion.csv"
    file.write_text("time,q_joint1,q_joint2\n0,0.1,0.2\n0.5,0.3,0.4\n")
    assert as_motion(file, arm).q.tolist() == [[0.1, 0.2], [0.3, 0.4]]
    np.savez(tmp_path / "motion.npz", time=moved.time, q=moved.q)
    assert as_motion(str(tmp_path / "motion.npz"), arm).q == pytest.approx(moved.q)
    assert sweep_motion(arm).q.shape[1] == 2


def test_a_motion_has_the_torques_of_its_law_and_its_contact_forces():
    link = {"name": "ball", "parent": None, "joint": "free", "mass": 2.0}
    ball = qddot.Robot.from_links("ball", [link | {"inertia": np.eye(3).tolist()}])
    scene = Scene(planes=[Plane()], spheres=[Sphere("ball", radius=0.1)], friction=0.5)
    start, kp = np.array([0, 0, 0.1, 0, 0, 0, 1.0]), np.array([0, 0, 30.0, 0, 0, 0])
    motion = ball.rollout(
        start, np.zeros(6), dt=1e-3, steps=5, record=True, contact=ComplementarityContact(scene),
        feedback=PD(kp, np.zeros(6)), q_ref=start - [0, 0, 0.1, 0, 0, 0, 0], v_ref=np.zeros(6),
    )  # fmt: skip
    moved = as_motion(motion, forces=True)
    # the law presses with 3 N on top of the weight
    assert moved.tau[0] == pytest.approx([0, 0, -3.0, 0, 0, 0])
    assert moved.contact_forces[0, 0] == pytest.approx([0, 0, 2 * 9.81 + 3.0], rel=1e-6)
    assert moved.contact_points[0, 0] == pytest.approx([0, 0, 0], abs=1e-9)
    assert as_motion(motion).contact_forces is None


@needs_viser
def test_only_what_moved_is_sent(panda):
    class Node:
        def __init__(self):
            self.sent = []

        def __setattr__(self, name, value):
            self.__dict__[name] = value
            if name in ("wxyz", "position"):
                self.sent.append(name)

    from qddot.view.scene import RobotScene

    class Stage:
        def __getattr__(self, name):
            return lambda *_, **__: Node()

    scene, q = RobotScene(Stage(), panda), start_configuration(panda)
    scene.move(panda.body_poses(q))
    for node in scene._bodies:
        node.sent.clear()
    scene.move(panda.body_poses(q + 0.1 * (np.arange(7) == 3)))
    assert [node.sent for node in scene._bodies] == [[], [], [], ["wxyz"], [], [], []]


def test_motions_of_records_and_logs(arm, tmp_path):
    pytest.importorskip("mcap")
    from qddot.evidence import Recorder, Run

    time = np.arange(5) * 0.1
    with Recorder(tmp_path / "run.mcap", Run("two motions")) as record:
        record.trace("short", {"time": time[:2], "q": np.zeros((2, 2))})
        record.trace("long", {"time": time, "q": np.ones((5, 2))})
        record.trace("other", {"time": time, "error": time})
    assert as_motion(str(tmp_path / "run.mcap"), arm).q.tolist() == np.ones((5, 2)).tolist()
    assert len(read_motion(tmp_path / "run.mcap", "short")["q"]) == 2
    with pytest.raises(UnknownName, match="closest: 'short'"):
        read_motion(tmp_path / "run.mcap", "shor")
    rollout = arm.rollout([0.1, 0.2], [0.0, 0.0], None, dt=1e-3, steps=20, every=10)
    save_trajectory(arm, rollout, tmp_path / "log.mcap")
    assert as_motion(str(tmp_path / "log.mcap"), arm).q == pytest.approx(rollout.q)


def test_mistakes_in_motions_are_named(arm, tmp_path):
    with pytest.raises(ShapeMismatch, match=r"\(3, 2\)"):
        as_motion({"time": [0, 1, 2], "q": np.zeros((3, 5))}, arm)
    with pytest.raises(InvalidArgument, match="needs one"):
        as_motion(np.zeros((3, 2)))
    with pytest.raises(InvalidArgument, match="finite"):
        as_motion({"time": [0.0], "q": [[np.nan, 0.0]]}, arm)
    (tmp_path / "bad.npz").write_text("nothing")
    with pytest.raises(DescriptionError, match="no motion"):
        read_motion(tmp_path / "bad.npz")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DescriptionError, match="columns are time, q_JOINT"):
        read_motion(tmp_path / "bad.csv")


def test_pictures(arm, tmp_path):
    rollout = arm.rollout([0.1, 0.2], [0.0, 0.0], None, dt=1e-3, steps=200, every=20)
    arm.plot([0.3, 0.4]).savefig(tmp_path / "robot.png")
    figure = qddot.view.plot_motion(rollout)
    assert [axes.get_ylabel() for axes in figure.axes][:2] == [
        "position, rad",
        "velocity, rad/s",
    ]
    assert all(axes.get_legend() for axes in figure.axes)
    file = qddot.view.animate_motion(rollout, tmp_path / "motion.gif", fps=10)
    assert file.read_bytes()[:4] == b"GIF8"
    with pytest.raises(ShapeMismatch, match=r"\(2,\)"):
        arm.plot([1.0, 2.0, 3.0])
    with pytest.raises(InvalidArgument, match=r"\.gif or \.mp4"):
        qddot.view.animate_motion(rollout, tmp_path / "motion.avi")


def test_one_spike_does_not_flatten_a_plot(arm):
    v = np.zeros((1000, 2))
    v[500] = 1e6
    v[:, 0] += np.sin(np.arange(1000) / 50)
    motion = {"time": np.arange(1000) / 100, "q": np.zeros((1000, 2)), "v": v}
    low, high = qddot.view.plot_motion(motion, arm).axes[1].get_ylim()
    assert -3 < low < high < 3


def test_a_body_whose_only_shape_is_tiny_has_bones_too(tmp_path):
    body = """<body name="{0}" pos="0 0 {1}"><joint name="{0}" axis="1 0 0"/>
      <inertial pos="0 0 .2" mass="1" diaginertia=".1 .1 .1"/><geom type="sphere" size="{2}"/>"""
    text = body.format("a", 0, 0.004) + body.format("b", 0.4, 0.2) + "</body></body>"
    file = tmp_path / "chain.xml"
    file.write_text(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
    parts = robot_geometry(qddot.load(file)).parts
    # the sphere of a sensor, a ball, a rod and an inertia box; the large sphere alone
    assert [sum(part.body == k for part in parts) for k in (0, 1)] == [4, 1]


@needs_viser
def test_a_view_answers_and_follows(arm):
    from qddot.view.browser import open_view

    view = open_view(arm, ghost=arm.with_payload("tool", 1.0), port=0)
    try:
        with urllib.request.urlopen(view.url, timeout=10) as answer:
            assert answer.status == 200
        assert view.url.startswith("http://127.0.0.1:")
        # the tool is dragged to where another configuration has it
        q = np.array([0.5, 0.9])
        target = arm.frame_pose(q, "tool")
        error = view.drag_tool((1.0, 0.0, 0.0, 0.0), target[:3, 3], "position")
        assert error < 1e-5
        view.draw()
        assert arm.frame_pose(view.q, "tool")[:3, 3] == pytest.approx(target[:3, 3], abs=1e-4)
        assert view.readings.torque == pytest.approx(arm.gravity(view.q))
        view.play(np.linspace([0.0, 0.0], [1.0, 1.0], 20))
        view.playing = False
        view.seek(0.2)
        assert view.q == pytest.approx(view.motion.q[10])
        with pytest.raises(ShapeMismatch):
            view.set_state([0.0])
        for overlay in view.panel._shown:
            view.scene.show(overlay, True)
        assert all(view.scene.mark_tool(q, "tool", k) for k in ("velocity", "mass"))
    finally:
        view.close()


def named_chain(text: str) -> Robot:
    """A robot in which everything that has a name has this text in it."""
    base = {"name": f"0{text}", "parent": None, "joint_name": f"j0{text}", "joint": "fixed"}
    moving = {"joint": "revolute", "axis": (0, 0, 1), "mass": 1.0}
    links = [
        moving | {"name": f"{k}{text}", "parent": f"{k - 1}{text}", "joint_name": f"j{k}{text}"}
        for k in (1, 2)
    ]
    return Robot.from_links(f"robot {text}", [base, *links])


@needs_viser
def test_an_exported_page_runs_its_own_code_alone(arm, tmp_path):
    from qddot.view.browser import export_page

    # line separators are refused in names
    hostile = HOSTILE.replace("\u2028", "").replace("\u2029", "")
    pages = {}
    for text in (PLAIN, hostile):
        motion = np.zeros((3, 2))
        page = export_page(named_chain(text), tmp_path / "robot.html", motion).read_text("utf-8")
        assert "__VISER_EMBED_DATA__" in page
        pages[text] = page
    assert skeleton(pages[hostile]) == skeleton(pages[PLAIN])
    found = check_page(pages[hostile])
    assert f"robot {hostile}" in found.text
    # the code that viser packs and puts into the page is the last that the policy allows
    code = client_scripts(pages[hostile])[-1]
    assert "WebGLRenderer" in code
    (policy,) = [a["content"] for _, a in found.elements if "http-equiv" in a]
    assert script_hash(code) in policy
    assert script_hash(code + " ") not in policy
    with pytest.raises(InvalidArgument, match=r"\.html"):
        export_page(arm, tmp_path / "arm.txt")


@needs_viser
@pytest.mark.parametrize(
    ("old", "new"),
    [("data-p=", "data-q="), ("data-cs=\"", "data-cs=\"1"), ("data-p=\"", "data-p=\"~"),
     ("<title>Viser</title>", "<title></title>"), ("data-p=\"", "data-p=\"é")],
)  # fmt: skip
def test_a_page_of_another_viser_is_refused(old, new):
    import viser

    file = Path(viser.__file__).parent / "client" / "build" / "index.html"
    page = file.read_text("utf-8")
    assert "Content-Security-Policy" in secure_page(page, "title")
    with pytest.raises(UnsupportedVersion, match="viser"):
        secure_page(page.replace(old, new, 1), "title")


def test_no_name_is_markup_on_the_panel(arm):
    for text in (torque_bars([HOSTILE], np.ones(1), np.ones(1), [HOSTILE], np.ones(1)),
                 html_table([HOSTILE], [[HOSTILE]], HOSTILE)):  # fmt: skip
        tags = {tag for tag, _ in read_page(text).elements}
        assert tags <= {"style", "div", "p", "span", "b", "i", "u"} | {
            "table", "caption", "thead", "tbody", "tr", "th", "td"
        }  # fmt: skip
