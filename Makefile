# Needs Python >= 3.11, make and a package index that pip can reach; sets up all the rest.
#
#   make install     bitsect in .venv, and no more: .venv/bin/bitsect, .venv/bin/bisect
#   make demo        find which NumPy releases changed which bits
#   make test        lint, types, import rules, all tests
#   make bench       the figures of docs/figures.md, measured on this machine
#   make lock        write requirements/constraints.txt anew
#   make appliance   the container image of docs/appliance.md; BASE=IMAGE, APPLIANCE=NAME
#   make clean-images   remove what the tests keep on the container engine

# NumPy 1.23 has wheels for Python 3.11 and not for later ones, so that one comes first.
PYTHON := $(or $(PYTHON),$(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	if $$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done))
ifeq ($(strip $(PYTHON)),)
$(error no Python >= 3.11 with its venv module found; name one with PYTHON=/path/to/python)
endif

VENV := .venv
BIN := $(VENV)/bin
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint requirements/constraints.txt
PINS := pyproject.toml requirements/constraints.txt

.PHONY: install demo test lint bench lock appliance clean clean-images

# The oldest NumPy with wheels for this Python: 1.23.5 where there is a choice.
DEMO_GOOD = $(shell $(BIN)/python -c 'import sys; \
	print({11: "1.23.5", 12: "1.26.0", 13: "2.1.0"}.get(sys.version_info[1], "2.3.2"))')

install: $(VENV)/core

demo: $(VENV)/core
	$(BIN)/bisect start "good:venv:torch==2.13.0,numpy==$(DEMO_GOOD)" "bad:venv:torch==2.13.0,numpy==2.4.6"

test: lint
	$(BIN)/python -m pytest

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p bitsect -p tests
	$(BIN)/lint-imports

bench: $(VENV)/dev
	$(BIN)/python -m tests.bench

lock: $(VENV)/dev
	$(BIN)/python requirements/write_constraints.py

# The base as the Dockerfile has it, unless another is given, and the name of what is made.
BASE = $(shell sed -n 's/^ARG BASE=//p' Dockerfile)
APPLIANCE = bitsect
VERSION = $(shell $(BIN)/python -c 'import bitsect; print(bitsect.__version__)')
REVISION = $(or $(shell git describe --always --dirty --abbrev=40 2>/dev/null),unknown)

appliance: $(VENV)/core
	$(BIN)/python requirements/make_wheelhouse.py --base $(BASE) build/appliance
	docker build --network none --build-arg BASE=$(BASE) --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$(REVISION) --tag $(APPLIANCE) .

clean-images: $(VENV)/dev
	$(BIN)/python -m tests.containers.clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: $(PINS) | $(BIN)/python
	$(PIP) pip
	$(PIP) --editable .
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(PIP) --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
