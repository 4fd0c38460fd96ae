"""The benchmark: qddot and other engines side by side in one run."""
