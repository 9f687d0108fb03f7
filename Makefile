# The front door. Every target sets up what it needs in .venv by itself; a machine needs only
# Python 3.11 or newer with pip and venv.
#
#   make test ARGS="-k rewind"        arguments for pytest
#   make test ARGS=tests/core         one folder or file, in one process
#   make test PYTHON=python3.13       another interpreter; .venv is made anew

PYTHON ?= python3
ARGS   ?=
JOBS   ?= $(if $(findstring tests/,$(ARGS)),0,3)

VENV   := .venv
BENCH  := .venv-bench
PY     := $(VENV)/bin/python
PIP    := -m pip install --quiet --quiet --disable-pip-version-check
CODE   := $(wildcard src tests benchmarks examples tools)

.DEFAULT_GOAL := help
.PHONY: help demo check test test-full test-thorough faults screens lint fmt bench bench-scale docs-check man page pictures lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.runtime  ## play a small agent's story: checkpoint, rewind, fork, crash, resume
	@$(PY) examples/demo.py $(ARGS)

check: $(VENV)/.dev  ## run the tests that need no process, socket or browser: after each edit
	$(PY) -m pytest --tier check -n $(JOBS) --dist worksteal $(ARGS)

test: $(VENV)/.dev  ## run the tests of everything a change may break: before each commit
	$(PY) -m pytest --tier test -n $(JOBS) --dist worksteal $(ARGS)

test-full: $(VENV)/.dev  ## run all tests, on every backend, with other people's clients
	$(PY) -m pytest --tier full -n $(JOBS) --dist worksteal $(ARGS)

test-thorough: $(VENV)/.dev  ## run all tests, on the disk and with every case where the others take a choice
	CLEW_THOROUGH=1 $(PY) -m pytest -n $(JOBS) $(ARGS)

screens: $(VENV)/.dev  ## write the screens that tests compare anew; look at the difference then
	@test -z "$$CI" || { echo "make screens is for people: a build server compares"; exit 1; }
	CLEW_WRITE_SCREENS=1 $(PY) -m pytest tests/cli $(ARGS)
	git diff --stat -- tests/cli/screens

lint: $(VENV)/.dev  ## check style, format, types and the layers of imports
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)
	$(PY) -m mypy $(CODE)
	$(VENV)/bin/lint-imports --no-logo

fmt: $(VENV)/.dev  ## format the code and fix what can be fixed safely
	$(PY) -m ruff check --fix-only $(CODE)
	$(PY) -m ruff format $(CODE)

# In parts, which are kept: make faults ARGS="--minutes 20", again and again until all are done.
faults: $(VENV)/.dev  ## break the store in every way, for some hours, and report (root)
	$(PY) -m tests.faults $(ARGS); status=$$?; $(PY) -m tests.faults.report && exit $$status

docs-check: $(VENV)/.dev  ## run the code in README and docs
	$(PY) -m pytest tests/docs $(ARGS)

man: $(VENV)/.runtime  ## write the man pages to build/man/man1
	$(PY) -m clew help --man-pages build/man/man1

page: web/node_modules  ## build the page of `clew serve` from web/ (needs Node 20 or newer)
	cd web && npm run --silent build

web/node_modules: web/package.json web/package-lock.json
	cd web && npm install --no-save --no-audit --no-fund --loglevel=error
	@touch $@

pictures: $(VENV)/.dev  ## make docs/pictures from real output (needs chromium)
	$(PY) -m tools.pictures $(ARGS)

bench: $(BENCH)/.ready  ## measure against the peers (in a venv of its own)
	$(BENCH)/bin/python -m benchmarks $(ARGS)

bench-scale: $(BENCH)/.ready  ## PostgreSQL with a million sessions and ten million messages, with a plot
	$(BENCH)/bin/python -m benchmarks.postgres.scale $(ARGS)

lock: $(VENV)/.home  ## renew uv.lock from pyproject.toml (ARGS=--upgrade for newer versions)
	$(PY) $(PIP) uv
	$(PY) -m uv lock --default-index https://pypi.org/simple $(ARGS)

clean:  ## remove the environments and caches
	rm -rf $(VENV) $(BENCH) web/node_modules .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# Environments. The demo gets only what Clew itself needs; the tests add their tools.

$(VENV)/.runtime: $(VENV)/.home pyproject.toml uv.lock tools/pins.py
	@echo "installing Clew in $(VENV)"
	@$(PY) tools/pins.py > $(VENV)/pins.txt
	@$(PY) $(PIP) -c $(VENV)/pins.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "installing the development tools in $(VENV)"
	@$(PY) tools/pins.py dev > $(VENV)/dev.txt
	@$(PY) $(PIP) -c $(VENV)/pins.txt -r $(VENV)/dev.txt
	@touch $@

$(BENCH)/.ready: $(BENCH)/.home pyproject.toml benchmarks/requirements.txt
	@echo "installing Clew and its peers in $(BENCH)"
	@$(BENCH)/bin/python $(PIP) -r benchmarks/requirements.txt -e .
	@touch $@

# An environment is good for one place and one interpreter: a copied or moved checkout, or another
# PYTHON, starts afresh.
home := $(CURDIR) $(PYTHON)
$(foreach env,$(VENV) $(BENCH),$(if $(filter-out $(home),$(shell cat $(env)/.home 2>/dev/null)),$(eval .PHONY: $(env)/.home)))

$(VENV)/.home $(BENCH)/.home:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Clew needs Python 3.11 or newer, which $(PYTHON) is not: name another one with make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments: install its venv package (Debian: python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(@D)
	@echo "$(home)" > $@
