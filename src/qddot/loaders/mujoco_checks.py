"""Checks of a file before MuJoCo's compiler, which trusts its input, reads it.

`check_file` reads an MJCF or URDF file and all that it includes before MuJoCo does, and refuses
what is known to crash it, counts that take it minutes or gigabytes, and files outside the folders
that the file may read. `read_spec` is the one way from a file to an MjSpec. Whatever MuJoCo raises
becomes a DescriptionError.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from qddot.errors import DescriptionError, QddotError
from qddot.loaders.isolation import run_isolated
from qddot.loaders.trust import ReadableFolders, Refused
from qddot.loaders.xml import Element, blank_elements, parse_xml, read_file

if TYPE_CHECKING:
    import mujoco

__all__ = [
    "LOOKS",
    "CheckedFiles",
    "check_file",
    "mujoco_errors",
    "open_spec",
    "read_spec",
    "try_in_child",
]

LOOKS = ("exclude", "pair", "sensor", "skin", "texture", "tuple")
"""Elements that inertia and places do not depend on."""

_NUMERIC = {
    "actrange", "actuatorfrcrange", "anchor", "armature", "axis", "axisangle", "biasprm",
    "ctrlrange", "damping", "density", "diaginertia", "euler", "forcerange", "frictionloss",
    "fromto", "fullinertia", "gainprm", "gear", "gravcomp", "gravity", "mass", "polycoef",
    "pos", "qpos", "quat", "range", "ref", "relpose", "size", "springref", "stiffness", "xyaxes",
    "zaxis",
}  # fmt: skip
_LARGEST = 1e12
_MOST_BODIES = 3_000
_MOST_ELEMENTS = 20_000
_MOST_COORDINATES = 300_000
"""Coordinates of all keyframes together."""
_MOST_PIXELS = 2**24
_MOST_STEPS = 100_000
_MOST_BYTES = 64 * 2**20
_MOST_INCLUDED = 200
_DEEPEST_MODEL = 16
_MOST_PLACES = 200_000
"""Places in which the files of a model may have to be looked for."""
_MOST_SLOW = 500
"""Elements that may be left to MuJoCo to remove, which takes it quadratic time."""
_COUNTS = {
    "size": {
        "nkey": 10_000, "nuserdata": 1_000_000, "njmax": 100_000, "nconmax": 100_000,
        "nstack": 2**27, **{f"nuser_{k}": 100 for k in
        ("body", "jnt", "geom", "site", "cam", "tendon", "actuator", "sensor")},
    },
    "mesh": {"params": 200, "maxhullvert": 10_000},
    "numeric": {"size": 10_000},
    "user": {"dim": 10_000},
    "contact": {"num": 1_000},
    "texture": {"nchannel": 4},
}  # fmt: skip
"""The largest counts that attributes may give, by element."""
_GRIDS = {"hfield": ("nrow", "ncol"), "texture": ("width", "height")}
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
_MOST_MEMORY = 2 * 2**30
# expat reads other encodings by Python's tables, MuJoCo reads bytes: they could see two documents
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "windows-1252")
# MuJoCo takes an unknown class for a format; %n in one writes to memory
_FORMATS = ("class", "childclass")
_WRITES = re.compile(r"%[^A-Za-z%]*[hljztqL]*n")
_IGNORABLE = ("hfield", "mesh", "skin", "texture")
"""Assets that a model can be read without."""
_FOLDERS = ("meshdir", "texturedir", "assetdir")


@dataclass
class CheckedFiles:
    """The XML files of a model as they were checked, with counts of what they make.

    `contents` are their bytes by path. `outside` has, by the name that the model gives it, why a
    file of an asset must not be read.
    """

    contents: dict[Path, bytes] = field(default_factory=dict)
    outside: dict[str, str] = field(default_factory=dict)
    bodies: int = 0
    elements: int = 0
    joints: int = 0
    keys: int = 0
    attached: int = 0
    depth: int = 0
    tags: Counter[str] = field(default_factory=Counter)
    assets: list[tuple[Element, str, str]] = field(default_factory=list)
    roots: set[Path] = field(default_factory=set)
    directories: set[str] = field(default_factory=lambda: {""})


def read_spec(path: Path, trust: bool = False, without: tuple[str, ...] = ()) -> mujoco.MjSpec:
    """The MjSpec of a file, after `check_file`; elements of the tags `without` are left out."""
    checked = check_file(path, trust)
    with mujoco_errors(path):
        return open_spec(path, checked, without)


def open_spec(
    path: Path, checked: CheckedFiles | None = None, without: tuple[str, ...] = ()
) -> mujoco.MjSpec:
    """The MjSpec of a file that was checked, whatever its suffix."""
    import mujoco

    known = path.suffix.lower() in (".xml", ".urdf")
    contents = {} if checked is None else checked.contents
    # MuJoCo finds files in memory by their last names alone
    often = Counter(file.name.lower() for file in contents)
    slow = sum(checked.tags[tag] for tag in without) if checked else 0
    if max(often.values(), default=1) > 1 and slow > _MOST_SLOW:
        reason = f"has {slow} elements in files of which some have the same name; rename these"
        raise DescriptionError(path, reason)
    included = {
        str(file): blank_elements(content, without)
        for file, content in contents.items()
        if often[file.name.lower()] == 1 and any(f"<{tag}".encode() in content for tag in without)
    }
    if known:
        options = {"include": included} if included else {}
        return mujoco.MjSpec.from_file(str(path.absolute()), **options)
    # MuJoCo has no decoder for .mjcf: the same bytes under a name in the same folder
    name = f"{path.absolute()}.xml"
    content = included.pop(str(path.absolute()), None) or read_file(path)
    return mujoco.MjSpec.from_file(name, include={name: content, **included})


@contextmanager
def mujoco_errors(file: object) -> Iterator[None]:
    """Whatever MuJoCo raises, its lack of memory included, as a DescriptionError."""
    try:
        yield
    except QddotError:
        raise
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        line = re.search(r"line (\d+)", text)
        number = int(line[1]) if line else None
        raise DescriptionError(str(file), f"MuJoCo: {text}", line=number) from error


def try_in_child(path: Path, trust: bool = False) -> None:
    """Read an MJCF file in a child process first; what ends the child is a DescriptionError."""
    run_isolated("qddot.loaders.mjcf:probe_mjcf", str(path.absolute()), trust, file=path)


def check_file(path: Path, trust: bool = False) -> CheckedFiles:
    """Refuse a file that is known to crash MuJoCo, that would take it very long, or reads others.

    With `trust` it may read any file.
    """
    counts = CheckedFiles()
    folders = ReadableFolders(path, trust)
    path = path.absolute()
    _check_document(path, path.parent, counts, folders)
    _check_assets(counts, folders)
    keyed = counts.keys * counts.joints
    if keyed > _MOST_COORDINATES:
        raise DescriptionError(path, f"its keyframes have {keyed} coordinates of joints")
    attached = counts.elements * (1 + counts.attached) ** counts.depth
    if attached > _MOST_ELEMENTS:
        raise DescriptionError(path, f"attached models may come to {attached:.6g} elements")
    return counts


def _check_document(
    path: Path,
    folder: Path,
    counts: CheckedFiles,
    folders: ReadableFolders,
    weight: int = 1,
    depth: int = 0,
    above: tuple[Path, ...] = (),
) -> None:
    """Check one of the files of a model.

    `depth` counts the models around it that it is part of, `above` are the files that lead to it.
    """
    counts.depth = max(counts.depth, depth)
    if len(counts.contents) >= _MOST_INCLUDED:
        raise DescriptionError(path, f"is one of more than {_MOST_INCLUDED} included files")
    if depth > _DEEPEST_MODEL:
        raise DescriptionError(path, f"is attached through more than {_DEEPEST_MODEL} models")
    content = counts.contents[path] = read_file(path)
    above = (*above, path.resolve())
    root = parse_xml(content, str(path))
    _check_encoding(path, content)
    # folders of assets that the file names
    counts.roots |= {folder, path.parent}
    for compiler in root.all("compiler", "mujoco"):
        for element in (compiler, *compiler.all("compiler")):
            counts.directories |= {v for k, v in element.attributes.items() if k in _FOLDERS}
    # an element with how often it is made
    stack = [(root, weight)]
    while stack:
        element, weight = stack.pop()
        _check_element(element)
        counts.tags[element.tag] += 1
        inner = element.tag in ("include", "model")
        counts.assets += [
            (element, attribute, name)
            for attribute, name in element.attributes.items()
            if attribute.startswith("file") and name and not inner
        ]
        # count what it makes
        made = 1
        if element.tag in ("composite", "flexcomp"):
            points = len(element.attributes.get("point", "").split()) // 3
            made = max(1, points, math.prod(max(1, n) for n in _parse_integers(element, "count")))
        if element.tag in ("body", "link", "composite", "flexcomp"):
            counts.bodies += weight * made
        counts.elements += weight * made
        counts.joints += weight * made * (element.tag in ("joint", "freejoint", "composite"))
        counts.attached += weight * (element.tag == "attach")
        counts.keys += weight * (element.tag == "key") + max([0, *_parse_integers(element, "nkey")])
        for what, found, most in (
            ("bodies", counts.bodies, _MOST_BODIES),
            ("elements", counts.elements, _MOST_ELEMENTS),
        ):
            if found > most:
                reason = f"with it there are {found:.6g} {what}; at most {most} are read"
                raise element.error(reason)
        # what stands in it is made as often
        if element.tag == "replicate":
            weight *= max([1, *_parse_integers(element, "count")])
        if inner and element.attributes.get("file"):
            deeper = element.tag == "model"
            for file in _included_files(element, (folder, path.parent), folders, above):
                if file not in counts.contents:
                    around = file.parent if deeper else folder
                    below = depth + deeper
                    _check_document(file, around, counts, folders, weight, below, above)
        stack.extend((child, weight) for child in element.children)


def _check_encoding(path: Path, content: bytes) -> None:
    """Refuse documents that MuJoCo's parser may see otherwise than ours."""
    if b"<!DOCTYPE" in content:
        raise DescriptionError(path, "has a <!DOCTYPE>, which is refused for MuJoCo")
    declared = re.match(rb"\s*(?:\xef\xbb\xbf)?<\?xml[^>]*encoding\s*=\s*['\"]([^'\"]*)", content)
    encoding = declared[1].decode("latin-1").lower() if declared else "utf-8"
    if encoding not in _ENCODINGS or content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DescriptionError(path, f"is encoded as {encoding!r}; MuJoCo needs UTF-8", line=1)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DescriptionError(path, "is not UTF-8, as MuJoCo needs it", line=line) from error


