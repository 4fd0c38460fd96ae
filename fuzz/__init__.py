"""A fuzzer of the loaders and of the public calls: `python -m fuzz --seconds 60`."""
