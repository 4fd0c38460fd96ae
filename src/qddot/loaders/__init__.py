"""Loaders: from a description file, another library's model or a name to a Model."""

from qddot.loaders.dispatch import load_model
from qddot.loaders.named import robot_names

__all__ = ["load_model", "robot_names"]
