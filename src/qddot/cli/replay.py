"""A recorded run, run again: from typed fields of the record alone, in an enclosed process."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import os
import re
import sys
import tempfile
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any

import typer

from qddot.cli.parameters import ParameterRole, parameter_roles
from qddot.compile.runtime.cache import cache_folder
from qddot.errors import DescriptionError, InvalidArgument, RecordError
from qddot.evidence.inputs import restore_inputs
from qddot.evidence.reader import MOST_BYTES, read_record
from qddot.evidence.record import Record
from qddot.loaders.isolation import ChildLimits, Enclosure, run_isolated

__all__ = ["REPLAYABLE", "build_call", "replay_record", "run_again"]

REPLAYABLE = (
    "check", "audit", "compare", "size", "simulate", "pipeline", "lab",
    "identify inspect", "identify fit", "identify validate",
)  # fmt: skip
"""Commands that can be run again."""
_LIMITS = ChildLimits(
    seconds=3600.0, cpu_seconds=7200, memory=8 * 2**30, output=2**20, file_size=MOST_BYTES
)
_PASSED = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PATH", "SYSTEMROOT")
_PASSED_BEGINNINGS = ("QDDOT_", "OMP_", "OPENBLAS_", "MKL_", "MUJOCO_")
"""Variables on which native code and its rounding depend."""
_MOST_VALUES = 1000
_LARGEST = 1e15
_PLACEHOLDER = re.compile(r"\{(\d{1,6})\}")


def replay_record(file: str | Path, record: Record) -> Record:
    """The record of the same command on the inputs that a record keeps.

    The command runs in a child process with limits. It is never trusted, writes nothing but its
    own record, and that into a temporary folder.
    """
    with tempfile.TemporaryDirectory(prefix="qddot-replay-") as name:
        folder = Path(name).resolve()
        run = record.run
        names = [str(x) for x in range(len(run.inputs))]
        # what is refused is refused before anything of the record is written
        try:
            build_call(run.command, run.configuration, names, str(folder / "again.mcap"))
        except InvalidArgument as error:
            raise RecordError(file, f"it cannot be run again: {error}") from error
        for part in ("home", "tmp", "inputs"):
            (folder / part).mkdir()
        paths = restore_inputs(file, run.inputs, folder / "inputs")
        again = folder / "again.mcap"
        program = os.path.dirname(os.path.realpath(sys.executable))
        places = (sys.prefix, sys.base_prefix, program, *sys.path, str(cache_folder().absolute()))
        readable = tuple(Path(x) for x in places if os.path.isabs(x))
        try:
            said = run_isolated(
                "qddot.cli.replay:run_again",
                *(run.command, dict(run.configuration), [str(x) for x in paths], str(again)),
                file=file,
                limits=_LIMITS,
                environment=_replay_environment(folder),
                enclosure=Enclosure(folder, readable),
            )
        except DescriptionError as error:
            reason = error.reason.removesuffix(" to read").replace("crashes its reader", "crashed")
            raise RecordError(file, f"the replay failed: {reason}") from error
        if not again.is_file():
            raise RecordError(file, f"the replay failed: {said}")
        return read_record(again)


def _replay_environment(folder: Path) -> dict[str, str]:
    """Variables of the child: home and temporary files in the folder, packages of the record."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith(_PASSED_BEGINNINGS)
    }
    inner = {name: str(folder / "tmp") for name in ("TMPDIR", "TEMP", "TMP", "MPLCONFIGDIR")}
    homes = dict.fromkeys(("HOME", "USERPROFILE", "XDG_CACHE_HOME"), str(folder / "home"))
    packages = os.pathsep.join(str(x) for x in sorted((folder / "inputs").iterdir()))
    # code that was compiled before is used; what is compiled here is not kept
    cache = {"QDDOT_CACHE_DIR": str(cache_folder().absolute()), "QDDOT_CACHE_READ_ONLY": "1"}
    return {**kept, **inner, **homes, **cache, "ROS_PACKAGE_PATH": packages}