def _check_element(element: Element) -> None:
    """Refuse values that MuJoCo takes for formats or for nothing, and counts without measure."""
    for attribute, text in element.attributes.items():
        if "%" in text and (attribute in _FORMATS or _WRITES.search(text)):
            shown = repr(text if len(text) <= 60 else text[:57] + "...")
            raise element.error(f"{attribute}={shown}: MuJoCo may end the process at this '%'")
        # MuJoCo takes NaN for a value that is not given
        for word in text.split() if attribute in _NUMERIC else ():
            try:
                value = float(word)
            except ValueError:
                continue  # MuJoCo says so itself
            shown = repr(text if len(text) <= 60 else text[:57] + "...")
            if math.isnan(value):
                raise element.error(f"{attribute}={shown} is not finite")
            if abs(value) > _LARGEST and attribute != "range":
                raise element.error(f"{attribute}={shown} is absurdly large")
    # counts, sizes of grids, memory and time
    for attribute, most in _COUNTS.get(element.tag, {}).items():
        for count in _parse_integers(element, attribute):
            _refuse_above(element, attribute, count, most)
    if element.tag in _GRIDS:
        sides = [_parse_integers(element, a)[:1] or [1] for a in _GRIDS[element.tag]]
        _refuse_above(element, " × ".join(_GRIDS[element.tag]), sides[0][0] * sides[1][0])
    if element.tag == "size" and "memory" in element.attributes:
        memory = re.fullmatch(r"\s*(\d+)\s*([A-Z]?)\s*", element.attributes["memory"].upper())
        if memory:
            asked = int(memory[1]) * _UNITS.get(memory[2], 1)
            _refuse_above(element, "memory in bytes", asked, _MOST_MEMORY)
    if element.tag == "lengthrange":
        steps = _parse_real(element, "inttotal", 10.0) / max(
            _parse_real(element, "timestep", 0.01), 1e-300
        )
        _refuse_above(element, "inttotal / timestep", steps, _MOST_STEPS)


