"""Most tests run the definition, the interpreted text; those of the compiler ask for native."""

import os
import tempfile

from hypothesis import settings

os.environ["QDDOT_NATIVE"] = "0"
os.environ["QDDOT_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), f"qddot-tests-{os.getuid()}")

# the same examples in every run of a submission; new ones at every other run
settings.register_profile("submission", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("submission")
