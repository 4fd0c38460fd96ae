"""The expansion of a xacro file, as it runs in a child process of `isolation`.

The package xacro evaluates Python, reads files and the environment. Without trust, each of the
functions by which it does so is replaced: expressions are walked by `expressions`, and files are
read only from the folder or the package of the file and from packages. Document types are refused
and the depth and number of elements bounded with trust too.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.dom import minidom
from xml.parsers import expat

import xacro
from xacro import substitution_args

from qddot.errors import DescriptionError
from qddot.loaders.expressions import (
    AllowedFunction,
    builtin_functions,
    check_plain,
    evaluate,
    math_symbols,
)
from qddot.loaders.locate import find_package
from qddot.loaders.opened import note_opened, watch_opened
from qddot.loaders.trust import ReadableFolders, Refused

__all__ = ["expand", "global_symbols"]

_MOST_BYTES = 64 * 2**20
_MOST_ELEMENTS = 50_000
_MOST_LETTERS = 1_000_000
_DEEPEST = 200
_MOST_FILES_DEEP = 50
_MOST_MACROS_DEEP = 300
_FRAMES = 4000
_LONGEST_MESSAGE = 1000
_COMMON = (
    "list", "dict", "map", "len", "str", "float", "int", "bool", "True", "False", "min", "max",
    "round", "sorted", "range",
)  # fmt: skip
"""Builtins that xacro knows without the prefix `python.`."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ACTIONS = (
    "ctypes", "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link", "os.mkdir",
    "os.posix_spawn", "os.putenv", "os.remove", "os.rename", "os.rmdir", "os.spawn",
    "os.startfile", "os.symlink", "os.system", "os.truncate", "pty", "shutil", "socket",
    "subprocess", "urllib", "webbrowser",
)  # fmt: skip
"""Beginnings of audit events: programs, connections and changes of files."""


def expand(file: str, arguments: dict[str, str], trust: bool) -> dict[str, Any]:
    """The URDF text that a xacro file expands to, and the files that were opened for it."""
    folders = ReadableFolders(Path(file))
    if sys.platform != "win32":  # whose stack is short
        sys.setrecursionlimit(_FRAMES)
    # the structure is bounded for all files, evaluation for files of strangers
    _bound_structure(folders, trust)
    if not trust:
        _replace_evaluation(folders)
        _refuse_actions()
    # what xacro prints is not needed
    with contextlib.redirect_stderr(_Nowhere()), watch_opened() as opened:
        try:
            text = xacro.process_file(file, mappings=dict(arguments)).toxml("utf-8").decode()
            return {"text": text, "opened": [str(path) for path in opened]}
        except DescriptionError:
            raise
        except Exception as error:  # xacro lets errors of any kind through
            raise DescriptionError(file, f"xacro: {_failure_reason(error, file)}") from error


def _failure_reason(error: Exception, file: str) -> str:
    """The message of an error, and the included file that it is about."""
    cause: Any = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            raise cause
        if isinstance(cause, RecursionError):
            return "elements or expressions are nested too deeply"
        cause = getattr(cause, "exc", None)
    text = str(error).strip() or repr(error)
    text = text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"
    place = (xacro.filestack or [file])[-1]
    return text if place == file else f"{text}\nin {place}"


class _Nowhere(io.TextIOBase):
    """A stream whose text is dropped."""

    def write(self, text: str) -> int:
        """The number of letters."""
        return len(text)


def _bound_structure(folders: ReadableFolders, trust: bool) -> None:
    """Check each file before it is parsed, and count elements, macros and files while they grow."""
    expand_all, call_macro = xacro.eval_all, xacro.handle_macro_call
    elements = 0

    def parse_file(_: object, filename: str) -> minidom.Document:
        if len(xacro.filestack) > _MOST_FILES_DEEP:
            raise xacro.XacroException(f"files include one another {_MOST_FILES_DEEP} deep")
        path = Path(filename) if trust else folders.check_readable(filename)
        try:
            content = _read_file(path)
        except OSError as error:
            # as xacro does it, for includes that are optional
            xacro.filestack.pop()
            raise xacro.XacroException(f"{error.strerror}: {filename}", exc=error) from error
        _check_xml(content, filename)
        return minidom.parseString(content)

    def eval_all(*arguments: Any) -> None:
        nonlocal elements
        elements += 1
        if elements > _MOST_ELEMENTS:
            raise xacro.XacroException(f"expands to more than {_MOST_ELEMENTS} elements")
        expand_all(*arguments)

    def handle_macro_call(node: minidom.Element, *tables: Any) -> Any:
        if len(xacro.macrostack) > _MOST_MACROS_DEEP:
            deep = f"macros call one another {_MOST_MACROS_DEEP} deep: {node.tagName}"
            raise xacro.XacroException(deep)
        return call_macro(node, *tables)

    _replace_functions(parse=parse_file, eval_all=eval_all, handle_macro_call=handle_macro_call)
    if trust:
        substitution_args._eval_find = lambda name: str(find_package(name, folders.file.parent))


def _replace_functions(**functions: Any) -> None:
    """Put functions in the place of those of xacro, which must be there to be replaced."""
    for name, function in functions.items():
        if not hasattr(xacro, name):
            reason = f"the installed xacro has no {name}: its version is not known to be safe"
            raise DescriptionError("xacro", f"{reason}; pip install 'xacro>=2.1,<2.2'")
        setattr(xacro, name, function)


