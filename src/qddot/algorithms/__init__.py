"""The algorithms: pure functions of a model and scalars, one family a file."""