def _included_files(
    element: Element, places: tuple[Path, ...], folders: ReadableFolders, above: tuple[Path, ...]
) -> Iterator[Path]:
    """The files that an <include> or <model> may mean, each of them readable and not `above`."""
    name = element.attributes["file"]
    refusals, there = [], False
    for file in dict.fromkeys(place / name for place in places):
        exists = _is_plain_file(element, "file", file)
        there |= exists
        try:
            folders.check_readable(file)
        except Refused as error:
            if exists:
                raise element.error(str(error)) from error
            refusals.append(error)
            continue
        if exists and file.resolve() in above:
            chain = " → ".join(x.name for x in (*above, file))
            raise element.error(f"the file leads to itself: {chain}")
        if exists:
            yield file
    if refusals and not there:
        raise element.error(str(refusals[0]))


def _check_assets(counts: CheckedFiles, folders: ReadableFolders) -> None:
    """Check the files of assets wherever MuJoCo may look for them."""
    places = sorted({root / d for root in counts.roots for d in counts.directories})
    if len(places) * len(counts.assets) > _MOST_PLACES:
        reason = f"has {len(counts.assets)} assets that may be in any of {len(places)} folders"
        raise DescriptionError(folders.file, reason)
    for element, attribute, name in counts.assets:
        inside, refusals = False, []
        for place in places:
            for file in dict.fromkeys((place / name, place / Path(name).name)):
                exists = _is_plain_file(element, attribute, file)
                # what is not there is judged by its name as it stands
                if not exists and (inside or file.name == name):
                    continue
                try:
                    folders.check_readable(file)
                    inside = True
                except Refused as error:
                    refusals.append((exists, str(error)))
        reasons = [reason for exists, reason in refusals if exists or not inside]
        if reasons and element.tag not in _IGNORABLE:
            raise element.error(reasons[0])
        if reasons:
            counts.outside[name] = reasons[0]


