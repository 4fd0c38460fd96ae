"""Analysis of a robot: closed forms, constraints, linear models, task space, sizing."""
