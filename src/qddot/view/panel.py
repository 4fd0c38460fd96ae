"""The panel beside the robot: sliders, torques, what to show, the tool, and playback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qddot.display.markup import element
from qddot.display.plots import PALETTE
from qddot.errors import count_text
from qddot.model.model import WORLD
from qddot.view.coordinates import sliders_from_coordinates
from qddot.view.gate import LOG
from qddot.view.motion import RobotMotion
from qddot.view.readings import Readings, torque_bars
from qddot.view.scene import OVERLAYS, TOOL_ELLIPSOIDS, quaternions
from qddot.view.session import View

__all__ = ["Panel", "control_value", "listen"]

_MOST_OPEN = 14
_MOST_CURVES = 8
_MOST_SAMPLES = 300
_SLOWER = 4
"""Drawings of a playing motion between two of the sliders and curves."""


def control_value(handle: Any) -> Any:
    """The value of a control, within its bounds or options whatever a page sent."""
    value = handle.value
    if hasattr(handle, "options"):
        return value if value in handle.options else handle.options[0]
    return min(max(value, handle.min), handle.max) if hasattr(handle, "min") else value


def listen(handle: Any) -> Callable[[Callable[[Any], None]], None]:
    """Call a function when a control is used; what fails for a page's message is logged."""

    def register(action: Callable[[Any], None]) -> None:
        @handle.on_update
        def _(event: Any) -> None:
            try:
                action(event)
            except Exception as error:
                LOG.info("a message of a page was ignored: %s", error)

    return register