def _is_plain_file(element: Element, attribute: str, file: Path) -> bool:
    """Whether there is a file; refused are those that are none, such as devices, and large ones."""
    name = element.attributes[attribute]
    try:
        if not file.exists():
            return False
        plain, size = file.is_file(), file.stat().st_size
    except (OSError, RuntimeError, ValueError) as error:
        raise element.error(f"{attribute}={name[:60]!r} cannot be read: {error}") from error
    if not plain:
        raise element.error(f"{attribute}={name!r} is not a file")
    if size > _MOST_BYTES:
        raise element.error(f"{name!r} is larger than {_MOST_BYTES // 2**20} MiB")
    return True


def _refuse_above(element: Element, what: str, value: float, most: float = _MOST_PIXELS) -> None:
    if not value <= most:
        raise element.error(f"{what} is {value:.6g}; at most {most} is read")


def _parse_real(element: Element, attribute: str, default: float) -> float:
    try:
        return float(element.attributes.get(attribute, default))
    except ValueError:
        return default


def _parse_integers(element: Element, attribute: str) -> list[int]:
    """The numbers of an attribute, cut to whole ones; what is no number is left to MuJoCo."""
    found = []
    for word in element.attributes.get(attribute, "").split():
        try:
            found.append(int(min(max(float(word), -1e18), 1e18)))
        except ValueError:
            continue
    return found
