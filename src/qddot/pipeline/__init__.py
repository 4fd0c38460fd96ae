"""The pipeline: fifteen steps from description file to verified controller, and the doctor."""

from qddot.pipeline.context import Context, PipelineSettings
from qddot.pipeline.steps import STEPS, PipelineStep, run_pipeline, select_steps

__all__ = ["STEPS", "Context", "PipelineSettings", "PipelineStep", "run_pipeline", "select_steps"]
