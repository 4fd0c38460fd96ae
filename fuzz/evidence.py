"""Records of evidence that are mutated: one small record, and what reads records."""

from __future__ import annotations

import hashlib
import random
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fuzz.logs import arm
from qddot.evidence import Recorder, Run, Verdict, read_record
from qddot.evidence.record import Input
from qddot.evidence.review import compare_records, verify_record
from qddot.loaders.named_robots import named_files
from qddot.pipeline.doctor import diagnose_record
from qddot.report import report_page
from qddot.view.motion import as_motion

__all__ = ["genuine_record", "use_record"]


@lru_cache(maxsize=1)
def genuine_record() -> bytes:
    """A record of a motion of the robot of the logs, with claims of each kind."""
    content = named_files()["planar_2r"].read_bytes()
    sum_of = hashlib.sha256(content).hexdigest()
    given = Input("planar_2r.urdf", sum_of, len(content), "planar_2r.urdf", "", content)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "run.mcap"
        time = np.arange(60) * 0.01
        q = np.column_stack([np.sin(time), np.cos(time)])
        with Recorder(file, Run("check", ("{0}",), seed=1, inputs=(given,))) as recorder:
            with recorder.mark("1", "first"):
                recorder.trace("motion", {"time": time, "q": q, "v": q, "tau": q})
                recorder.metric("reach", "largest_magnitude", "motion.q", unit="rad")
                recorder.claim("reach", "q", metric="reach", relation="<", bound=1.5)
            with recorder.mark("2", "second"):
                recorder.trace("more", {"x": time}, labels=[f"row {k}" for k in range(60)])
                recorder.claim("given", "a number", value=1.0, relation="<", bound=0.5)
                recorder.claim("other", "nothing", verdict=Verdict.NOT_EVALUATED, detail="no data")
        return file.read_bytes()


def use_record(file: Path, rng: random.Random) -> None:
    """Read a record, and use it in one of the ways that commands do."""
    record = read_record(file)
    action = rng.randrange(5)
    if action < 2:
        verify_record(record)
    elif action == 2:
        compare_records(record, record)
        report_page(record)
    elif action == 3:
        diagnose_record(file, record)
    else:
        as_motion(file, arm())
