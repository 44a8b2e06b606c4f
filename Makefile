# Every target does its own set-up into .venv with plain pip; with nothing changed, set-up costs nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: setup demo test check bench chaos clean

setup: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kafkalite needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Installing kafkalite and its tools into $(VENV) (a minute or two the first time) ..."
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[spark,test,check]'
	@$(BIN)/python tools/check_java.py
	@$(BIN)/python tools/install_test_clients.py
	@touch $@

demo: $(READY)
	@$(BIN)/python examples/02_a_broker_that_is_killed.py

test: $(READY)
	$(BIN)/pytest -n auto --dist worksteal

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python benchmarks/codec.py --quick
	$(BIN)/python benchmarks/protocol.py --quick
	$(BIN)/python benchmarks/log.py --quick
	@$(BIN)/pip install --quiet --disable-pip-version-check '.[bench]'
	$(BIN)/python benchmarks/broker.py --quick

chaos: $(READY)
	$(BIN)/pytest tests/chaos --campaign -n auto --dist worksteal

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
