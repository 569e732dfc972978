# The tasks of a developer. `make` lists them.
#
# Each target installs what it needs into a virtual environment, with uv if that is installed and otherwise with venv
# and pip, and again when pyproject.toml has changed. To choose the Python: make test PYTHON=python3.13

SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
SITE := .venv-site
RELEASE := .venv-release
# More arguments for demo, test, test-all and bench: make test ARGS="-x -k plan"
ARGS ?=
# A file of tests is run by one process, as its tests may share something costly.
# If a process ends early the run ends too: xdist would wait for the rest of its file forever.
PYTEST := $(BIN)/python -m pytest --quiet --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder \
  --max-worker-restart 0 --timeout 600 --timeout-method signal

export PYTHON
# Tests start hundreds of processes; each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all eval-env check format docs pins site bench release clean

help:  ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO_READY)  ## Watch an agent work in a small window: no key, and no network after the first time
	@$(BIN)/wane demo $(ARGS)

test: $(READY)  ## Run the tests, on all cores; about two minutes on two
	@$(PYTEST) $(ARGS)

# The last -m counts: it takes back the one in pyproject.toml.
test-all: $(READY) eval-env  ## Run all tests: real servers, real clients, many kills, more examples
	@$(PYTEST) -m "" --hypothesis-profile full $(ARGS)

# For the tests that run benchmarks: Harbor needs a newer Python than Wane. Without one they skip.
eval-env:
	@sh research/scripts/eval_env.sh

check: $(READY)  ## Lint, types, docs and generated help
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/check_docs.py
	$(BIN)/python benchmarks/agent_prompt.py --check docs/agent.md
	$(BIN)/python scripts/help_doc.py --check docs/cli.md
	$(BIN)/python scripts/notices_doc.py --check docs/notices.md
	$(BIN)/python scripts/bench_doc.py --check research/docs/bench.md
	$(BIN)/python scripts/pictures.py --check docs/images

format: $(READY)  ## Format the code and fix what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## Write the generated parts of docs/: commands, tables of notices, pictures
	$(BIN)/python scripts/help_doc.py docs/cli.md
	$(BIN)/python scripts/notices_doc.py docs/notices.md
	$(BIN)/python scripts/bench_doc.py research/docs/bench.md
	$(BIN)/python scripts/pictures.py docs/images

pins:  ## Write the versions of the image anew: deploy/constraints.txt; needs uv
	@echo '# The versions with which the image is built; `make pins` writes them anew.' > deploy/constraints.txt
	@uv pip compile --quiet --python-version 3.13 --no-header --no-annotate \
	  --extra proxy --extra redis --extra postgresql --extra otel pyproject.toml >> deploy/constraints.txt

site: $(SITE)/.ready  ## Build the documentation's site and check its links: build/site/index.html
	@$(SITE)/bin/python scripts/site_pages.py build/site-pages
	@$(SITE)/bin/zensical build --strict --clean
	@$(SITE)/bin/python scripts/site_check.py build/site

bench: $(READY)  ## Measure speed and memory of the core; see benchmarks/ for more
	@$(BIN)/python benchmarks/core.py $(ARGS)

release: $(RELEASE)/.ready  ## Build a release into dist/ and check it; publish nothing
	@$(RELEASE)/bin/python scripts/release.py $(ARGS)

clean:  ## Remove the environments, builds and caches
	rm -rf $(VENV) .venv-eval $(SITE) $(RELEASE) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEMO_READY): pyproject.toml scripts/install.sh
	@sh scripts/install.sh $(VENV) agent
	@touch $@

# The site needs none of the other environments: its reference is read from the source.
$(SITE)/.ready: pyproject.toml scripts/install.sh
	@sh scripts/install.sh $(SITE) docs
	@touch $@

$(RELEASE)/.ready: pyproject.toml scripts/install.sh
	@sh scripts/install.sh $(RELEASE) release
	@touch $@

$(READY): pyproject.toml research/pyproject.toml scripts/install.sh
	@sh scripts/install.sh $(VENV) dev dev
	@touch $@ $(DEMO_READY)
