"""The pipeline: twelve steps from description file to verified controller, and the doctor."""

from qddot.pipeline.context import Context, Settings
from qddot.pipeline.steps import STEPS, Step, run_pipeline, select_steps

__all__ = ["STEPS", "Context", "Settings", "Step", "run_pipeline", "select_steps"]
