"""Meshes of strangers: read in a child process with limits, and checked when they come back."""

from __future__ import annotations

import io
import os
import re
import sys
import zipfile

import numpy as np
import pytest
import trimesh

import qddot
from qddot.compile.runtime.cache import Entry
from qddot.errors import DescriptionError
from qddot.loaders import mesh_reading
from qddot.robot import meshes
from qddot.robot.meshes import UnreadableMesh, read_meshes, triangles_of
from qddot.verify.audit import audit
from qddot.view.geometry import robot_geometry

LINK = (
    '<link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>{}'
    "</link>"
)
VISUAL = '<visual><geometry><mesh filename="{}"/></geometry></visual>'


def nested_collada(depth: int) -> str:
    """A scene whose nodes show the one below them twice: 2^depth copies of a triangle."""
    nodes = '<node id="n0"><instance_geometry url="#g"/></node>'
    for i in range(depth):
        twice = f'<instance_node url="#n{i}"/>' * 2
        nodes += f'<node id="n{i + 1}">{twice}</node>'
    return f"""<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="1"/></asset><library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="pa" count="9">0 0 0 1 0 0 0 1 0</float_array>
<technique_common><accessor source="#pa" count="3" stride="3"><param name="X" type="float"/>
<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>
</mesh></geometry></library_geometries><library_nodes>{nodes}</library_nodes>
<library_visual_scenes><visual_scene id="s"><node><instance_node url="#n{depth}"/></node>
</visual_scene></library_visual_scenes><scene><instance_visual_scene url="#s"/></scene></COLLADA>"""


def archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.obj", "v 0 0 0\n" * 1000)
    return stream.getvalue()


