# Commands for people who work on Shoal. `make` alone lists them.
# Every target that needs the environment makes it first, once: .venv/.ready follows pyproject.toml.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.SUFFIXES:

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=

# One numeric thread per library: several processes share the machine in tests and benchmarks.
export OPENBLAS_NUM_THREADS ?= 1
export PYTHONUNBUFFERED ?= 1

# What does without Java: the control plane's own tests, and its benchmarks.
CONTROL := $(addprefix tests/unit/,kernel wire control peer host sim) \
	$(addprefix tests/golden/,test_machines.py test_wire.py) \
	$(addprefix tests/property/,test_directory.py test_gossip_hostile.py test_gossip_partition.py test_wire.py) \
	$(addprefix tests/mutants/,test_ring.py test_directory.py test_gossip.py test_wire_peer.py test_sim_engine.py) \
	tests/sim tests/fuzz \
	$(addprefix tests/system/,test_hosts.py test_played.py test_hostile.py)
BENCH_JAVA := sharing install log

.PHONY: help setup java static check demo test bench sim control spark system races docs update ci clean

help:
	@echo "Shoal: thousands of continuous SQL queries on the Spark you already have."
	@echo
	@echo "  make setup            check Python and Java, make $(VENV)            (minutes, once)"
	@echo "  make check            style, types, the dependency rule, quick tests (no Java)"
	@echo "  make test             everything: static checks, then all tests in one run"
	@echo "  make demo             see it run: streams, queries, results"
	@echo "  make sim SCENARIO=scenarios/churn.toml SEED=7   one simulated run, every event (no Java)"
	@echo "  make control          the control plane whole: simulator, mutants, fuzzers, hosts (no Java)"
	@echo "  make spark            the tests that need a JVM"
	@echo "  make races            owners that race, stall and are killed"
	@echo "  make system           whole processes, as a user starts them"
	@echo "  make bench NAME=log   one benchmark (also: sharing, install; without Java: ring, gossip,"
	@echo "                        seeds; ARGS='--quick' is a smoke run)"
	@echo "  make docs             run every code block, follow every link"
	@echo "  make update           rewrite golden files; then read the diff"
	@echo "  make ci               exactly what continuous integration runs"
	@echo "  make clean            remove what these commands made, but not $(VENV)"
	@echo
	@if [ -e $(READY) ]; then echo "Next: make test"; else echo "Next: make demo"; fi

setup: java $(READY)

java:
	@tools/java_version >/dev/null

$(READY): pyproject.toml tools/setup
	@tools/setup $(VENV)
	@touch $@

static: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

check: static
	$(BIN)/pytest -q -m "not slow and not spark and not races and not system" $(ARGS)

demo: java $(READY)
	@$(BIN)/python -m shoal.cli.demo $(ARGS)

test: java static
	$(BIN)/pytest --durations=15 --durations-min=1 $(ARGS)

sim: $(READY)
	@$(BIN)/shoal sim $(or $(SCENARIO),scenarios) $(if $(SEED),--seed $(SEED) --trace,--until-failure) $(ARGS)

# -raP also shows what passing tests print: how long hosts took to form a ring.
control: $(READY)
	$(BIN)/pytest -q -raP -m "not spark" $(CONTROL) $(ARGS)

spark: java $(READY)
	$(BIN)/pytest -m spark $(ARGS)

races: java $(READY)
	$(BIN)/pytest -m races $(ARGS)

system: java $(READY)
	$(BIN)/pytest -m system $(ARGS)

bench: $(if $(filter $(BENCH_JAVA),$(NAME)),java) $(READY)
	@if [ -z "$(NAME)" ]; then \
		echo "say which: make bench NAME=ring | gossip | seeds | sharing | install | log"; exit 2; fi
	@$(BIN)/python -m benchmarks.$(NAME) $(ARGS)

docs: java $(READY)
	$(BIN)/pytest tests/repo/test_docs.py $(ARGS)

update: $(READY)
	$(BIN)/pytest -q --update -m "not slow and not spark and not races and not system" tests/unit tests/property tests/golden $(ARGS)
	$(BIN)/python tools/diagrams.py
	git diff --stat -- tests/golden docs/protocols

ci:
	.ci/run

clean:
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist spark-warehouse
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
