# What a person or a machine runs here. Every target first makes what it needs, in .venv/ and build/, and does
# nothing twice. Needs make and Python 3.11 or newer (`make clean test PYTHON=python3.12` picks one); uses uv
# where it is on PATH, else venv and pip.

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-long test-servers check bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: .venv/.package ## let a team of agents work on real files, then look into its memory
	@.venv/bin/turnlog demo

test: .venv/.group-test ## run the tests (a minute or two)
	@.venv/bin/pytest -n 2 --dist worksteal

test-long: .venv/.group-test ## run the long tests: crashes, many processes, large logs
	@.venv/bin/pytest -m long --timeout 600 -n 2 --dist worksteal

test-servers: .venv/.group-servers ## run the example stores against servers of their own
	@.venv/bin/pytest -m servers

check: .venv/.group-check build/typed/.stamp ## lint, formatting, types
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/basedpyright

bench: .venv/.group-bench ## measure
	@.venv/bin/python -m benchmarks

clean: ## remove everything that can be made again
	rm -rf .venv build dist turnlog.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- the environment, in steps; each leaves a stamp

candidates := $(or $(PYTHON),python3.13 python3.12 python3.11 python3)
recent := import sys; sys.exit(sys.version_info < (3, 11))
# Nothing is said of a step that goes well; of one that fails, everything.
quietly = { $(1); } >.venv/.log 2>&1 || { \
	cat .venv/.log >&2; echo 'Should this repeat itself, begin anew: make clean' >&2; exit 1; }
install = if command -v uv; then uv pip install --python .venv/bin/python --constraint constraints.txt $(1); \
	else .venv/bin/python -m pip install --no-input --constraint constraints.txt $(1); fi

# The first stamp holds the folder's path, since neither the scripts of an environment nor an editable install
# survive a move; one that was moved, or has lost its Python, is made anew.
ifneq ($(shell test -x .venv/bin/python && cat .venv/.python 2>/dev/null),$(CURDIR))
.PHONY: .venv/.python
endif

# An environment made by hand is kept if it will do; one that was interrupted half-way is not.
.venv/.python:
	@if [ ! -e .venv/.python ] && .venv/bin/python -c 'import pip; $(recent)' 2>/dev/null; then \
	    pwd -P >.venv/.python; exit; \
	fi; \
	uv=$$(command -v uv); needed=$${uv:+sys}; found=; \
	for python in $(candidates); do \
	    if "$$python" -c "import $${needed:-ensurepip}; $(recent)" 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ] && { [ -z "$$uv" ] || [ -n "$(PYTHON)" ]; }; then \
	    echo 'turnlog needs Python 3.11 or newer with its venv module (Debian: apt install python3-venv).' >&2; \
	    echo 'None of these is one: $(candidates)' >&2; \
	    exit 1; \
	fi; \
	echo 'Setting up .venv; this takes a minute, once.'; \
	rm -rf .venv && mkdir .venv && echo unfinished >.venv/.python && \
	if [ -n "$$uv" ]; then uv venv --quiet --allow-existing --seed --python "$${found:-3.13}" .venv; \
	else "$$found" -m venv .venv; fi && \
	pwd -P >.venv/.python

.venv/.package: .venv/.python pyproject.toml constraints.txt
	@echo 'Installing turnlog and what it needs into .venv'
	@$(call quietly,$(call install,setuptools))
	@$(call quietly,$(call install,--no-build-isolation --editable .))
	@touch $@

# A dependency group of pyproject.toml. Older pips know no groups, so it is handed over as requirements.
.venv/.group-%: .venv/.package
	@echo 'Installing what `make $*` needs into .venv'
	@.venv/bin/python -c 'import sys, tomllib; \
	    print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"][sys.argv[1]], sep="\n")' \
	    $* >.venv/.requirements
	@$(call quietly,$(call install,--requirement .venv/.requirements))
	@touch $@

# -- the installed package, which is what type checkers resolve `turnlog` to
#
# The wheel comes from a source distribution, as `python -m build` does it: a wheel built in place would take
# in modules that an earlier build left in build/lib.

library := $(filter-out tests/% benchmarks/% docs/% examples/% build/%,$(wildcard */*.py src/turnlog/*))

build/typed/.stamp: .venv/.group-check $(library) $(sort $(dir $(library)))
	@rm -rf build
	@$(call quietly,.venv/bin/python -m build --no-isolation --outdir build/dist .)
	@.venv/bin/python -m zipfile -e build/dist/*.whl build/typed
	@touch $@
