# Everything here starts from a bare clone: it needs make and Python 3.11 or newer, nothing else.
#   make test ARGS='-k tier -x'    hands arguments on to pytest
#   make demo PYTHON=python3.13    picks the interpreter that .venv is made with

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PEERS_VENV := .venv-peers
# A file's tests stay together, on one of three workers and its server; files come in the order
# of tests/conftest.py: a quick one, then the long ones.
PYTEST_OPTIONS := -n 3 --dist loadfile --no-loadscope-reorder
PYTEST := $(BIN)/python -m pytest $(PYTEST_OPTIONS)
PEERS_PYTEST := $(PEERS_VENV)/bin/python -m pytest $(PYTEST_OPTIONS)
# Other files are not even looked at, as they may need what the peers hold back.
PEERS_TESTS = $(shell grep -rl --include='*.py' 'mark\.peers' tests)
# Tests start many a Python: each would compile all that it imports if none might keep the result.
unit test test-slow test-ways test-16 test-peers proof: export PYTHONDONTWRITEBYTECODE =
unit test test-slow test-ways test-16 test-peers proof: export PYTHONPYCACHEPREFIX = $(CURDIR)/$(VENV)/bytecode

DEMO_EXTRAS := cli,embedded,langgraph,local
DEV_EXTRAS := dev
# Packages beside which this one is used, and which hold others back: an environment of their own.
PEERS_EXTRAS := dev,langchain-postgres
PEERS := deepagents langmem
BENCHMARKS := store recall context learning consolidation turn gate life

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Steps share one .venv and one terminal, so `make -j` runs them in order too.
.NOTPARALLEL:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' Makefile

# ---- see it work ----------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.demo-stamp ## Show tiered memory at work on a Postgres of its own: no server, no key
	@$(BIN)/python -m demo

# ---- while developing -----------------------------------------------------------------------

.PHONY: unit
unit: $(VENV)/.dev-stamp ## Run the unit tests: pure rules and flows, no database
	@$(PYTEST) tests/unit $(ARGS)

.PHONY: test
test: $(VENV)/.dev-stamp ## Run the tests, but the slow ones, the proofs and those with peers, on PostgreSQL 18
	@LANGMEM_TIERS_TEST_PG=18 $(PYTEST) -m "not slow and not proof and not peers" $(ARGS)

.PHONY: test-slow
test-slow: $(VENV)/.dev-stamp ## Run the tests that take more than a few seconds each
	@LANGMEM_TIERS_TEST_PG=18 $(PYTEST) -m "slow and not proof and not peers" $(ARGS)

.PHONY: test-ways
test-ways: $(VENV)/.dev-stamp ## Run all these and the slow ones, each in every way: blocking, awaited and streamed
	@LANGMEM_TIERS_TEST_WAYS=all LANGMEM_TIERS_TEST_PG=18 $(PYTEST) $(ARGS)

.PHONY: test-16
# How a version of Postgres plans our statements, sets up, copies and restores, and what it lets
# whom see. All else stands on the same statements, and is tested on one Postgres.
ON_16 := backup carrying consolidation_plans few_of_many gate_plans interop_views leases \
	learning_plans lock_order migrations plans pooler recall recall_plans reminder_plans \
	store_contract store_ttl store_vectors truth_plans turn_plans vectors_elsewhere wall_plans walls

test-16: $(VENV)/.dev-stamp ## Run the tests of statements, setup, copies and walls on PostgreSQL 16
	@LANGMEM_TIERS_TEST_PG=16 $(PYTEST) -m "not proof and not peers and not slow" \
		$(ON_16:%=tests/integration/test_%.py) $(ARGS)

.PHONY: test-peers
test-peers: $(PEERS_VENV)/.dev-stamp ## Run the tests that need langchain-postgres, langmem or deepagents
	@LANGMEM_TIERS_TEST_PG=18 $(PEERS_PYTEST) -m peers $(PEERS_TESTS) $(ARGS)

.PHONY: lint
lint: $(VENV)/.dev-stamp ## Check style and formatting
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

.PHONY: types
types: $(VENV)/.dev-stamp ## Check types, strictly
	@$(BIN)/mypy

.PHONY: contracts
contracts: $(VENV)/.dev-stamp ## Check that imports go down only, and that no file or function is too long
	@$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/python -m benchmarks.package_size --check

.PHONY: sql
sql: $(VENV)/.dev-stamp ## Write the SQL as it is sent to langmem_tiers/postgres/sql/generated.sql
	@$(BIN)/python -m benchmarks.sent_sql

.PHONY: format
format: $(VENV)/.dev-stamp ## Rewrite the code in the house style
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

# ---- before handing in ----------------------------------------------------------------------

.PHONY: check
check: lint types contracts test-16 test-peers test ## Do before handing in; CI runs test-slow as well

.PHONY: proof
proof: $(VENV)/.dev-stamp ## Run every proof at full size (takes long)
	@LANGMEM_TIERS_PROOF=full LANGMEM_TIERS_TEST_PG=18 $(PYTEST) -o faulthandler_timeout=0 -m proof $(ARGS)

.PHONY: measure
measure: $(VENV)/.dev-stamp ## Measure how large and how tangled the package is; ARGS=--check for what is too long
	@$(BIN)/python -m benchmarks.package_size $(ARGS)

.PHONY: bench
bench: $(BENCHMARKS:%=bench-%) ## Run all benchmarks

.PHONY: bench-store
bench-store: $(VENV)/.dev-stamp ## Measure the store beside its peers
	@$(BIN)/python -m benchmarks.store

