"""Pages read by a parser and by a browser: what of them is markup, what runs, what sticks out."""

from __future__ import annotations

import dataclasses
import enum
import html
import json
import re
import shutil
import subprocess
import typing
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from qddot.display.markup import script_hash

PLAIN = "plain"
HOSTILE = (
    "'\"><img src=x onerror=alert(1)></script></title></style><script>alert(2)</script>"
    "<a href='javascript:alert(3)' onclick=alert(4)>x</a><!-- ]]> --!> &lt;b&gt; \u2028\u2029 {{7}}"
)
"""Text that is markup wherever it is not escaped."""
WIDTHS = (1280, 390)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-sync", "--disable-background-networking", "--disable-component-update",
    "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--virtual-time-budget=10000",
)  # fmt: skip


class _Reader(HTMLParser):
    """Elements with their attributes, in order, and the content of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.lasttag == "script" and self.cdata_elem == "script":
            self.scripts.append((self.elements[-1][1], data))
        else:
            self.text.append(data)


def read_page(page: str) -> _Reader:
    """The elements, scripts and text of a page."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader


def check_page(page: str) -> _Reader:
    """Assert that a page runs its own scripts alone, asks for nothing, and has a strict policy."""
    found = read_page(page)
    policies = [a for tag, a in found.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    rows = (row.split(" ") for row in (policies[0]["content"] or "").split("; "))
    policy = {name: sources for name, *sources in rows}
    assert policy["default-src"] == ["'none'"]
    # it stands before all that it is about
    tags = [tag for tag, _ in found.elements]
    assert not {"script", "style", "link"} & set(tags[: tags.index("meta") + 2])
    for attributes, code in found.scripts:
        if attributes.get("type") == "application/json":
            json.loads(code)
        else:
            assert script_hash(code) in policy["script-src"]
    assert "'unsafe-inline'" not in policy["script-src"]
    assert "'unsafe-eval'" not in policy["script-src"]
    for _, attributes in found.elements:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "action", "srcdoc", "formaction"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    return found


def skeleton(page: str) -> list[tuple[str, ...]]:
    """The elements of a page with the names of their attributes, without what they say."""
    return [(tag, *attributes) for tag, attributes in check_page(page).elements]


def filled(kind: type, text: str, **given: object) -> object:
    """A dataclass with a text in each field, also in those of its fields; `given` are kept."""
    hints = typing.get_type_hints(kind)
    fields = [f for f in dataclasses.fields(kind) if f.init and f.name not in given]
    return kind(**given, **{f.name: _fill(hints[f.name], text) for f in fields})


def _fill(hint: object, text: str) -> object:
    """A value of a type that says a text wherever it can."""
    parts = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if hint in (str, typing.Any):
        return text
    if hint in (bool, float, int):
        return hint(1)
    if hint is bytes:
        return text.encode()
    if hint is np.ndarray:
        return np.arange(3.0)
    if dataclasses.is_dataclass(hint):
        return filled(hint, text)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return list(hint)[-1]
    if origin is tuple:
        return (_fill(parts[0], text),)
    if origin is Mapping:
        return {text: _fill(parts[1], text)}
    if type(None) in parts:
        return _fill(parts[0], text)
    raise TypeError(f"no text is put into fields of type {hint}")


def look_at(page: str, folder: Path, seconds: float = 1.5) -> list[dict]:
    """What a browser sees of a page on a desktop and a phone: problems, what sticks out, plots."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser: none of {', '.join(_BROWSERS)} is installed")
    # in frames that tell what they see, by two scripts that the policy is told of
    probe = """const problems = [];
      addEventListener("error", e => problems.push(e.message));
      addEventListener("securitypolicyviolation", e =>
        problems.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));"""
    told = f"""setTimeout(() => {{
      const wide = [...document.querySelectorAll("body *")].filter(
        e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName);
      parent.postMessage({{problems, wide: wide.slice(0, 5), width: innerWidth,
        links: [...document.querySelectorAll("svg a")].length,
        canvases: document.querySelectorAll("canvas").length,
        plots: document.querySelectorAll(".js-plotly-plot .main-svg").length}}, "*");
    }}, {1000 * seconds});"""
    start = re.search(r"<meta http-equiv[^>]*>", page)
    assert start, "the page has no policy"
    hashes = " ".join(html.escape(script_hash(code)) for code in (probe, told))
    policy = re.sub(r"script-src (&#x27;none&#x27;)?", f"script-src {hashes} ", start[0], count=1)
    page = f"{page[: start.start()]}{policy}<script>{probe}</script>{page[start.end() :]}"
    head, end = page.rsplit("</body>", 1)
    (folder / "page.html").write_text(f"{head}<script>{told}</script></body>{end}", "utf-8")
    frames = "".join(f'<iframe src="page.html" width="{w}" height="900"></iframe>' for w in WIDTHS)
    collect = """<script>const seen = [];
      addEventListener("message", e => {
        if (e.data.problems) seen.push(e.data);
        document.title = JSON.stringify(seen); });</script>"""
    harness = folder / "harness.html"
    harness.write_text(f"<title>none</title>{collect}{frames}", "utf-8")
    done = subprocess.run(
        [browser, *_FLAGS, f"--user-data-dir={folder / 'profile'}", "--window-size=1400,900",
         "--dump-dom", harness.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    title = re.search(r"<title>(\[.*?\])</title>", done.stdout)
    assert title, done.stderr[-500:]
    seen = json.loads(html.unescape(title[1]))
    assert sorted(x["width"] for x in seen) == sorted(WIDTHS)
    return seen
