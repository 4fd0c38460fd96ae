"""From a Python function of numbers to a tape of operations."""
