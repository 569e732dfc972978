# Everything that a developer does here. `make` lists it.
#
# Each target installs what it needs into a virtual environment in .venv, with uv where that is installed and with
# venv and pip otherwise; again when pyproject.toml has changed. The demo needs a fraction of what the rest does.
# To choose the Python: make test PYTHON=python3.13

SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
# More arguments for demo, test, test-all and bench: make test ARGS="-x -k plan"
ARGS ?=
# A file of tests is run by one process, as its tests may share something costly.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

export PYTHON

.DEFAULT_GOAL := help
.PHONY: help demo test test-all eval-env check format docs bench clean

help:  ## List what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO_READY)  ## Watch an agent work in a small window: no key, no network
	@$(BIN)/wane demo $(ARGS)

test: $(READY)  ## Run the tests, on all cores; two or three minutes on two
	@$(PYTEST) $(ARGS)

# The last -m counts: it takes back the one in pyproject.toml.
test-all: $(READY) eval-env  ## Run these and the slow ones: real servers, real clients, many kills, more examples
	@$(PYTEST) -m "" --hypothesis-profile full $(ARGS)

# Harbor, for the tests that run benchmarks, wants a newer Python than Wane does. Without one they skip.
eval-env:
	@sh scripts/eval_env.sh

check: $(READY)  ## Lint, types, docs and generated help
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/check_docs.py
	$(BIN)/python scripts/help_doc.py --check docs/cli.md
	$(BIN)/python scripts/notices_doc.py --check docs/notices.md

format: $(READY)  ## Put the code into its format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## Make docs/cli.md from the command's help, and the tables of docs/notices.md
	$(BIN)/python scripts/help_doc.py docs/cli.md
	$(BIN)/python scripts/notices_doc.py docs/notices.md

bench: $(READY)  ## Measure speed and memory of the core; benchmarks/ has more
	@$(BIN)/python benchmarks/core.py $(ARGS)

clean:  ## Remove the environment and all caches
	rm -rf $(VENV) .venv-eval .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEMO_READY): pyproject.toml scripts/install.sh
	@sh scripts/install.sh $(VENV) agent
	@touch $@

$(READY): pyproject.toml scripts/install.sh
	@sh scripts/install.sh $(VENV) dev
	@touch $@ $(DEMO_READY)
