PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo install test acceptance bench lint format lock clean
.DEFAULT_GOAL := test

$(STAMP): requirements/dev.lock pyproject.toml
	@echo "==> installing into $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

install: $(STAMP)

demo: $(STAMP)
	@scripts/ensure-tools mvn
	@$(BIN)/engram-stream demo $(ARGS)

lint: $(STAMP)
	@echo "==> ruff, mypy"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(STAMP)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

test: $(STAMP)
	@scripts/ensure-tools mvn promtool openssl
	@echo "==> pytest, against Apache Kafka where Kafka is concerned"
	@$(BIN)/pytest

acceptance: $(STAMP)
	@TEST_TURNS=100000 $(BIN)/pytest --durations=0 --durations-min=1 tests/integration/test_main_job.py tests/integration/test_main_job_restarts.py

bench: $(STAMP)
	@scripts/ensure-tools mvn
	@$(BIN)/python -m bench $(ARGS)

lock:
	uv pip compile -q pyproject.toml --group dev --extra local --extra columns --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11 -o requirements/dev.lock

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis dist
