# `make demo`, `make test` and `make bench` do everything from a fresh clone: virtual environment, install, run.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint bench clean

demo: .venv/demo.stamp
	$(BIN)/qddot check ur5e

test: .venv/test.stamp lint
	$(BIN)/python -m pytest -n auto

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/test.stamp
	$(BIN)/qddot bench --json bench.json --plot bench.png --page docs/performance.md

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e .
	touch $@

.venv/test.stamp: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e ".[oracles,dev]"
	touch $@
