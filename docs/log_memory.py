"""Write the memory of long logs on docs/identification.md: `python docs/log_memory.py [rows]`.

A log of 10⁷ rows of a UR5e is written as CSV, Parquet and npz into a temporary folder (4 GB); each
is read and fitted in a process of its own. Its largest resident memory is what the system says, for
which this program stays small itself: a process begins with the peak of the one that starts it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

import qddot
from qddot import identify
from qddot.identify.spill import release_pages

sys.path.insert(0, str(Path(__file__).parent))
from identification import STANDARD, put

PERIOD = 20.0
CHILD = f"""
import json, resource, sys, time
import qddot
from qddot import identify
robot = qddot.load("ur5e")
began = time.process_time()
log = identify.read(sys.argv[1], robot)
read, most = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fit = identify.fit(robot, log, {STANDARD!r}, v0=0.01)
whole = time.process_time() - began
print(json.dumps([len(log), most / 1024, read,
                  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, whole, fit.total]))
"""


def write_logs(folder: Path, rows: int) -> list[Path]:
    """A log of so many rows at 1 kHz, a periodic motion with noise, in three formats, by pieces."""
    robot = qddot.load("ur5e")
    truth = identify.perturb_robot(robot, 0.15, seed=1)
    box = identify.motion_limits(robot, velocity=1.5)
    bounds = (box.lower, box.upper, box.velocity, box.acceleration)
    rng = np.random.default_rng(0)
    motion = identify.random_motion(robot.joint_names, PERIOD, 5, *bounds, rng)
    part = identify.virtual_log(truth, motion, duration=5 * PERIOD, rate=1000.0)
    files = [folder / f"log.{end}" for end in ("csv", "parquet", "npz")]
    names = ["time", *(f"{s}_{j}" for s in ("q", "tau") for j in robot.joint_names)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    arrays = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", float, shape)
        for name, shape in (("time", (rows,)), ("q", (rows, 6)), ("tau", (rows, 6)))
    }
    # the same periods again and again
    with csv.CSVWriter(files[0], schema) as text, parquet.ParquetWriter(files[1], schema) as table:
        for k in range(0, rows, len(part)):
            n = min(len(part), rows - k)
            time, q, tau = (k + np.arange(n)) * 1e-3, part.q[:n], part.tau[:n]
            piece = pa.table([time, *q.T.copy(), *tau.T.copy()], schema=schema)
            text.write_table(piece)
            table.write_table(piece)
            for name, x in (("time", time), ("q", q), ("tau", tau)):
                arrays[name][k : k + n] = x
                release_pages(arrays[name])
    with zipfile.ZipFile(files[2], "w") as archive:
        for name in arrays:
            archive.write(folder / f"{name}.npy", f"{name}.npy")
    return files


def main(rows: int) -> None:
    """Measure, and write the table."""
    lines = [
        f"{rows:,} rows of 6 joints, read and fitted; largest resident memory, processor time:",
        "",
        "| format | file | reading | reading and fit | reading | both | residual |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for file in write_logs(Path(folder), rows):
            command = [sys.executable, "-c", CHILD, str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            _, first, read, most, whole, total = json.loads(done.stdout)
            size = file.stat().st_size / 2**20
            lines.append(
                f"| {file.suffix[1:]} | {size:.0f} MB | {first:.0f} MB | {most:.0f} MB "
                f"| {read:.0f} s | {whole:.0f} s | {100 * total:.2g} % |"
            )
            print(lines[-1], flush=True)
    put("memory", "\n".join(lines))


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000)
