# Everything here starts from a bare clone: it needs make and Python 3.11 or newer, nothing else.
#   make test ARGS='-k tier -x'    hands arguments on to pytest
#   make demo PYTHON=python3.13    picks the interpreter that .venv is made with

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# A file's tests stay together, on one of the two workers and its server.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

DEMO_EXTRAS := embedded,local,demo
DEV_EXTRAS := dev
ALL_EXTRAS := dev,mcp,notebooks,openai
BENCHMARKS := store recall context

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Steps share one .venv and one terminal, so `make -j` runs them in order too.
.NOTPARALLEL:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

# ---- see it work ----------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.demo-stamp ## Show tiered memory at work on a Postgres of its own: no server, no key
	@$(BIN)/langmem-tiers demo

# ---- while developing -----------------------------------------------------------------------

.PHONY: unit
unit: $(VENV)/.dev-stamp ## Run the unit tests: pure rules and flows, no database
	@$(PYTEST) tests/unit $(ARGS)

.PHONY: test
test: $(VENV)/.dev-stamp ## Run all tests but the proofs, on PostgreSQL 18
	@LANGMEM_TIERS_TEST_PG=18 $(PYTEST) $(ARGS)

.PHONY: test-16
test-16: $(VENV)/.dev-stamp ## Run the integration tests on PostgreSQL 16
	@LANGMEM_TIERS_TEST_PG=16 $(PYTEST) tests/integration $(ARGS)

.PHONY: lint
lint: $(VENV)/.dev-stamp ## Check style and formatting
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

.PHONY: types
types: $(VENV)/.dev-stamp ## Check types, strictly
	@$(BIN)/mypy

.PHONY: contracts
contracts: $(VENV)/.dev-stamp ## Check that imports go down only
	@$(BIN)/lint-imports --no-logo --no-cache

.PHONY: format
format: $(VENV)/.dev-stamp ## Rewrite the code in the house style
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

# ---- before handing in ----------------------------------------------------------------------

.PHONY: check
check: lint types contracts test-16 test ## Do all that CI does

.PHONY: proof
proof: $(VENV)/.dev-stamp ## Run every proof at full size (takes long)
	@LANGMEM_TIERS_PROOF=full LANGMEM_TIERS_TEST_PG=18 $(PYTEST) -m proof $(ARGS)

.PHONY: bench
bench: $(BENCHMARKS:%=bench-%) ## Run all benchmarks

.PHONY: bench-store
bench-store: $(VENV)/.dev-stamp ## Measure the store beside its peers
	@$(BIN)/python -m benchmarks.store

.PHONY: bench-recall
bench-recall: $(VENV)/.dev-stamp ## Measure what recall finds beside its peers; FILE=path for your data
	@$(BIN)/python -m benchmarks.recall $(FILE)

.PHONY: fit
fit: $(VENV)/.dev-stamp ## Fit recall's weights; FILE=path for your data
	@$(BIN)/python -m benchmarks.fit $(FILE)

.PHONY: bench-context
bench-context: $(VENV)/.dev-stamp ## Measure get_context beside its SQL and its peer
	@$(BIN)/python -m benchmarks.context

# ---- the environment ------------------------------------------------------------------------

.PHONY: constraints
constraints: ## Refresh constraints.txt to the newest releases that pyproject.toml allows
	@$(PYTHON) -m venv --clear $(VENV)-constraints
	@$(VENV)-constraints/bin/python -m pip install -qq uv -e '.[$(ALL_EXTRAS)]'
	@sed '/^[^#]/d' constraints.txt > constraints.new
	@$(VENV)-constraints/bin/python -m pip freeze --exclude-editable >> constraints.new
	@mv constraints.new constraints.txt
	@rm -rf $(VENV)-constraints

.PHONY: clean
clean: ## Remove the environment, caches and builds
	@rm -rf $(VENV) $(VENV)-constraints build dist .hypothesis .mypy_cache \
	  .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv installs in seconds what takes pip the better part of a minute.
$(VENV)/.venv-stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "Python 3.11 or newer is needed, $(PYTHON) is older: try make PYTHON=/path/to/python3.11")'
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq --no-compile -c constraints.txt uv 2>/dev/null \
	  || echo "uv cannot be installed here: pip does its work, more slowly"
	@touch $@

define install
@echo "Installing langmem-tiers[$(1)] into $(VENV)"
@{ test -x $(BIN)/uv && $(BIN)/uv pip install --quiet --python $(BIN)/python \
  -c constraints.txt -e '.[$(1)]'; } \
  || $(BIN)/python -m pip install -qq --no-compile -c constraints.txt -e '.[$(1)]'
endef

$(VENV)/.demo-stamp: $(VENV)/.venv-stamp pyproject.toml constraints.txt
	$(call install,$(DEMO_EXTRAS))
	@touch $@

$(VENV)/.dev-stamp: $(VENV)/.venv-stamp pyproject.toml constraints.txt
	$(call install,$(DEV_EXTRAS))
	@touch $(VENV)/.demo-stamp $@