.PHONY: soak
soak: $(VENV)/.dev-stamp ## Do everything at once for half an hour while servers, workers and clients are killed
	@$(BIN)/python -m benchmarks.soak $(ARGS)

.PHONY: bench-recall
bench-recall: $(VENV)/.dev-stamp ## Measure what recall finds beside its peers; FILE=path for your data
	@$(BIN)/python -m benchmarks.recall $(FILE)

.PHONY: fit
fit: $(VENV)/.dev-stamp ## Fit recall's weights; FILE=path for your data
	@$(BIN)/python -m benchmarks.fit $(FILE)

.PHONY: ordinary
ordinary: $(VENV)/.dev-stamp ## Fetch the ordinary texts that the gate is fitted on (Debian)
	@mkdir -p benchmarks/out/ordinary
	@$(BIN)/python -m pip download --quiet --no-deps -d benchmarks/out/ordinary chatterbot-corpus==1.3.3
	@cd benchmarks/out/ordinary && apt-get download fortunes && dpkg-deb -x fortunes_*.deb .

.PHONY: fit-likeness
fit-likeness: $(VENV)/.dev-stamp ## Fit what the gate tells attacks by; ARGS=--write to ship it
	@$(BIN)/python -m benchmarks.fit_likeness $(ARGS)

.PHONY: bench-context
bench-context: $(VENV)/.dev-stamp ## Measure get_context beside its SQL and its peer, as one tenant grows, and behind the wall
	@$(BIN)/python -m benchmarks.context
	@$(BIN)/python -m benchmarks.growth
	@$(BIN)/python -m benchmarks.walls

.PHONY: bench-learning
bench-learning: $(VENV)/.dev-stamp ## Measure what learning is worth; FILE=folder of real reflexions
	@$(BIN)/python -m benchmarks.learning $(FILE:%=--data %)

.PHONY: bench-consolidation
bench-consolidation: $(VENV)/.dev-stamp ## Measure what consolidation finds and what it costs
	@$(BIN)/python -m benchmarks.consolidation

.PHONY: bench-life
bench-life: $(VENV)/.dev-stamp ## Measure what an agent's model is shown over months; FILE=path for your data
	@$(BIN)/python -m benchmarks.life $(FILE)

.PHONY: bench-turn
bench-turn: $(VENV)/.dev-stamp ## Measure a turn beside what the specifications ask for
	@$(BIN)/python -m benchmarks.turn

.PHONY: bench-gate
bench-gate: $(VENV)/.dev-stamp ## Measure what the gate lets through and what it refuses
	@$(BIN)/python -m benchmarks.gate

# ---- the environment ------------------------------------------------------------------------

.PHONY: constraints
constraints: ## Refresh constraints.txt to the newest releases that pyproject.toml allows
	@$(PYTHON) -m venv --clear $(VENV)-constraints
	@$(VENV)-constraints/bin/python -m pip install -qq uv -e '.[$(DEV_EXTRAS)]'
	@sed '/^[^#]/d' constraints.txt > constraints.new
	@$(VENV)-constraints/bin/python -m pip freeze --exclude-editable >> constraints.new
	@mv constraints.new constraints.txt
	@rm -rf $(VENV)-constraints

# What is there already is kept where it can be: uv starts from the file that it writes to.
.PHONY: constraints-peers
constraints-peers: $(VENV)/.venv-stamp ## Refresh constraints-peers.txt to what goes with constraints.txt
	@sed '/^#/d' constraints.txt > constraints.new
	@printf '%s\n' $(PEERS) | $(BIN)/uv pip compile --quiet --no-header --no-annotate \
	  --extra dev --extra langchain-postgres --no-emit-package langmem-tiers \
	  --output-file constraints.new pyproject.toml -
	@sed '/^[^#]/d' constraints-peers.txt | cat - constraints.new > constraints-peers.new
	@mv constraints-peers.new constraints-peers.txt
	@rm constraints.new

.PHONY: clean
clean: ## Remove the environments, caches and builds
	@rm -rf $(VENV) $(PEERS_VENV) $(VENV)-constraints build dist .hypothesis .mypy_cache \
	  .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv installs in seconds what takes pip the better part of a minute.
%/.venv-stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "Python 3.11 or newer is needed, $(PYTHON) is older: try make PYTHON=/path/to/python3.11")'
	@echo "Creating $(@D)"
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install -qq --no-compile -c constraints.txt uv 2>/dev/null \
	  || echo "uv cannot be installed here: pip does its work, more slowly"
	@touch $@

# Into the environment of the target, under the pins $(1): our extras $(2), and the packages $(3).
define install
@echo "Installing $(strip langmem-tiers[$(2)] $(3)) into $(@D)"
@{ test -x $(@D)/bin/uv && $(@D)/bin/uv pip install --quiet --python $(@D)/bin/python \
  -c $(1) -e '.[$(2)]' $(3); } \
  || $(@D)/bin/python -m pip install -qq --no-compile -c $(1) -e '.[$(2)]' $(3)
endef

$(VENV)/.demo-stamp: $(VENV)/.venv-stamp pyproject.toml constraints.txt
	$(call install,constraints.txt,$(DEMO_EXTRAS))
	@touch $@

$(VENV)/.dev-stamp: $(VENV)/.venv-stamp pyproject.toml constraints.txt
	$(call install,constraints.txt,$(DEV_EXTRAS))
	@touch $(VENV)/.demo-stamp $@

$(PEERS_VENV)/.dev-stamp: $(PEERS_VENV)/.venv-stamp pyproject.toml constraints-peers.txt
	$(call install,constraints-peers.txt,$(PEERS_EXTRAS),$(PEERS))
	@touch $@
