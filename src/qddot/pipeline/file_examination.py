"""A description file examined: its audit, and the pipeline's steps that need only the file."""

from __future__ import annotations

from dataclasses import dataclass

from qddot.display.progress import OnStep
from qddot.evidence.record import Claim, Run, Verdict
from qddot.evidence.recorder import Recorder
from qddot.loaders.description import Base
from qddot.pipeline.context import Context, PipelineSettings
from qddot.pipeline.steps import run_pipeline, select_steps
from qddot.robot.robot import Robot
from qddot.verify.audit import Audit, FileVerdict, audit, judge_file

__all__ = ["FileExamination", "examine_file"]

_FILE_STEPS = "1,4-6"
"""Steps of the pipeline that judge the file besides its audit."""


@dataclass(frozen=True)
class FileExamination:
    """A description file examined: its robot, its audit, the claims of the pipeline's steps."""

    robot: Robot
    audit: Audit
    claims: tuple[Claim, ...]

    @property
    def verdict(self) -> FileVerdict:
        """The verdict on the file; every claim that fails in a pipeline counts."""
        failed = [c.name for c in self.claims if c.verdict is Verdict.FAIL]
        return judge_file(self.audit, failed)


def examine_file(
    source: str,
    base: Base = None,
    trust: bool = False,
    on_step: OnStep = lambda name, done, of: None,
) -> FileExamination:
    """Audit a file, and run on it the steps of the pipeline that need nothing but the file."""
    with Recorder(None, Run("doctor")) as recorder:
        context = Context(source, PipelineSettings(base=base, trust=trust), recorder, on_step)
        run_pipeline(context, select_steps(_FILE_STEPS))
        result = audit(source, None, on_step, trust)
        return FileExamination(context.robot, result, tuple(recorder.claims))
