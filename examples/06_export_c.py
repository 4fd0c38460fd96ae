"""Inverse dynamics and the mass matrix as C99, with the program that tests them."""

import tempfile
from pathlib import Path

import qddot

robot = qddot.load("panda")
with tempfile.TemporaryDirectory() as folder:
    robot.export_c(["inverse_dynamics", "mass_matrix"], folder)
    for file in sorted(Path(folder).iterdir()):
        print(f"{file.name}: {file.stat().st_size} bytes")
    print("build and test: cc -std=c99 -O2 panda.c panda_test.c -lm -o panda_test && ./panda_test")
