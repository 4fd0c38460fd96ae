"""Object code in this process: sections near each other, and a process short of memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.native_core
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is mapped as Linux does it")
PROGRAM = Path(__file__).parents[1] / "helpers" / "scattered_memory.py"


@LINUX
def test_code_and_constants_lie_together_in_scattered_memory(tmp_path):
    """Compiled, then loaded from the cache; 4 GiB of address space are mapped before each."""
    environment = {**os.environ, "QDDOT_NATIVE": "1", "QDDOT_CACHE_DIR": str(tmp_path)}
    for _ in ("compiled", "from the cache"):
        run = subprocess.run(
            [sys.executable, PROGRAM, "3", "4"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, run.stderr[-600:]
        assert json.loads(run.stdout)["kernels"] == 3
