"""The terminal: text is data in any encoding, and streams, disks and users may fail or stop."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import qddot.cli
from qddot.cli import app, terminal
from qddot.simulate.certificate import certify

CLI = Path(qddot.cli.__file__).parent
NAME = "[red]a[/] :smile: [x]"
COMMANDS = {
    "version": ["--version"],
    "help": ["--help"],
    "help of a command": ["check", "--help"],
    "usage": ["info", "--no-such"],
    "unknown": ["inf☃o"],
    "robots": ["robots"],
    "info": ["info", "panda"],
    "json": ["info", "panda", "--json"],
    "check": ["check", "planar_2r", "--states", "2"],
    "audit": ["audit", "planar_2r"],
    "compare": ["compare", "planar_2r", "planar_2r", "--states", "2"],
    "convert": ["convert", "planar_2r", "{}/a.xml", "--states", "2"],
    "derive": ["derive", "planar_2r"],
    "latex": ["derive", "planar_2r", "--format", "latex"],
    "derive json": ["derive", "planar_2r", "--json"],
    "export": ["export", "planar_2r", "--function", "mass_matrix", "--out", "{}/c"],
    "size": ["size", "planar_2r", "--samples", "100"],
    "simulate": ["simulate", "planar_2r", "--time", "0.01"],
    "cache": ["cache", "info"],
    "error": ["info", "nowhere/robot☃.urdf"],
}
PRINTING = [c for c in COMMANDS if c not in ("usage", "unknown", "error", "size")]
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs /dev/full and signals of POSIX")


def run(*args: str):
    return CliRunner().invoke(app, args)


def run_on(stdout, stderr, monkeypatch, *args: str) -> int:
    """Exit code of a command on these streams."""
    monkeypatch.setattr(sys, "argv", ["qddot", *args])
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)
    with pytest.raises(SystemExit) as left:
        qddot.cli.main()
    return left.value.code or 0


def in_folder(command: str, folder: Path) -> list[str]:
    return [word.format(folder) for word in COMMANDS[command]]


def urdf(name: str) -> str:
    links = "".join(
        f'<link name="{name}{k}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" '
        'ixy="0" ixz="0" iyz="0"/></inertial></link>'
        for k in (1, 2)
    )
    return (
        f'<robot name="{name}"><link name="base"/>{links}'
        f'<joint name="{name}j" type="continuous"><parent link="base"/><child link="{name}1"/>'
        f'</joint><joint name="{name}k" type="continuous"><parent link="{name}1"/>'
        f'<child link="{name}2"/></joint></robot>'
    )


# text is data


@pytest.fixture
def bracketed(tmp_path):
    file = tmp_path / "[bold]b[x].urdf"
    file.write_text(urdf(NAME))
    return file


@pytest.mark.parametrize(
    "command",
    [
        ["info"],
        ["check", "--states", "2"],
        ["audit"],
        ["size", "--samples", "100"],
        ["simulate", "--time", "0.01"],
        ["export", "--function", "mass_matrix", "--out", "OUT"],
        ["derive"],
    ],
    ids=lambda c: c[0],
)
def test_brackets_in_names_are_printed(bracketed, tmp_path, command):
    head, *rest = [str(tmp_path / "out") if w == "OUT" else w for w in command]
    result = run(head, str(bracketed), *rest)
    # a name may be broken over lines of a table
    text = "".join(result.output.split())
    assert result.exit_code in (0, 1), result.output
    assert "".join(NAME.split()) in text


def test_brackets_in_paths_and_errors_are_printed(bracketed, tmp_path):
    missing = tmp_path / "[bold]c[x].urdf"
    result = run("info", str(missing))
    assert (result.exit_code, str(missing) in result.stderr) == (2, True)
    target = tmp_path / "[red]d[x].xml"
    result = run("compare", str(bracketed), str(bracketed), "--states", "2")
    assert str(bracketed) in result.output
    result = run("convert", str(bracketed), str(target), "--states", "2")
    assert f"wrote {target}" in result.output


def test_how_to_install_a_package_is_printed_whole(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    result = run("simulate", "planar_2r", "--time", "0.01", "--save", str(tmp_path / "a.mcap"))
    assert result.exit_code == 2
    assert "pip install 'qddot[log]'" in result.stderr


def test_markup_is_written_in_no_command():
    """Text is data, so a tag would be printed; `style_text` gives colours."""
    for file in CLI.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        modules = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert "rich.markup" not in modules, file.name
        texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
        assert not [t for t in texts if isinstance(t, str) and "[/]" in t], file.name


@pytest.mark.parametrize("char", ["\x7f", "\x9b", "\x85", "\u202e", "\u2028"])
@pytest.mark.parametrize(
    "command",
    [["info"], ["info", "--json"], ["check", "--states", "2"], ["audit"], ["derive"]],
    ids=" ".join,
)
def test_control_characters_never_reach_the_terminal(tmp_path, command, char):
    file = tmp_path / "robot.urdf"
    file.write_text(urdf(f"a&#{ord(char)};b"), encoding="utf-8")
    head, *rest = command
    result = run(head, str(file), *rest)
    assert char not in result.output
    if result.exit_code < 2 and "--json" in command:
        assert json.loads(result.stdout)["name"] in (f"a{char}b", "a b")


def test_escapes_in_arguments_are_shown():
    for args in (["info", "\x1b[31mx"], ["\x1b[31mx"], ["info", "a", "\x1b[31mx"]):
        result = run(*args)
        assert result.exit_code == 2
        assert "\x1b" not in result.output
        assert r"\x1b[31mx" in result.output


# encodings


@pytest.mark.parametrize(
    ("command", "encoding"),
    [
        *((command, "ascii") for command in COMMANDS),
        *(
            (command, page)
            for command in ("info", "json", "usage")
            for page in ("cp1252", "latin-1")
        ),
    ],
)
def test_any_encoding_takes_the_output(monkeypatch, tmp_path, command, encoding):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    expected = 2 if command in ("usage", "unknown", "error") else 0
    assert run_on(*streams, monkeypatch, *in_folder(command, tmp_path)) == expected
    for stream in streams:
        stream.flush()
    text, message = (stream.buffer.getvalue().decode(encoding) for stream in streams)
    assert text or message
    if "json" in command:
        json.loads(text)
    if expected == 2:
        assert r"\u2603" in message or command == "usage"


def test_symbols_have_names_in_ascii():
    symbols = "M q̈ + C q̇ + g = τ, 2/ω_n ≤ 3 × 10⁻⁹ m² → Δt … ‖x‖ — Ṁ λ ½ naïve ☃"
    found = symbols.encode("ascii", "qddot").decode()
    assert found == (
        "M q'' + C q' + g = tau, 2/omega_n <= 3 x 10^-9 m^2 -> Deltat ... ||x|| - M' lambda 1/2 "
        r"na\xefve \u2603"
    )
    assert "┏━┓│└".encode("ascii", "qddot") == b"+-+|+"
    assert "3 × m² ≤".encode("cp1252", "qddot").decode("cp1252") == "3 × m² <="


def test_tables_are_straight_in_ascii(monkeypatch):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2)]
    run_on(*streams, monkeypatch, "info", "panda")
    streams[0].flush()
    rows = [x for x in streams[0].buffer.getvalue().decode().splitlines() if x[:1] in ("|", "+")]
    assert len(rows) == 7 + 4
    assert len({len(row) for row in rows}) == 1


def test_names_that_no_encoding_has(monkeypatch):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    assert run_on(*streams, monkeypatch, "info", "a\udcff.urdf") == 2
    streams[1].flush()
    assert r"a\udcff.urdf" in streams[1].buffer.getvalue().decode()


# streams that fail


@POSIX
@pytest.mark.parametrize("command", PRINTING)
def test_a_full_disk_is_one_error(monkeypatch, tmp_path, command):
    with open("/dev/full", "w", encoding="utf-8") as full:
        message = io.StringIO()
        code = run_on(full, message, monkeypatch, *in_folder(command, tmp_path))
    assert code == 2
    said = message.getvalue().strip()
    assert said.splitlines()[-1].startswith("error: ")
    assert "No space left on device" in said
    assert "Traceback" not in said


@POSIX
@pytest.mark.parametrize("command", PRINTING)
def test_a_reader_that_has_gone_ends_the_command_quietly(monkeypatch, tmp_path, command):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        message = io.StringIO()
        code = run_on(pipe, message, monkeypatch, *in_folder(command, tmp_path))
    assert code in (1, 141) if "help" in command else code == 141
    assert not [x for x in message.getvalue().splitlines() if not x.startswith("warning")]


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    python = f"'{sys.executable}' -m qddot"
    return subprocess.run(
        ["sh", "-c", command.replace("qddot", python)],
        capture_output=True, text=True, env={**os.environ, **environment}, timeout=120,
    )  # fmt: skip


@POSIX
def test_streams_of_a_shell():
    closed = shell("qddot robots >&-")
    assert closed.returncode == 2
    assert closed.stderr.startswith("error: cannot write the standard output: it is closed")
    assert len(closed.stderr.splitlines()) == 1
    silent = shell("qddot info nowhere.urdf 2>&-")
    assert (silent.returncode, silent.stdout) == (2, "")
    full = shell("qddot robots >/dev/full")
    assert (full.returncode, len(full.stderr.splitlines())) == (2, 1)
    mute = shell("qddot info nowhere.urdf 2>/dev/full")
    assert (mute.returncode, mute.stdout) == (2, "")


@POSIX
def test_interrupts_are_one_line():
    code = (
        "import os, signal, qddot.cli, qddot.cli.info\n"
        # a background job of a shell ignores interrupts, and so would its children
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "qddot.cli.info.load_robot = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        "import sys; sys.argv = ['qddot', 'info']; qddot.cli.main()"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stderr, found.stdout) == (130, "interrupted\n", "")


def test_progress_shows_names_as_they_are(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal.err, "_force_terminal", True)
    monkeypatch.setattr(terminal.err, "is_interactive", True)
    monkeypatch.setattr(sys, "stderr", shown)
    with terminal.progress_bar() as on_step:
        on_step("[red]x[/]\x9b", 1, 2)
        deadline = time.monotonic() + 20
        while "x[" not in shown.getvalue() and time.monotonic() < deadline:
            time.sleep(0.05)
    assert "[red]x[/]\\x9b" in shown.getvalue()


# files


WRITING = {
    "convert": ["convert", "planar_2r", "FILE.xml", "--states", "2"],
    "certificate": ["convert", "planar_2r", "OTHER.xml", "--states", "2", "--certificate", "FILE"],
    "audit html": ["audit", "planar_2r", "--html", "FILE"],
    "audit fix": ["audit", "planar_2r", "--fix", "FILE.urdf"],
    "audit page": ["audit", "planar_2r", "--page", "FILE"],
    "derive": ["derive", "planar_2r", "--out", "FILE"],
    "simulate plot": ["simulate", "planar_2r", "--time", "0.01", "--plot", "FILE.png"],
    "simulate save": ["simulate", "planar_2r", "--time", "0.01", "--save", "FILE.npz"],
    "size": ["size", "planar_2r", "--samples", "50", "--plot", "FILE.png"],
    "integrators": ["integrators", "planar_2r", "--plot", "FILE.png"],
    "bench json": ["bench", "--from", "FIGURES", "--json", "FILE"],
    "bench page": ["bench", "--from", "FIGURES", "--page", "FILE"],
    "bench plot": ["bench", "--from", "FIGURES", "--plot", "FILE.png"],
}


@pytest.fixture(scope="module")
def certificate():
    return certify(qddot.load("planar_2r"))


@pytest.fixture
def quick(monkeypatch, certificate):
    """Commands that measure, without the measuring."""
    monkeypatch.setattr("qddot.simulate.certificate.certify", lambda *_, **__: certificate)
    figures = {
        "machine": {"versions": {}, "cpu": "", "cores": 1},
        "rows": [],
        "scaling": [],
        "settings": {"passes": 1, "seconds": 1, "rollout_seconds": 1},
    }
    monkeypatch.setattr("qddot.bench.read_measurements", lambda _: figures)
    monkeypatch.setattr("qddot.bench.sheets", lambda _: [])
    monkeypatch.setattr("qddot.bench.disagreements", lambda _: [])
    monkeypatch.setattr("qddot.bench.page", lambda _: "page")
    monkeypatch.setattr("qddot.bench.plot", lambda _, file: file.write_bytes(b"plot"))


def words(command: str, target: str, folder: Path) -> list[str]:
    other = str(folder / "other")
    return [
        w.replace("FILE", target).replace("OTHER", other).replace("FIGURES", "figures.json")
        for w in WRITING[command]
    ]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("command", WRITING)
def test_a_file_is_overwritten_only_by_force(tmp_path, command):
    args = words(command, str(tmp_path / "it"), tmp_path)
    target = next(Path(w) for w in args if w.startswith(str(tmp_path / "it")))
    first = run(*args)
    assert (first.exit_code, target.exists()) == (0, True), first.output
    assert f"wrote {target}" in first.stdout.splitlines()
    target.write_text("precious")
    (tmp_path / "other.xml").unlink(missing_ok=True)
    refused = run(*args)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"cannot write {target}: the file exists" in refused.stderr
    assert target.read_text() == "precious"
    forced = run(*args, "--force")
    assert forced.exit_code == 0, forced.output
    assert target.read_bytes() != b"precious"
    assert {f.name for f in tmp_path.iterdir()} <= {target.name, "other.xml"}


@pytest.mark.parametrize("command", ["convert", "audit html", "derive", "simulate save", "size"])
def test_beside_json_files_are_named_on_stderr(tmp_path, command):
    args = words(command, str(tmp_path / "it"), tmp_path)
    target = next(w for w in args if w.startswith(str(tmp_path / "it")))
    result = run(*args, "--json")
    assert (result.exit_code, result.stderr) == (0, f"wrote {target}\n")
    json.loads(result.stdout)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("command", WRITING)
def test_a_disk_that_fills_up_is_one_error(tmp_path, command):
    resource = pytest.importorskip("resource", reason="limits of file sizes are those of POSIX")
    target = tmp_path / "it"
    before = {f.name for f in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, hard))
    try:
        result = run(*words(command, str(target), tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.exit_code == 2, result.output
    assert "File too large" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert {f.name for f in tmp_path.iterdir()} == before


@POSIX
def test_devices_are_written_into_and_stay(tmp_path):
    result = run("audit", "planar_2r", "--html", "/dev/full", "--force")
    assert "cannot write /dev/full: No space left on device" in result.stderr
    assert run("derive", "planar_2r", "--out", "/dev/null").exit_code == 0
    assert Path("/dev/full").is_char_device()
    assert Path("/dev/null").is_char_device()


def test_one_file_for_two_outputs_is_refused(tmp_path):
    same = str(tmp_path / "x")
    result = run("audit", "planar_2r", "--html", same, "--page", same)
    assert (result.exit_code, "it is named twice" in result.stderr) == (2, True)


# what is said


def test_check_says_what_it_does_not_judge(tmp_path):
    file = tmp_path / "heavy.urdf"
    file.write_text(re.sub(r'(i[xyz]{2}="1)"', r'\g<1>000"', urdf("a")))
    shown, data = run("check", str(file), "--states", "2"), run("check", str(file), "--json")
    assert (shown.exit_code, data.exit_code) == (0, 0)
    (line,) = [x for x in shown.stdout.splitlines() if x.startswith("not judged: ")]
    assert "`qddot audit`" in line
    assert json.loads(data.stdout)["not_judged"] == line.removeprefix("not judged: ")


def test_numbers_agree_with_their_nouns(tmp_path):
    file = tmp_path / "one.urdf"
    link = urdf("a")[urdf("a").index('<link name="a1">') :].split("</link>")[0] + "</link>"
    file.write_text(f'<robot name="one">{link}</robot>')
    assert "one: 1 link, " in run("audit", str(file)).stdout
    assert ", 1 frame" in run("info", str(file)).stdout
    assert "1 state, seed 0" in run("check", "planar_2r", "--states", "1").stdout
    assert "1 loop closure is not part" in " ".join(run("info", "four_bar").stdout.split())
    assert "3 loop closures are not part" in " ".join(run("info", "delta").stdout.split())


def test_warnings_of_the_library_are_notes():
    result = run("simulate", "four_bar", "--time", "0.01")
    assert result.stderr == (
        "note: constraints of 'four_bar' are redundant: 'loop.y' moves with no joint. Their "
        "multipliers are taken as zero. Independent rows: loop.x, loop.z\n"
    )


@pytest.mark.parametrize("words", [[], ["simulate"], ["identify"], ["identify", "plan"]])
def test_options_without_a_value_have_no_type_in_the_help(words):
    shown = run(*words, "--help").stdout
    assert "--help" in shown
    assert "bool" not in shown.lower()
