"""Functions as C99 with header, test vectors and a report of accuracy."""
