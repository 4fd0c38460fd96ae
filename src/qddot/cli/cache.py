"""`qddot cache`: the compiled functions and measured meshes kept on disk."""

from __future__ import annotations

import typer

from qddot.cli.terminal import JsonOption, out, print_json
from qddot.compile.cache import Cache
from qddot.verify.audit.meshes import mesh_cache

__all__ = ["cache"]

cache = typer.Typer(
    help="What is kept on disk: compiled functions, measured meshes.",
    no_args_is_help=True,
    add_completion=False,
)


@cache.command("info")
def _info(as_json: JsonOption = False) -> None:
    """Show where compiled functions and measured meshes are kept, how many, and how large."""
    code, meshes = Cache(), mesh_cache()
    files, size = len(code.entries()), code.size()
    if as_json:
        kept = {"files": len(meshes.entries()), "bytes": meshes.size()}
        folder = {"folder": str(code.folder), "files": files, "bytes": size}
        print_json({**folder, "meshes": kept})
    else:
        room = f"{size / 2**20:.1f} of at most {code.most_bytes / 2**20:.0f} MiB"
        more = f"{len(meshes.entries())} meshes, {meshes.size() / 2**20:.1f} MiB"
        out.print(f"{code.folder}: {files} functions, {room}; {more}", highlight=False)


@cache.command("clear")
def _clear(as_json: JsonOption = False) -> None:
    """Remove compiled functions and measured meshes; they are made again when needed."""
    removed = Cache().clear() + mesh_cache().clear()
    if as_json:
        print_json({"removed": removed})
    else:
        out.print(f"removed {removed} files")
