"""Drive the view in headless Chromium: updates a second, errors, requests, and screenshots.

`python docs/view_in_browser.py ROBOT --out FOLDER` opens the view of a robot as a user would, moves
a slider, drags the tool, plays a motion, and does it again at the width of a phone. It prints what
was seen, and exits with 1 if the page logged an error, asked for anything but the server, or did
not follow. It needs Chromium on the path and the extra `view`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from websockets.sync.client import connect

import qddot
from qddot.view.browser import export_page, open_view
from qddot.view.motion import sweep_motion
from qddot.view.panel import _MOST_OPEN

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-quic", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--remote-debugging-port=0",
)  # fmt: skip
DESKTOP, PHONE = (1400, 900), (390, 844)
# numbers of the torque bars are text of the page: each update that arrives changes them
COUNT_UPDATES = """
window.updates = 0; window.frames_drawn = 0;
const torques = document.querySelector('.qddot-torques').closest('div:not(.qddot-torques)');
new MutationObserver(() => { window.updates++; }).observe(
    torques.parentElement, {childList: true, subtree: true, characterData: true});
const count = () => { window.frames_drawn++; requestAnimationFrame(count); };
requestAnimationFrame(count);
"""


class Page:
    """A page of Chromium, driven by its debugging protocol."""

    def __init__(self, address: str) -> None:
        self.socket = connect(address, max_size=None)
        self.numbers, self.events = itertools.count(1), []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        # processor time of the page's main thread, whatever else the machine does
        self.send("Performance.enable", timeDomain="threadTicks")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command; events that come before it are kept."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == number:
                return message.get("result", message)
            self.events.append(message)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def wait_for(self, condition: str, seconds: float = 60.0) -> None:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise TimeoutError(condition)
            time.sleep(0.2)

    def click(self, x: float, y: float, dx: float = 0.0, dy: float = 0.0) -> None:
        """Press at a point of the page, drag by (dx, dy), and let go."""
        mouse = {"button": "left", "buttons": 1, "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        time.sleep(0.3)
        self.send("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **mouse)
        for k in range(1, 11 if dx or dy else 1):
            at = {"x": x + dx * k / 10, "y": y + dy * k / 10}
            self.send("Input.dispatchMouseEvent", type="mouseMoved", **at, **mouse)
            time.sleep(0.1)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", x=x + dx, y=y + dy, **mouse)
        time.sleep(0.5)

    def click_text(self, text: str, kind: str) -> None:
        """Click on the element of this kind with a text."""
        same = f"e => e.textContent.trim() == '{text}'"
        found = f"[...document.querySelectorAll('{kind}')].find({same})"
        self.evaluate(f"{found}.scrollIntoView({{block: 'center'}})")
        box = f"(({found}).getBoundingClientRect())"
        self.click(*self.evaluate(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]"))

    def tick(self, text: str) -> None:
        """Tick the checkbox in the row of a label."""
        rows = "[...document.querySelectorAll('div')].filter(e => e.querySelector('input'))"
        same = f"e => e.textContent.trim() == '{text}' && e.querySelector('input[type=checkbox]')"
        self.evaluate(f"{rows}.find({same}).querySelector('input').click()")
        time.sleep(0.5)

    def save_picture(self, file: Path) -> None:
        """Write what the page shows."""
        data = self.send("Page.captureScreenshot", format="png")["data"]
        file.write_bytes(base64.b64decode(data))

    def faults(self) -> list[str]:
        """Errors that the page logged, and requests to others than the server."""
        found = []
        for event in self.events:
            method, facts = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = facts["exceptionDetails"]
                said = details.get("exception", {}).get("description", details["text"])
                # the sorter of Gaussian splats makes code of text, which the policy forbids
                if not (said.startswith("EvalError") and "unsafe-eval" in said):
                    found.append(said)
            if method == "Runtime.consoleAPICalled" and facts["type"] == "error":
                found.append(str(facts["args"][0].get("value", facts["args"][0])))
            if method == "Log.entryAdded" and facts["entry"]["level"] == "error":
                found.append(facts["entry"]["text"] + " " + facts["entry"].get("url", ""))
            if method == "Network.requestWillBeSent":
                address = facts["request"]["url"]
                if not address.startswith(("http://127.0.0.1:", "data:", "blob:", "file:")):
                    found.append(f"request to {address}")
        return found


@contextlib.contextmanager
def open_browser(size: tuple[int, int]) -> Iterator[Page]:
    """A new browser with one empty page of a size."""
    program = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        window = f"--window-size={size[0]},{size[1]}"
        command = [program, *FLAGS, window, f"--user-data-dir={folder}", "about:blank"]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            port = Path(folder) / "DevToolsActivePort"
            end = time.monotonic() + 60
            while not (port.exists() and port.read_text()) and time.monotonic() < end:
                time.sleep(0.1)
            address = f"http://127.0.0.1:{port.read_text().split()[0]}/json"
            targets = json.load(urllib.request.urlopen(address, timeout=30))
            page = Page(next(t for t in targets if t["type"] == "page")["webSocketDebuggerUrl"])
            page.send(
                "Emulation.setDeviceMetricsOverride",
                width=size[0], height=size[1], deviceScaleFactor=1, mobile=size[0] < 600,
            )  # fmt: skip
            yield page
        finally:
            process.terminate()
            process.wait(timeout=30)


def open_view_in(page: Page, view: Any) -> None:
    """Load the view and wait until the robot and its panel are there."""
    page.send("Page.navigate", url=view.url)
    page.wait_for(
        "!!document.querySelector('canvas') && document.body.innerText.includes('cond M')"
    )
    # panels slide into their places
    time.sleep(8.0)


def screen_point(view: Any, point: np.ndarray, size: tuple[int, int]) -> tuple[float, float]:
    """Where a point of the world is on the page."""
    camera = next(iter(view.server.get_clients().values())).camera
    w, x, y, z = camera.wxyz
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    R = np.eye(3) + 2 * w * cross + 2 * cross @ cross
    right, down, ahead = R.T @ (point - camera.position)
    scale = 0.5 * size[1] / np.tan(0.5 * camera.fov)
    wide = camera.aspect * size[1]
    return 0.5 * wide + scale * right / ahead, 0.5 * size[1] + scale * down / ahead


def try_slider(page: Page, view: Any) -> bool:
    """Move a joint by its slider; whether the robot followed."""
    before = view.q.copy()
    if len(view.sliders) > _MOST_OPEN:
        page.click_text(view.sliders[-1].group, "div")
    page.evaluate("[...document.querySelectorAll('[role=slider]')].at(-1).focus()")
    for _ in range(60):
        page.send("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight",
                  windowsVirtualKeyCode=39)  # fmt: skip
        page.send("Input.dispatchKeyEvent", type="keyUp", key="ArrowRight", code="ArrowRight",
                  windowsVirtualKeyCode=39)  # fmt: skip
    time.sleep(1.0)
    return bool(np.abs(view.q - before).max() > 1e-3)


def try_drag(page: Page, view: Any) -> bool:
    """Pull the tool by its handle; whether the joints followed."""
    page.click_text("Tool", "[role=tab]")
    page.tick("drag it")
    time.sleep(1.0)
    before = view.q.copy()
    pose = view.robot.frame_pose(view.q, view.tool)
    # the middle of each arrow of the handle, until one is caught
    for axis in range(3):
        at = pose[:3, 3] + 0.12 * view.scene.size * pose[:3, axis]
        page.click(*screen_point(view, at, DESKTOP), dx=60.0, dy=40.0)
        if np.abs(view.q - before).max() > 1e-3:
            return True
    return False


def measure_updates(page: Page, view: Any, seconds: float) -> dict[str, float]:
    """Updates and drawn frames a second of a playing motion, and processor time of an update."""
    page.evaluate(COUNT_UPDATES)
    time.sleep(1.0)
    start = page.evaluate("[window.updates, window.frames_drawn, performance.now()]")
    busy, drawn = _task_seconds(page), view.panel._draws
    time.sleep(seconds)
    end = page.evaluate("[window.updates, window.frames_drawn, performance.now()]")
    spent, elapsed = _task_seconds(page) - busy, (end[2] - start[2]) / 1e3
    updates = end[0] - start[0]
    return {
        "updates a second on the page": updates / elapsed,
        "drawings a second of the server": (view.panel._draws - drawn) / elapsed,
        "frames a second of the browser": (end[1] - start[1]) / elapsed,
        "ms of the page's main thread an update": 1e3 * spent / max(updates, 1),
    }


def _task_seconds(page: Page) -> float:
    metrics = page.send("Performance.getMetrics")["metrics"]
    return next(m["value"] for m in metrics if m["name"] == "TaskDuration")


def measure_server(view: Any, count: int = 200) -> float:
    """Processor time in ms of one drawing in which every joint moves, a page listening."""
    motion, view.playing = sweep_motion(view.robot), False
    states = view.robot.random(0, count)
    time.sleep(0.5)
    start = time.process_time()
    for q in states:
        with view._lock:
            view.q = q
        view.draw()
    spent = time.process_time() - start
    view.set_state(motion.q[0])
    return 1e3 * spent / count


def main() -> int:
    """Drive the view and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robot", nargs="?", default="panda")
    parser.add_argument("--out", type=Path, default=Path("view_pictures"))
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    robot = qddot.load(options.robot)
    view, faults, seen = open_view(robot, port=0), [], {}
    try:
        with open_browser(DESKTOP) as page:
            open_view_in(page, view)
            page.save_picture(options.out / "desktop.png")
            seen["a slider moves the robot"] = try_slider(page, view)
            page.save_picture(options.out / "desktop-slider.png")
            seen["the tool can be dragged"] = try_drag(page, view)
            page.save_picture(options.out / "desktop-drag.png")
            server = measure_server(view)
            view.play(sweep_motion(robot))
            page.click_text("Play", "[role=tab]")
            seen |= measure_updates(page, view, options.seconds)
            seen["ms of the server's processor an update"] = server
            page.save_picture(options.out / "desktop-play.png")
            faults += page.faults()
        with open_browser(DESKTOP) as page:
            exported = export_page(robot, options.out / "page.html")
            page.send("Page.navigate", url=exported.resolve().as_uri())
            page.wait_for("!!document.querySelector('canvas')")
            time.sleep(8.0)
            page.save_picture(options.out / "page.png")
            faults += page.faults()
        with open_browser(PHONE) as page:
            open_view_in(page, view)
            page.save_picture(options.out / "phone.png")
            # fewer pixels, which a machine without a graphics card fills in software
            small = measure_updates(page, view, options.seconds)
            seen["updates a second on a phone's page"] = small["updates a second on the page"]
            faults += page.faults()
    finally:
        view.close()
    for name, value in seen.items():
        print(f"{name}: {value if isinstance(value, bool) else round(value, 2)}")
    print(f"errors and requests elsewhere: {faults or 'none'}")
    return 0 if not faults and all(seen.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
