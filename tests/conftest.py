"""Most tests run the definition, the interpreted text; those of the compiler ask for native."""

import importlib.metadata
import importlib.util
import os
import tempfile

import pytest
from hypothesis import HealthCheck, settings
from packaging.requirements import Requirement

USER = os.getuid() if hasattr(os, "getuid") else ""
os.environ["QDDOT_NATIVE"] = "0"
# the workers of the tests share the machine already
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["QDDOT_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), f"qddot-tests-{USER}")

# no verdict depends on how busy the machine is; the same examples in every run of a submission,
# new ones at every other run
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("submission", settings.get_profile("any machine"), derandomize=True)
settings.load_profile("submission" if os.environ.get("CI") else "any machine")

ORACLES = {"pinocchio": "pin", "pydrake": "drake"}


def has_wheels(package: str) -> bool:
    """Whether an oracle is to be installed on this system, by the markers of pyproject.toml."""
    try:
        requirements = [Requirement(text) for text in importlib.metadata.requires("qddot") or ()]
    except importlib.metadata.PackageNotFoundError:
        # run from its sources, without an installation
        return True
    return any(
        r.name == package and (r.marker is None or r.marker.evaluate({"extra": "oracles"}))
        for r in requirements
    )


ABSENT = [
    module
    for module, package in ORACLES.items()
    if importlib.util.find_spec(module) is None and not has_wheels(package)
]


@pytest.fixture(autouse=True)
def _own_print_options():
    """Pages that set how numbers are printed do so for themselves."""
    import numpy as np

    with np.printoptions():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Skip a file whose oracle has no wheels here; one that is missing elsewhere is an error."""
    report = yield
    for module in ABSENT:
        if report.failed and f"No module named '{module}" in str(report.longrepr):
            report.outcome = "skipped"
            reason = f"Skipped: {ORACLES[module]} has no wheels for this system"
            report.longrepr = (str(collector.path), 1, reason)
    return report
