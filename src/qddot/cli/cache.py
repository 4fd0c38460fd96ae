"""`qddot cache`: the compiled functions kept on disk."""

from __future__ import annotations

from qddot.cli.terminal import JsonOption, out, print_json
from qddot.compile.cache import Cache

__all__ = ["cache_clear", "cache_info"]


def cache_info(as_json: JsonOption = False) -> None:
    """Show where compiled functions are kept, how many, and how large they are."""
    cache = Cache()
    files, size = len(cache.entries()), cache.size()
    if as_json:
        print_json({"folder": str(cache.folder), "files": files, "bytes": size})
    else:
        room = f"{size / 2**20:.1f} of at most {cache.most_bytes / 2**20:.0f} MiB"
        out.print(f"{cache.folder}: {files} functions, {room}", highlight=False)


def cache_clear(as_json: JsonOption = False) -> None:
    """Remove all compiled functions; they are compiled again when needed."""
    removed = Cache().clear()
    if as_json:
        print_json({"removed": removed})
    else:
        out.print(f"removed {removed} files")
