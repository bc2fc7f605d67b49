# Everything a fresh machine needs is python3 (3.11 or newer), pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: constraints demo test test-slow check format bench clean

demo: $(VENV)/core
	$(BIN)/internalize demo

test: $(VENV)/dev
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: $(VENV)/dev
	$(BIN)/python -m pytest -n auto --dist loadfile -m "slow or not slow"

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/dev
	$(BIN)/internalize bench

$(VENV)/core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "internalize needs Python 3.11 or newer; say which one: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing internalize into $(VENV) (once; torch is large) …"
	@$(PIP) --editable .
	@touch $@

$(VENV)/dev: $(VENV)/core
	@echo "Installing what tests and checks need into $(VENV) (once) …"
	@$(PIP) --editable '.[test,check]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Renew the pinned versions: the newest that fit pyproject.toml, torch excepted.
constraints:
	rm -rf .venv-constraints && $(PYTHON) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet 'torch==2.13.0' --editable '.[test,check]'
	.venv-constraints/bin/python -m pip freeze --exclude-editable | sed 's/+cpu//' > constraints.txt
	rm -rf .venv-constraints
