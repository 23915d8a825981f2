# Commands of a clone. Two are enough for a newcomer: `make demo` and `make test`.
# Needs Python 3.11 or newer, Java 17 or newer, and make; everything else comes from your pip index and Maven.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BESIDE := -n 3
FAST   := "not services and not thorough"
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/python -m pip --disable-pip-version-check

# Tests start hundreds of Python processes; each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast coverage faults mutation lint format docs bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## create .venv with metajournal, all extras and the development tools

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "metajournal needs Python 3.11 or newer, '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "install: making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(VENV)/bin/python
	@echo "install: Python packages (435 MB to download the first time); pip shows its progress"
	@$(PIP) install --editable '.[dev]'
	@mkdir -p $(VENV)/src && ln -sfn ../.. $(VENV)/src/metajournal
	@echo "install: done; next: make demo, or $(BIN)/metajournal up"
	@touch $@

demo: install ## start everything, publish this Python environment, search it, stop everything
	@$(BIN)/metajournal demo

test: install ## run every test (starts a Kafka broker and Elasticsearch if none is given)
	@$(BIN)/python -m pytest $(BESIDE)

test-fast: install ## run the tests without services and fault injection, with a quarter of the examples (a minute or so)
	@METAJOURNAL_EXAMPLES=few $(BIN)/python -m pytest $(BESIDE) -m $(FAST) --ignore tests/faults

coverage: install ## report the line coverage of the tests without services (a minute and a half)
	@METAJOURNAL_EXAMPLES=few $(BIN)/python -m pytest $(BESIDE) -q -m $(FAST) --ignore tests/faults \
	  --cov --cov-report=term:skip-covered --cov-report=html

mutation: install ## change rules and rights in thousands of small ways, and list changes that no test detects (docs/mutation.md)
	@$(BIN)/python -m tests.mutation
	@$(BIN)/python -m tests.mutation --of domains/access

faults: install ## break everything, for up to forty minutes: kills, damage, full disks; prints the seeds
	@METAJOURNAL_FAULTS=long $(BIN)/python -m pytest -v -rP --show-capture=stdout --durations=15 -o faulthandler_timeout=0 \
	  tests/faults tests/streaming/test_stream_kills.py tests/repositories/test_hostile_histories.py \
	  tests/gateway/test_fuzz.py tests/gateway/test_endings.py

lint: install ## check style, formatting and types
	@$(BIN)/ruff check --output-format concise .
	@$(BIN)/ruff format --check --quiet . || { echo "lint: the formatting differs; mend it with: make format"; exit 1; }
	@$(BIN)/mypy -p metajournal
	@$(BIN)/mypy tests $(wildcard bench)

format: install ## format the code
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

docs: install ## generate the reference pages (docs/reference) from the code
	@$(BIN)/python -m docs.generate

bench: install ## run the benchmarks against the limits in docs/benchmarks.md
	@$(BIN)/python -m bench

clean: ## remove generated files (the download cache is kept)
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