def _read_file(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise xacro.XacroException(f"{path} is not a file")
    if path.stat().st_size > _MOST_BYTES:
        raise xacro.XacroException(f"{path} is larger than {_MOST_BYTES // 2**20} MiB")
    note_opened(path)
    return path.read_bytes()


def _check_xml(content: bytes, file: str) -> None:
    """Refuse document types, which may declare entities, and elements nested too deeply."""
    parser = expat.ParserCreate()
    depth = 0

    def start_element(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            reason = f"elements are nested deeper than {_DEEPEST}"
            raise DescriptionError(file, reason, line=parser.CurrentLineNumber)

    def end_element(_: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse_doctype(*_: object) -> None:
        reason = "has a DOCTYPE, which is refused in xacro files"
        raise DescriptionError(file, reason, line=parser.CurrentLineNumber)

    parser.StartElementHandler, parser.EndElementHandler = start_element, end_element
    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.Parse(content, True)


def _replace_evaluation(folders: ReadableFolders) -> None:
    """Put bounded functions in the place of all by which xacro evaluates, reads and looks up."""
    evaluate_text, load_yaml = xacro.eval_text, xacro.load_yaml

    def safe_eval(text: str, names: Any, _: object = None) -> Any:
        return evaluate(text, names)

    def eval_text(text: str, symbols: Any) -> Any:
        value = evaluate_text(text, symbols)
        if isinstance(value, str) and len(value) > _MOST_LETTERS:
            raise Refused(f"a text of more than {_MOST_LETTERS} letters")
        return value

    def read_yaml(filename: str) -> Any:
        path = folders.check_readable(xacro.abs_filename_spec(filename))
        _read_file(path)
        return check_plain(load_yaml(str(path)))

    def find_files(pattern: str) -> list[str]:
        # only the last part may be a pattern, so that the search stays in one folder
        folder = folders.check_readable(os.path.dirname(pattern))
        if glob.has_magic(str(folder)):
            raise Refused(f"the pattern {pattern!r}")
        return glob.glob(pattern)

    _replace_functions(
        safe_eval=safe_eval,
        eval_text=eval_text,
        load_yaml=read_yaml,
        eval_extension=lambda text: _substitute_argument(text, folders),
        glob=SimpleNamespace(glob=find_files),
    )
    symbols = xacro._global_symbols
    symbols.clear()
    symbols.update(global_symbols(read_yaml))


def _refuse_actions() -> None:
    """Refuse what no expansion does, should a way to Python remain that is not known here."""

    def refuse_python(*_: object) -> None:
        raise Refused("Python")

    for module in (xacro, substitution_args):
        module.eval = module.exec = module.compile = refuse_python
    sys.addaudithook(_refuse_event)


def _refuse_event(event: str, arguments: tuple[Any, ...]) -> None:
    """Hear what the interpreter is about to do; files are opened to be read only."""
    # streams that are open already have a number in the place of a path
    opens = event == "open" and not isinstance(arguments[0], int)
    if (opens and (arguments[2] or 0) & _WRITING) or event.startswith(_ACTIONS):
        raise PermissionError(f"{event} in a file that is not trusted")


def global_symbols(load_yaml: Callable[[str], Any]) -> dict[str, Any]:
    """The names that expressions know without any property: as in xacro, without what is unsafe."""

    def split_words(text: str, sep: str = ",; ", skip_empty: bool = True) -> list[str]:
        # each letter of sep separates words
        parts = re.split(f"[{re.escape(sep)}]", text) if sep else [text]
        return [x for x in parts if x] if skip_empty else parts

    def raise_fatal(*words: Any) -> None:
        raise xacro.XacroException(" ".join(map(str, words)))

    builtins, functions = builtin_functions(), math_symbols()
    own: dict[str, Any] = {
        "abs_filename": AllowedFunction(xacro.abs_filename_spec),
        "dotify": AllowedFunction(xacro.YamlDictWrapper),
        "load_yaml": AllowedFunction(load_yaml),
    }
    names = {**functions, **own, **{name: builtins[name] for name in _COMMON}}
    own["arg"] = AllowedFunction(lambda name: xacro.substitution_args_context["arg"][name])
    own["tokenize"] = AllowedFunction(split_words)
    own["fatal"] = AllowedFunction(raise_fatal)
    for name in ("message", "warning", "error", "print_location"):
        own[name] = AllowedFunction(lambda *_, **__: "")
    for name, content in (("python", builtins), ("math", functions), ("xacro", own)):
        names[name] = space = xacro.NameSpace()
        space.update(content)
    return names


def _substitute_argument(text: str, folders: ReadableFolders) -> str:
    """The value of $(arg name), $(find package) or $(eval expression)."""
    arguments = xacro.substitution_args_context["arg"]
    inner = text[2:-1]
    if inner.startswith("eval "):
        return str(evaluate(inner[5:], _EvalNames(arguments, folders)))
    command, *words = inner.split() or [""]
    if command not in ("arg", "find") or len(words) != 1:
        raise Refused(f"the substitution {text[:80]!r}")
    if command == "find":
        return str(folders.find_folder(words[0]))
    if words[0] not in arguments:
        raise xacro.XacroException(f"Undefined substitution argument {words[0]}")
    return str(arguments[words[0]])


class _EvalNames(dict[str, Any]):
    """The names that $(eval …) knows: arguments by name, numbers as such, and a few functions."""

    def __init__(self, arguments: dict[str, str], folders: ReadableFolders) -> None:
        convert = substitution_args.convert_value
        super().__init__({k: convert(str(v), "auto") for k, v in arguments.items()})
        builtins = builtin_functions()
        self.update(math_symbols())
        self.update(
            {name: builtins[name] for name in ("list", "dict", "map", "str", "float", "int")}
        )
        self.update({"true": True, "false": False, "True": True, "False": False})
        self["arg"] = AllowedFunction(lambda name: convert(str(arguments[name]), "auto"))
        self["find"] = AllowedFunction(lambda name: str(folders.find_folder(name)))
