"""The shape of the code, read from its syntax trees: layers, cycles, public names, sizes."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "qddot"
# the folders in the order of the data: a module imports only from layers above its own, and
# folders of one layer do not see each other; docs/architecture.md has the same table
LAYERS = [
    {"errors"},
    {"display", "files", "spatial"},
    {"model"},
    {"loaders", "algorithms", "compile"},
    {"robot"},
    {"export", "analysis"},
    {"engines", "writers"},
    {"simulate"},
    {"control", "identify"},
    {"verify", "bench", "view"},
    {"evidence"},
    {"pipeline"},
    {"report"},
    {"cli"},
    {"__main__"},
]
# methods of Robot that call what is built on robots, imported when they are called
UPWARD = {
    ("qddot.robot.robot", "qddot.simulate.simulator"),
    ("qddot.robot.robot", "qddot.export.export_c"),
    ("qddot.robot.robot", "qddot.analysis.constraints.rank"),
    ("qddot.robot.robot", "qddot.analysis.inverse_kinematics"),
    ("qddot.robot.robot", "qddot.view.pictures"),
    ("qddot.robot.robot", "qddot.view.browser"),
    ("qddot.simulate.rollout", "qddot.view.pictures"),
}
RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}
MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 60
MOST_ALGORITHM_LINES = 40

FILES = sorted(SOURCE.rglob("*.py"))
TREES = {file: ast.parse(file.read_text()) for file in FILES}


def module(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(file): file for file in FILES}


def imports(file: Path) -> set[str]:
    """Modules of the package that a file imports, at the top or inside functions."""
    found: set[str] = set()
    for node in ast.walk(TREES[file]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return {name for name in found & set(MODULES) if (module(file), name) not in UPWARD}


def code_lines(node: ast.AST, text: list[str]) -> int:
    """Lines of a node that are code: no blanks, comments or docstrings."""
    skip: set[int] = set()
    for inner in ast.walk(node):
        body = getattr(inner, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(getattr(getattr(first, "value", None), "value", None), str):
            skip |= set(range(first.lineno, first.end_lineno + 1))
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", len(text))
    lines = ((i, text[i - 1].strip()) for i in range(first, last + 1))
    return sum(1 for i, line in lines if line and not line.startswith("#") and i not in skip)


def functions(file: Path) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(TREES[file]) if isinstance(n, ast.FunctionDef)]


@pytest.mark.parametrize("file", FILES, ids=module)
def test_layers(file):
    parts = module(file).split(".")
    if len(parts) == 1:
        return
    for name in imports(file):
        target = name.split(".")
        if len(target) == 1 or target[1] == parts[1]:
            continue
        assert RANK[target[1]] < RANK[parts[1]], f"{module(file)} imports {name}"


def test_the_page_has_the_same_layers():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page, flags=re.MULTILINE)
    layers = enumerate(LAYERS[:-1], start=1)
    assert rows == [(str(i), name) for i, layer in layers for name in sorted(layer)]


def test_files_that_a_page_names_exist():
    root = SOURCE.parents[1]
    there = [
        f for name in ("src", "tests", "docs", "examples") for f in (root / name).rglob("*.py")
    ]
    found = 0
    for page in (root / "CONTRIBUTING.md", root / "README.md", *(root / "docs").rglob("*.md")):
        named = set(re.findall(r"`([\w/.-]+\.py)`", page.read_text(encoding="utf-8")))
        missing = {n for n in named if not any(f.as_posix().endswith(f"/{n}") for f in there)}
        assert not missing, page
        found += len(named)
    assert found > 50


def test_names_on_the_pages_of_developers_exist():
    root = SOURCE.parents[1]
    pages = [
        root / "docs" / "architecture.md",
        root / "docs" / "glossary.md",
        root / "CONTRIBUTING.md",
    ]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    there = {
        f: f.read_text("utf-8")
        for folder in ("src", "tests")
        for f in (root / folder).rglob("*.py")
    }
    # functions and classes by module, as in `ir.loop.loop_ir`, and by their class
    for name in re.findall(r"`(?!np\.)(?:\w+\.)+([A-Za-z_]\w+)`", text):
        if name not in ("py", "md", "txt", "toml"):
            assert any(re.search(rf"(def|class) {name}\b", code) for code in there.values()), name
    # classes by their name alone, as `StepContext`, and folders, as `simulate/drivetrain`
    defined = r"^(?:class (\w+)|([A-Z][a-z]\w*) = )"
    classes = {
        name
        for code in there.values()
        for pair in re.findall(defined, code, re.MULTILINE)
        for name in pair
    }
    alone = set(re.findall(r"`([A-Z][a-z]\w*)`", text))
    assert len(alone) > 10
    assert not {name for name in alone - classes if not hasattr(builtins, name)}
    for folder in re.findall(r"`(\w+(?:/\w+)+)/?`", text):
        assert (root / folder).is_dir() or (SOURCE / folder).is_dir(), folder


def test_a_word_has_one_row_in_the_glossary():
    page = (SOURCE.parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \|", page, flags=re.MULTILINE)[2:]
    words = [word.strip() for row in rows for word in row.split(",")]
    assert len(words) > 50
    assert sorted(set(words)) == sorted(words)


def test_every_module_has_a_layer():
    assert {m.split(".")[1] for m in MODULES if "." in m} == set(RANK)


def test_no_cycles():
    graph = {name: imports(file) - {name} for name, file in MODULES.items()}
    # importing a submodule runs its package first, which is no cycle of definitions
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path, name))
        if name not in done:
            for target in graph[name]:
                visit(target, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("file", FILES, ids=module)
def test_public_names_are_declared(file):
    tree = TREES[file]
    declared = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    ]
    defined = {
        n.name
        for n in tree.body
        if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")
    }
    if file.name in ("__init__.py", "__main__.py") and not declared:
        assert not defined
        return
    assert len(declared) == 1
    assert set(declared[0]) >= defined
    assert "utils" not in module(file)


@pytest.mark.parametrize("file", FILES, ids=module)
def test_sizes(file):
    text = file.read_text().splitlines()
    assert code_lines(TREES[file], text) <= MOST_FILE_LINES
    most = MOST_ALGORITHM_LINES if "algorithms" in module(file) else MOST_FUNCTION_LINES
    for f in functions(file):
        assert code_lines(f, text) <= most, f"{module(file)}.{f.name}"


def test_half_of_all_functions_are_short():
    sizes = sorted(
        code_lines(f, file.read_text().splitlines()) for file in FILES for f in functions(file)
    )
    assert sizes[len(sizes) // 2] < 10


@pytest.mark.parametrize("file", FILES, ids=module)
def test_public_functions_have_docstrings_and_annotations(file):
    for node in ast.walk(TREES[file]):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        if any(node in ast.walk(outer) for outer in functions(file) if outer is not node):
            continue
        # overloads are documented by the function that they are forms of
        overload = any(getattr(d, "id", "") == "overload" for d in node.decorator_list)
        assert overload or ast.get_docstring(node), f"{module(file)}.{node.name}"
        assert node.returns is not None, f"{module(file)}.{node.name}"


def test_only_the_command_line_prints():
    for file in FILES:
        calls = [n.func for n in ast.walk(TREES[file]) if isinstance(n, ast.Call)]
        names = {getattr(f, "id", "") for f in calls}
        assert module(file).startswith("qddot.cli") or not names & {"print", "exit"}
        # long compilations are announced on stderr by the compiler itself
        attributes = (n for n in ast.walk(TREES[file]) if isinstance(n, ast.Attribute))
        streams = {n.attr for n in attributes if getattr(n.value, "id", "") == "sys"}
        told = "qddot.cli", "qddot.compile.runtime.progress"
        assert module(file).startswith(told) or not streams & {"stdout", "stderr"}, file
