"""`qddot cache`: the compiled functions and measured meshes kept on disk."""

from __future__ import annotations

import typer

from qddot.cli.terminal import JsonOption, out, print_json
from qddot.compile.runtime.cache import Cache
from qddot.errors import count_text
from qddot.pipeline.memory import step_memory
from qddot.robot.meshes import mesh_cache

__all__ = ["cache"]

cache = typer.Typer(
    help="What is kept on disk: compiled functions, measured meshes.",
    no_args_is_help=True,
    add_completion=False,
)


@cache.command("info")
def _cache_info(as_json: JsonOption = False) -> None:
    """Show where compiled functions and measured meshes are kept, how many, and how large."""
    code, meshes = Cache(), mesh_cache()
    files, size = len(code.entries()), code.size()
    unfinished = len(code.partial_files()) + len(meshes.partial_files())
    if as_json:
        kept = {"files": len(meshes.entries()), "bytes": meshes.size()}
        folder = {"folder": str(code.folder), "files": files, "bytes": size}
        print_json({**folder, "meshes": kept, "unfinished": unfinished})
    else:
        room = f"{size / 2**20:.1f} of at most {code.most_bytes / 2**20:.0f} MiB"
        measured = count_text(len(meshes.entries()), "mesh", "meshes")
        more = f"{measured}, {meshes.size() / 2**20:.1f} MiB"
        if unfinished:
            more += f"; {unfinished} unfinished"
        out.print(f"{code.folder}: {count_text(files, 'function')}, {room}; {more}")


@cache.command("clear")
def _clear_cache(as_json: JsonOption = False) -> None:
    """Remove compiled functions, measured meshes, known steps; they are made again when needed."""
    removed = sum(kept.clear() for kept in (Cache(), mesh_cache(), step_memory()))
    if as_json:
        print_json({"removed": removed})
    else:
        out.print(f"removed {count_text(removed, 'file')}")
