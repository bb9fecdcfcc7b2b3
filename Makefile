# Tasks of a checkout; `make` alone lists them. Only python3 and its venv module are needed:
# each task sets up .venv first, where that is missing or older than pyproject.toml.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
ifeq ($(OS),Windows_NT)
BIN = $(VENV)/Scripts
else
BIN = $(VENV)/bin
endif
PY = $(BIN)/python
READY = $(VENV)/.ready
RELEASE = $(PY:$(VENV)/%=build/release/%)
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL = help
.PHONY: help dev hooks check format quick test slow browser golden pages docs bench size lock dist ci clean

help:  ## list the tasks
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 18

dev: $(READY)  ## set up .venv: the checkout, editable, with all that tests and checks need

$(READY): pyproject.toml
	@echo "setting up $(VENV): downloads what tests, checks and documentation use; a few minutes, once"
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet -e '.[test,oracles,browser,dev,docs]'
	@touch $@

hooks: $(READY)  ## let git run the checks before each commit
	$(PY) -m pre_commit install

check: $(READY)  ## lint, format and types, as .ci/run does
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(READY)  ## mend what ruff can mend
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

quick: $(READY)  ## the quick tests, a minute and a half on 2 cores
	$(PYTEST) -q -m quick --ignore-glob='*/test_peers_*'

test: $(READY)  ## all tests but the full sweeps, some 12 minutes on 2 cores
	$(PYTEST)

slow: $(READY)  ## the full sweeps
	$(PYTEST) -m slow

browser: $(READY)  ## the graph page in a headless Chromium
	$(PY) -m pytest -m browser tests/show/test_page*_browser.py

golden: $(READY)  ## write expected outputs anew: tests/golden, README.md, docs
	$(PYTEST) -q --update
	$(MAKE) pages

pages: $(READY)  ## write anew what tools/ generates: pages of docs/, the drawing of imports
	$(PY) tools/make_pages.py
	$(PY) tools/draw_imports.py --write

docs: $(READY)  ## build the documentation into HTML, build/docs/index.html, and check its links
	$(PY) tools/build_docs.py

bench: $(READY)  ## time layers of public networks; BASELINE=before.json compares
	rm -f bench.json && $(PY) tools/bench_regression.py -o bench.json
	$(if $(BASELINE),$(PY) -m pyperf compare_to $(BASELINE) bench.json --table)

size:  ## lines by folder, and the difference to the commit before
	$(PYTHON) tools/size.py

lock: $(READY)  ## write .ci/lock.txt and the SBOM anew, with the newest allowed versions
	.ci/lock

dist:  ## build wheel and sdist twice, with the packages of .ci/lock.txt, and check them
	$(PYTHON) -m venv build/release
	$(RELEASE) -m pip install --quiet --require-hashes --only-binary :all: -r .ci/lock.txt
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(RELEASE) tools/check_distribution.py -o dist

ci:  ## all that must hold before a change lands, in a fresh copy of the checkout
	.ci/run

clean:  ## remove the environment and caches
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache bench.json
