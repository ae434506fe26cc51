# In a fresh clone on a machine with Python 3.11 and make, `make demo` and `make test` do all the
# set-up themselves: a virtual environment in .venv with hash-pinned packages, and the programs of
# the control planes in a cache of this user (built once, about six minutes on two cores).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
COMPILE = $(VENV)/lock/bin/uv pip compile pyproject.toml --python-version 3.11 \
	--generate-hashes --no-header --no-emit-index-url -q
ARGS ?=
PARALLEL = -n logical --dist worksteal
# Each file has a small rig of its own, which mostly waits for the controllers of others: two at once.
# The other tests on rigs run one after the other, as these fill a machine.
REAL = tests/integration/test_real_*.py tests/integration/test_plain_kueue.py

.PHONY: help demo test lint unit binaries bench lock clean

help: ## Say what there is.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(READY) binaries ## Real control planes, Jobs, a live table. ARGS="--jobs 40 --keep"
	@$(BIN)/fedq demo $(ARGS)

test: lint ## Everything that CI checks.
	@$(BIN)/fedq rig binaries --kind >&2
	@$(BIN)/fedq rig binaries --kueue >&2 || echo "without Kueue: its tests are skipped" >&2
	@$(BIN)/fedq rig binaries --controllers >&2 || echo "without controllers of other kinds:" \
		"their tests are skipped" >&2
	@$(BIN)/python -m pytest tests/unit $(PARALLEL) $(ARGS)
	@$(BIN)/python -m pytest tests --ignore=tests/unit $(REAL:%=--ignore-glob=%) $(ARGS)  # in turn
	@$(BIN)/python -m pytest $(REAL) -n 2 --dist loadfile $(ARGS)

lint: $(READY) ## Style, format, types, import contracts.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

unit: $(READY) ## The tests that need no control plane and no patience.
	@$(BIN)/python -m pytest tests/unit tests/contract -m 'not rig and not slow' \
		$(PARALLEL) $(ARGS)

binaries: $(READY) ## Find the programs of the control planes, or build them with progress.
	@$(BIN)/fedq rig binaries >&2

bench: $(READY) binaries ## Dispatch end to end. ARGS="--jobs 500 --workers 2 --json"
	@$(BIN)/python -m bench.dispatch $(ARGS)

lock: $(READY) ## Resolve the requirement files again; LOCK="--upgrade" for newer versions.
	@test -x $(VENV)/lock/bin/uv || { $(PYTHON) -m venv $(VENV)/lock; \
		$(VENV)/lock/bin/python -m pip --disable-pip-version-check install -q uv; }
	@$(COMPILE) $(LOCK) --extra embedded -o requirements/runtime.txt
	@$(COMPILE) $(LOCK) --extra embedded --extra dev -o requirements/dev.txt

clean: ## Remove the environment and all caches of the checkout.
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# Done again when one of the two files changes. setuptools is pinned too, so the editable install
# builds with it instead of fetching another one.
$(READY): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed: apt-get install python3.11 (or set PYTHON=…)" >&2; \
		exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); \
		$(PYTHON) -m venv $(VENV); } || { rm -rf $(VENV); \
		echo "Python's venv module is incomplete: apt-get install python3.11-venv" >&2; exit 1; }
	@echo "installing pinned packages into $(VENV) (about a minute)"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