def run_again(command: str, configuration: dict[str, Any], paths: list[str], record: str) -> str:
    """Run a command into a record; the last line that it printed. The task of the child."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        context, call = build_call(command, configuration, paths, record)
        with contextlib.suppress(typer.Exit), context:
            call()
    lines = [line for line in said.getvalue().splitlines() if line.strip()]
    return lines[-1][:1000] if lines else "it ended without a word"


def build_call(
    command: str, configuration: Mapping[str, Any], paths: Sequence[str], record: str
) -> tuple[Any, Callable[[], Any]]:
    """The context of a command, and its call with values from a record, each checked.

    Results may depend on nothing else: a value whose parameter is no part of a result is refused,
    as are texts of another form than that of the parameter, and files that are no inputs.
    """
    if command not in REPLAYABLE:
        raise InvalidArgument("command", command, f"these can: {', '.join(REPLAYABLE)}")
    from qddot.cli import app

    found: Any = typer.main.get_command(app)
    context: Any = typer.Context(found, info_name="qddot")
    for word in command.split():
        found = found.get_command(context, word)
        context = typer.Context(found, info_name=word, parent=context)
    function = inspect.unwrap(found.callback)
    roles, hints = parameter_roles(found), typing.get_type_hints(function, include_extras=True)
    for name in configuration:
        if name not in roles or not roles[name].kept:
            raise InvalidArgument(str(name)[:60], "", f"no result of {command} depends on it")
    for name, parameter in inspect.signature(function).parameters.items():
        given = configuration.get(name)
        if hints[name] is typer.Context:
            passed = {name: context}
        elif given is not None:
            context.params[name] = _checked_value(name, hints[name], roles[name], given, paths)
        elif parameter.default is not inspect.Parameter.empty and not (
            roles[name].file and parameter.default
        ):
            context.params[name] = parameter.default
        else:
            raise InvalidArgument(name, given, f"a replay of {command} needs it")
    context.params["record"] = Path(record)
    return context, functools.partial(function, **passed, **context.params)


def _checked_value(
    name: str, hint: Any, role: ParameterRole, given: Any, paths: Sequence[str]
) -> Any:
    """A value of a record for a parameter of this type, a file by its number replaced."""
    base, info = typing.get_args(hint)[:2]
    kinds = [kind for kind in (typing.get_args(base) or (base,)) if kind is not NoneType]
    kind = base if typing.get_origin(base) is list else kinds[0]
    if typing.get_origin(kind) is list:
        if not isinstance(given, list) or len(given) > _MOST_VALUES:
            raise InvalidArgument(name, _shown(given), f"it is a list, up to {_MOST_VALUES} long")
        kind = typing.get_args(kind)[0]
        return [_checked_one(name, kind, info, role, x, paths) for x in given]
    return _checked_one(name, kind, info, role, given, paths)


def _checked_one(
    name: str, kind: Any, info: Any, role: ParameterRole, given: Any, paths: Sequence[str]
) -> Any:
    """One value of a record as one of a type, within its bounds."""
    accepted = f"it is {kind.__name__}"
    if kind is bool and isinstance(given, bool):
        if not (given and role.trusts):
            return given
        accepted = "a replay never lets a file run its code"
    elif issubclass(kind, Enum):
        choices = [choice.value for choice in kind]
        if given in choices:
            return kind(given)
        accepted = f"it is one of {', '.join(choices)}"
    elif kind in (int, float) and type(given) in (int, kind):
        low, high = (-math.inf if info.min is None else info.min), info.max
        high = math.inf if high is None else high
        if low <= given <= high and abs(given) < _LARGEST:
            return kind(given)
        accepted = f"it is from {low:g} to {min(high, _LARGEST):g}"
    elif isinstance(given, str) and kind in (str, Path):
        number = _PLACEHOLDER.fullmatch(given)
        if role.file and number and int(number[1]) < len(paths):
            return kind(paths[int(number[1])])
        if (role.text or role.names) and role.accepts(given):
            return kind(given)
        accepted = "it is an input of the record, by its number" if role.file else "not such a text"
    raise InvalidArgument(name, _shown(given), accepted)


def _shown(given: Any) -> str:
    text = str(given)
    return text if len(text) <= 80 else text[:77] + "..."
