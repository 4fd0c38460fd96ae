"""Most tests run the definition, the interpreted text; those of the compiler ask for native."""

import os
import tempfile

os.environ["QDDOT_NATIVE"] = "0"
os.environ["QDDOT_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), f"qddot-tests-{os.getuid()}")
