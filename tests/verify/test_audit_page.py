"""The page of an audit: drawings hold what they show, and it fits a narrow screen."""

from __future__ import annotations

import dataclasses
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from html_pages import HOSTILE, PLAIN, check_page, filled, look_at, skeleton

from qddot.loaders import locate_source
from qddot.verify.audit import audit
from qddot.verify.audit.findings import SEVERITIES, AuditFinding
from qddot.verify.audit.page import html_page

NARROW = 390
BARE = """<robot name="bare"><link name="base"/><link name="rod"><inertial>
  <origin xyz="0 0 0.5"/><mass value="2"/>
  <inertia ixx="0.2" iyy="0.2" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j" type="continuous"><parent link="base"/><child link="rod"/></joint></robot>"""


def scaled_forearm(mass: float, tensor: float) -> str:
    """The UR5e with its forearm heavier, or with a larger tensor."""
    text = Path(locate_source("ur5e")).read_text(encoding="utf-8")
    head, rest = text.split('<link name="forearm_link"')
    link, tail = rest.split("</inertial>", 1)
    link = re.sub(r'(<mass value=")([^"]+)', lambda k: f"{k[1]}{mass * float(k[2])}", link)
    link = re.sub(r'(i[xyz]{2}=")([^"]+)', lambda k: f"{k[1]}{tensor * float(k[2])}", link)
    return f'{head}<link name="forearm_link"{link}</inertial>{tail}'


@pytest.fixture
def page_of(tmp_path):
    def make(text: str) -> str:
        file = tmp_path / "robot.urdf"
        file.write_text(text, encoding="utf-8")
        return html_page(audit(file))

    return make


def drawings(page: str) -> list[ElementTree.Element]:
    found = [ElementTree.fromstring(x) for x in re.findall(r"<svg.*?</svg>", page, re.S)]
    return [x for x in found if x.find("title") is not None]


def inside(drawing: ElementTree.Element) -> list[list[bool]]:
    """Which points of the outline of each ellipse are in the view."""
    width, height = (float(drawing.get(k, "")) for k in ("width", "height"))
    found = []
    for ellipse in drawing.iter("ellipse"):
        x, y, a, b = (float(ellipse.get(k, "")) for k in ("cx", "cy", "rx", "ry"))
        turn = math.radians(float(re.findall(r"rotate\((\S+)", ellipse.get("transform", ""))[0]))
        points = (complex(a * math.cos(t), b * math.sin(t)) for t in range(360))
        outline = [complex(x, y) + z * complex(math.cos(turn), math.sin(turn)) for z in points]
        found.append([0 <= z.real <= width and 0 <= z.imag <= height for z in outline])
    return found


@pytest.mark.parametrize(("mass", "tensor"), [(1000, 1), (1, 1000), (1000, 1000), (1e-3, 1)])
def test_a_link_a_thousand_times_off_covers_no_drawing(page_of, mass, tensor):
    page = page_of(scaled_forearm(mass, tensor))
    views = drawings(page)
    assert len(views) == 3 + 3 * 9
    assert all(any(ellipse) for view in views for ellipse in inside(view))
    framed = [v for v in views if any("beyond" in r.get("class", "") for r in v.iter("rect"))]
    # three views of the robot and three of the link, where its ellipsoid is absurdly large
    assert len(framed) == (6 if tensor > mass or mass < 1 else 0)
    assert all("error" in r.get("class", "") for v in framed for r in v.iter("rect"))


def test_a_link_without_shapes_is_in_its_view(page_of):
    ellipses = [e for view in drawings(page_of(BARE)) for e in inside(view)]
    assert len(ellipses) == 6
    assert all(map(all, ellipses))


def test_nothing_is_wider_than_a_narrow_screen(page_of):
    page = page_of(BARE)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.S)
    # a column or a box that insists on its width must leave room for the margins
    for text in re.findall(r"minmax\((\d+)px|min-width: (\d+)px", style):
        assert int("".join(text)) < NARROW - 60
    (rule,) = re.findall(r"\nsvg \{(.*?)\}", style)
    assert "max-width: 100%" in rule
    assert "height: auto" in rule
    # tables are wide by nature: they scroll in their own panel
    assert page.count("<table>") == page.count('<div class="panel"><table>') == 1
    (panel,) = re.findall(r"\n\.panel \{(.*?)\}", style, re.S)
    assert "overflow-x: auto" in panel


TWO = """<robot name={0}><link name={1}><inertial><mass value="2"/><inertia ixx="0.2" iyy="0.2"
  izz="0.9" ixy="0" ixz="0" iyz="0"/></inertial></link><link name={2}><inertial>
  <origin xyz="0 0 0.5"/><mass value="2000"/><inertia ixx="0.2" iyy="0.2" izz="0.002" ixy="0"
  ixz="0" iyz="0"/></inertial><visual><geometry><mesh filename={2}/></geometry></visual></link>
  <joint name={3} type="continuous"><parent link={1}/><child link={2}/></joint></robot>"""


def test_no_text_of_a_file_is_markup(tmp_path):
    pages = {}
    for text in (PLAIN, HOSTILE):
        # a line separator is refused in names of files and of links
        name = text.replace("\u2028", "").replace("\u2029", "")
        file = tmp_path / f"{name.replace('/', '')[:60]}.urdf"
        file.write_text(TWO.format(*(quoteattr(f"{k}{name}") for k in range(4))), "utf-8")
        found = audit(file)
        findings = [filled(AuditFinding, text, severity=s, meant=None) for s in SEVERITIES]
        assert found.findings
        changed = dataclasses.replace(found, findings=(*found.findings, *findings))
        pages[text] = html_page(changed)
    assert skeleton(pages[HOSTILE]) == skeleton(pages[PLAIN])
    assert HOSTILE in "".join(check_page(pages[HOSTILE]).text)


def test_a_browser_has_no_complaint(page_of, tmp_path):
    for seen in look_at(page_of(scaled_forearm(1000, 1)), tmp_path):
        assert seen["problems"] == []
