"""Tables of large results, of widths of vectors and of devices of speed."""

from __future__ import annotations

from typing import Any

from qddot.bench.sheet import Sheet, format_number, format_ratio

__all__ = ["device_table", "new_results_table", "width_table"]


def new_results_table(data: dict[str, Any]) -> Sheet:
    """New results beside arrays used again and a plain fill."""
    rows = []
    for row in data.get("new_results", ()):
        cells = []
        for batch in row["batches"]:
            times = (batch[key] for key in ("again_us", "new_us", "fill_us"))
            cells += [f"{batch['states']:,}", *map(format_number, times)]
        peer = (format_number(row["pinocchio_us"]), format_ratio(row["ratio"]))
        rows.append((row["robot"], row["function"], *cells, *peer))
    each = ("states", "used again", "new", "fill")
    text = (
        "Functions of more than 100 numbers a state, as users call them, µs a state on one core: "
        "results in arrays that are used again, new results at every call, and the bound of the "
        "memory, a plain fill of as many bytes. Pinocchio is a Python loop that stores its "
        "results; the ratio is its time over that of the new results of the longer batch, which "
        "ends where its results take 600 MiB."
    )
    columns = ("robot", "function", *each, *each, "Pinocchio", "ratio")
    return Sheet("New results", text, columns, tuple(rows))


def width_table(data: dict[str, Any]) -> Sheet:
    """The same functions with vectors of 32 and of 64 bytes."""
    own = data["machine"]["vector_bytes"]
    rows = []
    for row in data.get("new_results", ()):
        cells: list[str] = []
        for key in ("cache_us", "new_us"):
            narrow, wide = (row["widths"][key][width] for width in ("32", "64"))
            cells += [*map(format_number, (narrow, wide)), format_ratio(narrow / wide)]
        rows.append((row["robot"], row["function"], *cells))
    forced = "" if own >= 64 else f"; 64 is forced, as this processor has vectors of {own} bytes"
    text = (
        "Vectors of 32 and of 64 bytes, µs a state: in the cache, into arrays that are used again, "
        f"and new results of the longer batch of the table above{forced}."
    )
    names = ("32 bytes", "64 bytes", "gain")
    columns = ("robot", "function", *(f"{n}, cache" for n in names), *(f"{n}, new" for n in names))
    return Sheet("Width of vectors", text, columns, tuple(rows))


def device_table(data: dict[str, Any]) -> Sheet:
    """Devices of speed, each alone."""
    rows = tuple(
        (
            row["device"],
            row["robot"],
            row["function"],
            f"{row['states']:,}",
            format_number(row["us"]),
            format_number(row["without_us"]),
            format_ratio(row["gain"]),
        )
        for row in data.get("devices", ())
    )
    text = "µs a state with a device of speed and without it, all else being the same."
    columns = ("device", "robot", "function", "states", "with", "without", "gain")
    return Sheet("Devices of speed", text, columns, rows)
