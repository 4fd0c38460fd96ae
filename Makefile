# `make demo`, `make test`, `make fuzz` and `make bench` do everything from a fresh clone: virtual environment, install, run.
ifeq ($(OS),Windows_NT)
PYTHON ?= python
BIN := .venv/Scripts
INTERPRETER := $(BIN)/python.exe
else
PYTHON ?= python3
BIN := .venv/bin
INTERPRETER := $(BIN)/python
endif
SECONDS ?= 60
# what the demo's robot is meant to be
JOINTS := shoulder_pan_joint,shoulder_lift_joint,elbow_joint,wrist_1_joint,wrist_2_joint,wrist_3_joint
EXPECTED := --expect nv=6 --expect base=fixed --expect joints=$(JOINTS)
SEED ?= 0
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# neighbouring tests stay with one worker, so that what they share is made once
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal
# sources and pages are UTF-8, also where the system's encoding is another one
export PYTHONUTF8 := 1

.PHONY: demo test test-widths lint fuzz bench docs clean

demo: .venv/demo.stamp
	$(BIN)/qddot pipeline ur5e $(EXPECTED) --record demo.mcap --report demo.html --force

# the native core runs for each width of vectors, of which this machine has one
test: .venv/test.stamp lint
	$(PYTEST) -m "not native_core"
	$(MAKE) test-widths

# native code as processors without AVX, with AVX2 and with AVX-512 run it
test-widths: .venv/test.stamp
	QDDOT_VECTOR_BYTES=16 $(PYTEST) -m native_core tests/compile
	QDDOT_VECTOR_BYTES=32 $(PYTEST) -m native_core tests/compile
	QDDOT_VECTOR_BYTES=64 $(PYTEST) -m native_core tests/compile

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: .venv/test.stamp
	$(BIN)/python -m fuzz --seconds $(SECONDS) --seed $(SEED)

bench: .venv/test.stamp
	$(BIN)/qddot bench --json bench.json --plot bench.png --page docs/performance.md --force

# the documentation as a site in build/site, warnings as errors; pictures are made by docs/pictures.py
docs: .venv/docs.stamp
	$(BIN)/python -m mkdocs build --quiet

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(INTERPRETER):
	$(PYTHON) -m venv .venv

.venv/demo.stamp: $(INTERPRETER) pyproject.toml constraints.txt
	$(INSTALL) -e ".[symbolic,view,audit,identify,report]"
	touch $@

.venv/docs.stamp: $(INTERPRETER) pyproject.toml constraints.txt
	$(INSTALL) -e ".[symbolic,view,docs]"
	touch $@

.venv/test.stamp: $(INTERPRETER) pyproject.toml constraints.txt
	$(INSTALL) -e ".[oracles,dev]"
	touch $@
