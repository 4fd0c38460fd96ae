"""Loaders: from a description file, another library's model or a name to a Model."""

from qddot.loaders.load import describe, load_model, locate_source
from qddot.loaders.named_robots import robot_names

__all__ = ["describe", "load_model", "locate_source", "robot_names"]