HOSTILE = {
    "bomb.zip": (archive(), "is an archive"),
    "bomb.zae": (archive(), "is an archive"),
    "nan.obj": (b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "NaN|no triangles"),
    "index.obj": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 99999\n", "."),
    "index.ply": (
        b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n"
        b"property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n"
        b"0 0 0\n1 0 0\n0 1 0\n3 0 1 77\n", ".",
    ),
    "count.stl": (bytes(80) + b"\xff\xff\xff\xff" + bytes(100), "."),
    "huge.obj": (b"v 1e308 0 0\nv -1e308 1e308 0\nv 0 1 1e308\nv 0 0 0\nf 1 2 3\nf 2 3 4\n", ""),
    # the last, as it uses up the time of those that are not read in time
    "nested.dae": (nested_collada(25).encode(), "takes more than 1 s of processor time"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QDDOT_CACHE_DIR", str(tmp_path / "cache"))
    meshes._read_batch.cache_clear()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Hostile meshes and a good one at the end, by their name, as one child reads them."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, (content, _) in HOSTILE.items():
        (folder / name).write_bytes(content)
    trimesh.creation.box([1, 2, 3]).export(folder / "good.stl")
    files = [folder / "good.stl", *(folder / name for name in HOSTILE)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QDDOT_CACHE_DIR", str(folder / "cache"))
        patch.setattr(meshes, "_MOST_SECONDS", 1.0)
        return {
            facts: {f.name: x for f, x in read_meshes(files, facts).items()}
            for facts in ("triangles", "moments")
        }


@pytest.mark.parametrize("facts", ["triangles", "moments"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_meshes_have_a_reason(hostile, facts, name):
    found = hostile[facts][name]
    if HOSTILE[name][1]:
        assert isinstance(found, UnreadableMesh)
        assert re.search(HOSTILE[name][1], str(found))
        assert "one of" not in str(found)
    # those that are good are read beside them
    assert isinstance(hostile[facts]["good.stl"], Entry)


def test_no_reader_of_meshes_runs_in_this_process(tmp_path, monkeypatch):
    """Audit, view and pictures read them in a child, and get the same triangles."""
    box = trimesh.creation.box([1, 2, 3])
    box.export(tmp_path / "a.stl")
    file = tmp_path / "robot.urdf"
    file.write_text(f'<robot name="r">{LINK.format(VISUAL.format("a.stl"))}</robot>')
    refuse = lambda *_, **__: pytest.fail("a mesh was read in this process")  # noqa: E731
    monkeypatch.setattr(trimesh, "load", refuse)
    monkeypatch.setattr(trimesh, "load_mesh", refuse)
    geometry = robot_geometry(qddot.load(file))
    assert geometry.has_shapes or geometry.parts
    assert not geometry.missing
    (part,) = [p for p in geometry.parts if len(p.faces) == 12 and len(p.vertices) == 8]
    assert np.ptp(part.vertices, axis=0) == pytest.approx([1, 2, 3])
    estimates = audit(file).case.geometries["a"].estimates
    assert estimates[0].solid.volume == pytest.approx(6)


def test_one_child_reads_all_meshes_of_a_robot_once(tmp_path, monkeypatch):
    names = [f"{i}.stl" for i in range(6)]
    for i, name in enumerate(names):
        trimesh.creation.box([1, 2, 3 + i]).export(tmp_path / name)
    started = []
    run = meshes.run_isolated
    monkeypatch.setattr(
        meshes, "run_isolated", lambda *given, **more: started.append(given) or run(*given, **more)
    )
    files = [tmp_path / name for name in names]
    first = read_meshes(files, "triangles")
    meshes._read_batch.cache_clear()
    # by their content, under another name too
    (tmp_path / "again.stl").write_bytes(files[0].read_bytes())
    again = read_meshes([*files, tmp_path / "again.stl"], "triangles")
    assert len(started) == 1
    for file in files:
        for a, b in zip(triangles_of(first[file]), triangles_of(again[file]), strict=True):
            assert np.array_equal(a, b)


def test_a_child_that_ends_is_a_reason(tmp_path, monkeypatch):
    trimesh.creation.box([1, 1, 1]).export(tmp_path / "a.stl")

    def crash(task, *arguments, file, **options):
        raise DescriptionError(file, "crashes its reader (signal SIGSEGV)")

    monkeypatch.setattr(meshes, "run_isolated", crash)
    (found,) = read_meshes([tmp_path / "a.stl"], "triangles").values()
    assert "crashes its reader" in str(found)


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"[]\n", b"{", b'[{"vertices": 3, "faces": 1}]\n' + bytes(10),
        b'[{"vertices": 1, "faces": 1}]\n' + bytes(24) + b"\1\0\0\0" * 3,
        b'[{"vertices": 1, "faces": 1}]\n' + np.full(3, np.nan).tobytes() + bytes(12),
        b'[{"vertices": -1, "faces": 2}]\n', b'[{"vertices": "x", "faces": 2}]\n', b"[3]\n",
        b'[{"parts": {"hull": [1, [0, 0], []]}, "points": []}]\n', b'[{"parts": 1}]',
    ],
)  # fmt: skip
def test_an_answer_is_checked(tmp_path, monkeypatch, answer):
    """A child that was taken over can say what it likes: nothing of it is believed."""
    trimesh.creation.box([1, 1, 1]).export(tmp_path / "a.stl")
    monkeypatch.setattr(meshes, "run_isolated", lambda *_, **__: answer)
    (found,) = read_meshes([tmp_path / "a.stl"], "triangles").values()
    assert "makes no sense" in str(found)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_what_is_no_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.stl")
    (tmp_path / "folder.stl").mkdir()
    (tmp_path / "circle.stl").symlink_to("circle.stl")
    names = ["pipe.stl", "folder.stl", "circle.stl"]
    files = [*(tmp_path / name for name in names), tmp_path / "a\0b.stl"]
    found = read_meshes(files, "triangles")
    assert all(isinstance(found[file], UnreadableMesh) for file in files)


def test_materials_and_other_files_are_not_read(tmp_path):
    """An OBJ names a library of materials, which might be any file."""
    os.mkfifo(tmp_path / "secret") if hasattr(os, "mkfifo") else None
    text = "mtllib secret\nusemtl x\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\n"
    (tmp_path / "a.obj").write_text(text)
    (found,) = read_meshes([tmp_path / "a.obj"], "triangles").values()
    assert len(triangles_of(found)[1]) == 2


def test_the_limits_of_parent_and_child_are_the_same():
    assert meshes.MOST_MESH_BYTES == mesh_reading.MOST_BYTES
