# Everything runs in .venv, which is made on first use and renewed when pyproject.toml or the pins change. The demo installs what
# it needs and no more; tests, docs and the rest add theirs when they are first asked for. uv is used where it is there.
# Another interpreter: make PYTHON=/path/to/python3.12 test. Some tests only: make test TESTS=tests/core.

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
PINS := requirements/constraints.txt
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
# Only the plugins that are used: else pytest rewrites every file of the packages that bring one, 10 s for each worker.
PLUGINS := -p timeout -p xdist
export PYTEST_DISABLE_PLUGIN_AUTOLOAD := 1
TESTS ?=
UV := $(shell command -v uv 2>/dev/null)
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet
INSTALL = $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python $(PIP_INSTALL)) -c $(PINS)
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	{ echo "linoto needs Python 3.11 or newer, and $(PYTHON) is not: name one with make PYTHON=..." >&2; exit 1; }
export NO_MKDOCS_2_WARNING := 1
# Some containers forbid bytecode. Every start of Python would then compile everything again, and the tests start many.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow test-all drill coverage lint format types docs docs-serve bench dist lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DEMO_READY) ## real flights: who may take over, and at what risk
	@$(BIN)/linoto demo

# Each worker takes whole files until it is idle, then tests of the others. One more than two cores have to do:
# many tests of the service wait for a server, a lock or a pause.
WORKERS ?= 3
test: $(READY) ## the tests, the examples in docstrings, the snippets of the docs
	@$(BIN)/pytest $(PLUGINS) -n $(WORKERS) --dist worksteal $(TESTS)

# MARK=cell: only the cells of matrices of which make test runs some.
MARK ?= slow
test-slow: $(READY) ## the tests that take minutes
	@$(BIN)/pytest $(PLUGINS) -n $(WORKERS) --dist worksteal -m "$(MARK)" $(TESTS)

# Pythons are found by name, then where pyenv keeps them: make test-all PYTHONS="/opt/python3.12/bin/python3"
PYTHONS ?= $(foreach version,3.11 3.12 3.13,python$(version)) \
	$(wildcard $(foreach version,3.11 3.12 3.13,$(shell pyenv root 2>/dev/null)/versions/$(version).*/bin/python))

test-all: ## the tests on every Python that this machine has
	@set -e; done=""; for python in $(PYTHONS); do \
	version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	case "$$done" in *" $$version"*) continue;; esac; \
	echo "== Python $$version"; \
	$(MAKE) --no-print-directory test PYTHON=$$python VENV=.venv-$$version; \
	done="$$done $$version"; done; \
	[ -n "$$done" ] || { echo "no Python 3.11, 3.12 or 3.13 found: name some with PYTHONS=..." >&2; exit 1; }; \
	echo "tested on Python$$done"

# DRILL="--seconds 30 --seed 7": as python -m helpers.drill --help says.
drill: $(READY) ## three servers on PostgreSQL, killed, paused and cut off for two minutes
	@PYTHONPATH=tests $(BIN)/python -m helpers.drill $(DRILL)

coverage: $(READY) ## which lines the tests reach, into htmlcov/
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(PLUGINS) -n 2 --dist worksteal $(TESTS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage html --quiet
	@$(BIN)/coverage report --format=total | sed 's/^/percent of lines and branches: /'
	@echo "wrote htmlcov/index.html"

lint: $(READY) ## style, format and the dependency rule
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo --no-cache

format: $(READY) ## put code in the agreed format
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

types: $(READY) ## mypy, strict
	@$(BIN)/mypy

docs: $(READY) ## build the site into site/
	@$(BIN)/mkdocs build --strict --quiet
	@echo "wrote site/index.html"

docs-serve: $(READY) ## the site on this machine, renewed as you write
	@$(BIN)/mkdocs serve

bench: $(READY) ## speed, as ratios measured in one run
	@$(BIN)/python benchmarks/core.py

# The smoke test runs outside the checkout, so that it can only find the installed wheel.
define SMOKE
import linoto
agent = linoto.LinOtO().start([[1.0, 0.0], [0.0, 1.0]], linoto.Offline(pulls=[9, 1], reward_sums=[6.0, 0.0]), rng=0)
agent.update(agent.decide(), 1.0)
endef
export SMOKE

dist: $(READY) ## build the wheel and try it in an empty environment
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation > /dev/null
	@echo "trying the wheel in an empty environment"
	@set -e; wheel=$$(ls $(CURDIR)/dist/*.whl); pins=$(CURDIR)/$(PINS); python=$(CURDIR)/$(BIN)/python; \
	empty=$$(mktemp -d); trap 'rm -rf "$$empty"' EXIT; cd "$$empty"; \
	"$$python" -m venv venv; venv/bin/python $(PIP_INSTALL) -c "$$pins" "$$wheel"; \
	venv/bin/linoto --version; venv/bin/python -c "$$SMOKE"
	@ls dist/*

lock: ## renew the pins from what the package index offers today
	@$(CHECK_PYTHON)
	@echo "resolving every dependency afresh (some minutes)"
	@set -e; empty=$$(mktemp -d); trap 'rm -rf "$$empty"' EXIT; \
	$(PYTHON) -m venv "$$empty/venv"; \
	"$$empty/venv/bin/python" $(PIP_INSTALL) ".[all,dev,docs]"; \
	{ sed -n '/^#/p' $(PINS); \
	  "$$empty/venv/bin/python" -m pip freeze --exclude linoto --exclude pip --exclude setuptools; } > "$$empty/pins"; \
	cp "$$empty/pins" $(PINS)
	@echo "wrote $(PINS): run make test before you commit it"

clean: ## remove everything that was made here
	@rm -rf .venv .venv-3.* .benchmarks dist build site htmlcov linoto-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find linoto tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@$(CHECK_PYTHON)
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(DEMO_READY): pyproject.toml $(PINS) | $(BIN)/python
	@echo "installing what the demo needs (less than a minute)"
	@$(INSTALL) hatchling
	@$(INSTALL) --no-build-isolation -e ".[figures,logs]"
	@touch $@

$(READY): pyproject.toml $(PINS) | $(BIN)/python
	@echo "installing what tests, docs and the service need (one or two minutes)"
	@$(INSTALL) hatchling
	@$(INSTALL) --no-build-isolation -e ".[all,dev,docs]"
	@touch $@ $(DEMO_READY)