class Panel:
    """The controls of a view; `refresh` writes the readings of a state into it."""

    def __init__(self, view: View) -> None:
        self.view, self.gui = view, view.server.gui
        self.full_torque = True
        self._plot: Any = None
        self._gizmo: Any = None
        self._ellipsoid: Any = None
        robot = view.robot
        self._driven = view.dynamics.motors
        self._units = ["N m" if robot.model.angular[k] else "N" for k in self._driven]
        self._draws = 0
        self._facts = self.gui.add_html("")
        self._bars = self.gui.add_html("")
        tabs = self.gui.add_tab_group()
        with tabs.add_tab("Joints"):
            self._add_joints()
        with tabs.add_tab("Tool"):
            self._add_tool()
        with tabs.add_tab("Show"):
            self._add_overlays()
        self._play_tab = tabs.add_tab("Play")
        with self._play_tab:
            self._no_motion = self.gui.add_markdown(
                "No motion yet: `qddot view ROBOT --play motion.npz`, or `view.play(motion)`."
            )

    def _add_joints(self) -> None:
        """Buttons of configurations, and a slider a coordinate, folded by limb."""
        view, gui = self.view, self.gui
        named = {"neutral": view.robot.neutral(), **view.robot.configurations}
        choice = gui.add_dropdown("configuration", [*named, "random"])

        @listen(choice)
        def _(event: Any) -> None:
            if event.client is not None:
                view.playing = False
                name = control_value(choice)
                view.set_state(named[name] if name in named else view.robot.random())

        self._sliders = []
        folders: dict[str, Any] = {}
        values = sliders_from_coordinates(view.sliders, view.q)
        for s, value in zip(view.sliders, values, strict=True):
            if s.group not in folders:
                open_ = len(view.sliders) <= _MOST_OPEN
                folders[s.group] = gui.add_folder(s.group, expand_by_default=open_)
            with folders[s.group]:
                step = (s.upper - s.lower) / 1000
                hint = f"{s.lower:.4g} to {s.upper:.4g} {s.unit}"
                handle = gui.add_slider(s.label, s.lower, s.upper, step, value, hint=hint)
            listen(handle)(self._slide)
            self._sliders.append(handle)

    def _slide(self, event: Any) -> None:
        if event.client is not None:
            self.view.set_sliders([control_value(handle) for handle in self._sliders])

    def _add_tool(self) -> None:
        """The frame that is the tool, the handle that drags it, its ellipsoid, and a payload."""
        view, gui = self.view, self.gui
        moving = [f.name for f in view.robot.model.frames if f.body != WORLD]
        if view.tool is None or not moving:
            gui.add_markdown("Nothing moves.")
            return
        frame = gui.add_dropdown("frame", moving, initial_value=view.tool)
        drag = gui.add_checkbox("drag it", False, hint="pull the tool; joints follow")
        task = gui.add_dropdown("keep", ["position and orientation", "position"])
        self._ellipsoid = gui.add_dropdown("ellipsoid", TOOL_ELLIPSOIDS)
        self._ellipsoid_text = gui.add_markdown("")
        most = max(1.0, round(0.5 * float(view.robot.model.mass), 1))
        payload = gui.add_slider("payload, kg", 0.0, most, most / 200, 0.0)
        self._gizmo = view.server.scene.add_transform_controls(
            "/tool", scale=0.2 * view.scene.size, depth_test=False, visible=False
        )
        self._drag = drag

        @listen(frame)
        def _(_: Any) -> None:
            view.set_payload(0.0)
            view.tool = control_value(frame)
            view.set_payload(control_value(payload))

        @listen(drag)
        def _(_: Any) -> None:
            view.playing = False
            self._place_gizmo()
            self._gizmo.visible = drag.value

        @listen(self._gizmo)
        def _(event: Any) -> None:
            if event.client is not None:
                prescribed = "position" if control_value(task) == "position" else "pose"
                view.drag_tool(self._gizmo.wxyz, self._gizmo.position, prescribed)
                # what is out of reach is let go of where the tool stopped
                if event.phase == "end":
                    self._place_gizmo()

        @listen(self._ellipsoid)
        def _(_: Any) -> None:
            view.request_drawing()

        @listen(payload)
        def _(_: Any) -> None:
            view.set_payload(control_value(payload))

    def _place_gizmo(self) -> None:
        """The handle to where the tool is."""
        pose = self.view.robot.call("frame_pose", self.view.q, frame=self.view.tool)
        self._gizmo.wxyz, self._gizmo.position = quaternions(pose[:3, :3]), pose[:3, 3]

    def _add_overlays(self) -> None:
        """A checkbox for each overlay that the robot has something for."""
        view, gui = self.view, self.gui
        floats = any(b.joint.kind.floats for b in view.robot.model.bodies)
        self._shown: dict[str, Any] = {}
        opacity = gui.add_slider("robot", 0.0, 1.0, 0.05, 1.0, hint="opacity")
        listen(opacity)(lambda _: view.scene.set_opacity(control_value(opacity)))
        if view.ghost_scene is not None:
            ghost_scene, name = view.ghost_scene, view.ghost.name if view.ghost else ""
            pale = gui.add_slider(f"ghost: {name}", 0.0, 1.0, 0.05, 0.3, hint="opacity")
            listen(pale)(lambda _: ghost_scene.set_opacity(control_value(pale)))
        for name in OVERLAYS:
            if name == "support polygon" and not floats:
                continue
            if name == "loop closures" and not view.robot.model.loops:
                continue
            first = name in ("centre of mass", "loop closures")
            box = self._shown[name] = gui.add_checkbox(name, first)

            def toggle(_: Any, name: str = name, box: Any = box) -> None:
                view.scene.show(name, box.value)
                view.request_drawing()

            listen(box)(toggle)

    def add_player(self, motion: RobotMotion) -> None:
        """Controls of a motion: play, time, speed, and curves in step with it."""
        import viser.uplot as uplot

        view, gui = self.view, self.gui
        self._no_motion.visible = False
        if self._plot is not None:
            return
        with self._play_tab:
            playing = self._playing = gui.add_checkbox("play", True)
            duration = max(motion.duration, 1e-3)
            self._time = gui.add_slider("time, s", 0.0, duration, duration / 1000, 0.0)
            speed = gui.add_slider("speed", 0.05, 4.0, 0.05, 1.0, hint="times real time")
            self._contacts = (
                gui.add_checkbox("contact forces", True) if view.contacts is not None else None
            )
            source = gui.add_dropdown("torques", ["of the motion", "of gravity alone"])
            choices = {"position": motion.positions, "velocity": motion.v}
            if motion.tau is not None:
                choices["torque"] = motion.tau
            self._curves = choices
            self._quantity = gui.add_dropdown("curves", [*choices])
            first = list(
                dict.fromkeys(n.rsplit(".", 1)[0] for n in view.robot.model.velocity_names)
            )
            self._first = (
                gui.add_dropdown("from joint", first) if len(first) > _MOST_CURVES else None
            )
            self._plot = gui.add_uplot(
                *self._plot_content(),
                scales={"x": uplot.Scale(time=False), "now": uplot.Scale(range=(0.0, 1.0))},
                legend=uplot.Legend(live=False),
                aspect=1.4,
            )

        @listen(playing)
        def _(event: Any) -> None:
            if event.client is not None:
                view.playing = playing.value

        @listen(self._time)
        def _(event: Any) -> None:
            if event.client is not None:
                view.playing = False
                view.seek(control_value(self._time))

        @listen(speed)
        def _(_: Any) -> None:
            view.speed = control_value(speed)

        @listen(source)
        def _(_: Any) -> None:
            self.full_torque = control_value(source) == "of the motion"
            view.request_drawing()

        if self._contacts is not None:
            listen(self._contacts)(lambda _: view.request_drawing())
        for choice in (self._quantity, self._first):
            if choice is not None:
                listen(choice)(lambda _: self._renew_plot())

    def _renew_plot(self) -> None:
        """Other curves."""
        self._plot.data, self._plot.series = self._plot_content()

    def _plot_content(self) -> tuple[Any, Any]:
        """Curves of some joints over time, and a line at the time that is shown."""
        import viser.uplot as uplot

        view, motion = self.view, self.view.motion
        assert motion is not None
        names = view.robot.model.velocity_names
        start = 0
        if self._first is not None:
            start = next(
                k for k, n in enumerate(names) if n.rsplit(".", 1)[0] == control_value(self._first)
            )
        rows = range(start, min(start + _MOST_CURVES, len(names)))
        values = self._curves[control_value(self._quantity)]
        every = max(1, len(motion.time) // _MOST_SAMPLES)
        time = (motion.time - motion.time[0])[::every]
        kept = np.array(values[::every][:, list(rows)], dtype=float)
        # two samples at the time that is shown carry the upright line
        k = int(np.searchsorted(time, view.at))
        now = np.repeat([0.0, 1.0], [k + 1, len(time) + 1 - k])
        row = kept[min(max(k - 1, 0), len(kept) - 1)]
        kept = np.insert(kept, [k, k], row, axis=0)
        time = np.insert(time, [k, k], view.at)
        series = [uplot.Series(label="time, s")]
        for n, j in enumerate(rows):
            series.append(uplot.Series(label=names[j], stroke=PALETTE[n % len(PALETTE)], width=1.5))
        series.append(uplot.Series(label="now", stroke="#222222", width=1, scale="now"))
        return (time, *np.ascontiguousarray(kept.T), now), tuple(series)

    def refresh(self, q: np.ndarray, readings: Readings, ghost: np.ndarray | None) -> None:
        """Write a state into the panel."""
        view, robot = self.view, self.view.robot
        rows = self._driven
        names = [robot.model.velocity_names[k] for k in rows]
        effort, others = robot.limits.effort[rows], None if ghost is None else ghost[rows]
        self._bars.content = torque_bars(names, readings.torque[rows], effort, self._units, others)
        # sliders and curves follow a playing motion a few times a second
        self._draws += 1
        turn = not view.playing or self._draws % _SLOWER == 0
        if turn:
            values = sliders_from_coordinates(view.sliders, q)
            for handle, value in zip(self._sliders, values, strict=True):
                if abs(handle.value - value) > 1e-9:
                    handle.value = value
        com = readings.center_of_mass
        shown = {name: box.value for name, box in self._shown.items()}
        view.scene.mark_center_of_mass(com, view.ground, shown["centre of mass"])
        margin = view.scene.mark_support(readings.bodies, com, shown.get("support polygon", False))
        gap = view.scene.mark_loops(q, shown.get("loop closures", False))
        mass = float(view.dynamics.parameters[:, 0].sum()) + float(robot.model.base_inertia.mass)
        facts = [
            f"mass {mass:.4g} kg",
            f"cond M {readings.condition:.3g}",
            f"centre of mass {com[0]:.3f}, {com[1]:.3f}, {com[2]:.3f} m",
        ]
        if view.tool is not None and self._ellipsoid is not None:
            at = robot.call("frame_pose", q, frame=view.tool)[:3, 3]
            facts.append(f"{view.tool} {at[0]:.3f}, {at[1]:.3f}, {at[2]:.3f} m")
            text = view.scene.mark_tool(q, view.tool, control_value(self._ellipsoid))
            if text != self._ellipsoid_text.content:
                self._ellipsoid_text.content = text
        if margin is not None:
            facts.append(f"balance margin {1000 * margin:.0f} mm")
        if robot.model.loops:
            facts.append(f"widest loop gap {1000 * gap:.3g} mm")
        if self._plot is not None and self._contacts is not None and view.contacts is not None:
            force = view.scene.mark_contacts(*view.contacts, self._contacts.value)
            facts.append(f"contact forces {force:.4g} N in all")
        if view.scene.geometry.missing:
            facts.append(f"{count_text(len(view.scene.geometry.missing), 'shape')} not shown")
        lines, style = (element("div", x) for x in facts), "font-size:12px;padding:4px 8px"
        self._facts.content = str(element("div", lines, class_="qddot-facts", style=style))
        if self._plot is not None and view.motion is not None and turn:
            self._time.value = min(view.at, view.motion.duration)
            if self._playing.value != view.playing:
                self._playing.value = view.playing
            self._plot.data = self._plot_content()[0]
