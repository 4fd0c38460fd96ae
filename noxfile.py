"""The README's test command by hand, over the Python interpreters that are on this machine.

pipx run nox                     # all of them
pipx run nox -s test-3.12        # one
pipx run nox -s widths-3.12      # its native code for each width of vectors
"""

from __future__ import annotations

import nox

PYTEST = ("pytest", "-n", "auto", "--dist", "worksteal")
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
nox.options.sessions = ["test"]
nox.options.error_on_missing_interpreters = False


def install(session: nox.Session) -> None:
    """Install the library with the oracles, as `make test` does."""
    session.install("-c", "constraints.txt", "-e", ".[oracles,dev]")
    session.env["PYTHONUTF8"] = "1"


@nox.session(python=PYTHONS)
def test(session: nox.Session) -> None:
    """Lint, type-check and run all tests, then the native core for each width of vectors."""
    install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run(*PYTEST, "-m", "not native_core", *session.posargs)
    run_widths(session)


@nox.session(python=PYTHONS)
def widths(session: nox.Session) -> None:
    """Run the native core for each width of vectors."""
    install(session)
    run_widths(session)


def run_widths(session: nox.Session) -> None:
    """Native code as processors without AVX, with AVX2 and with AVX-512 run it."""
    for width in ("16", "32", "64"):
        options = {"QDDOT_VECTOR_BYTES": width}
        session.run(*PYTEST, "-m", "native_core", "tests/compile", env=options)
