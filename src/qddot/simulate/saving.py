"""Rollouts written as NumPy archives, with all that is needed to continue them."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np

from qddot import __version__
from qddot.errors import InvalidArgument
from qddot.files import fill_whole
from qddot.model.model import Model
from qddot.simulate.encoding import NotPlainData, encode_step, part_digests

__all__ = [
    "FIELDS",
    "FORM",
    "FORM_VERSION",
    "rollout_facts",
    "save_rollout",
    "write_archive",
]

FIELDS = ("time", "q", "v", "tau")
"""The arrays that every trajectory in a file has."""
FORM, FORM_VERSION = "qddot rollout", 2


def save_rollout(rollout: Any, file: str | Path, force: bool = False) -> Path:
    """Write a rollout as a NumPy archive (.npz) that `load` reads; returns where it is."""
    target = Path(file)
    if target.suffix != ".npz":
        raise InvalidArgument("file", str(file), "its name ends in .npz")
    model = rollout.step.model if rollout.step else None
    return fill_whole(target, lambda draft: write_archive(model, rollout, draft), force)


def rollout_facts(model: Model | None, rollout: Any) -> dict[str, str]:
    """Robot, step and status of a trajectory, as text."""
    return {
        "robot": model.name if model else "",
        "digest": model.digest if model else "",
        "joints": json.dumps(model.joint_names if model else ()),
        "dt": repr(rollout.dt),
        "integrator": rollout.integrator,
        "status": str(rollout.status),
    }


def write_archive(model: Model | None, rollout: Any, draft: Path) -> None:
    """Arrays by name, facts as text, and the step and all versions as JSON under `header`."""
    arrays = {name: getattr(rollout, name) for name in FIELDS}
    groups = {
        "input": rollout.inputs,
        "state": rollout.effect_states,
        "history": rollout.effect_history,
        "residuals": () if rollout.residuals is None else (rollout.residuals,),
    }
    for name, group in groups.items():
        arrays |= {f"{name}_{k}": x for k, x in enumerate(group)}
    if rollout.inputs and rollout.inputs[0] is rollout.tau:
        del arrays["input_0"]
    facts = rollout_facts(model, rollout)
    header: dict[str, Any] = {
        "form": FORM,
        "form_version": FORM_VERSION,
        "qddot": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "counts": {name: len(group) for name, group in groups.items()},
        "shapes": {name: x.shape for name, x in arrays.items()},
        "native": bool(rollout.native),
        "every": int(rollout.every),
        **facts,
    }
    if rollout.step:
        header["parts"] = part_digests(rollout.step)
        try:
            header["step"] = encode_step(rollout.step)
        except NotPlainData as error:
            header["own_class"] = str(error)
    # readers without qddot find the facts as arrays; axes along which all is one row are cut to it
    entries: dict[str, Any] = {name: np.array(text) for name, text in facts.items()}
    entries["joints"] = np.array(model.joint_names if model else (), str)
    entries |= {
        name: x[tuple(slice(1) if stride == 0 else slice(None) for stride in x.strides)]
        for name, x in arrays.items()
    }
    entries |= {"label": rollout.status.label, "first_bad_step": rollout.status.step}
    entries["header"] = np.array(json.dumps(header).encode())
    np.savez(draft, **entries)
