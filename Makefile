# What a person types here: make run, make test. Both set up .venv by themselves.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -q --disable-pip-version-check
ARGS   ?=
THREADS ?= 1

.DEFAULT_GOAL := help
# Two pips in one .venv would race under make -j.
.NOTPARALLEL:
.PHONY: help install test test-all test-float32 lint bench attacks calibrate errata figures run clean

help:
	@echo "make run      redo the paper, claim by claim, in five minutes: report/index.html"
	@echo "make test     run the tests            (make test ARGS='-k recipe' for some of them)"
	@echo "make test-all the tests that take long as well"
	@echo "make test-float32  the part of the tests that also holds in JAX's default precision"
	@echo "make lint     style, types, layers"
	@echo "make bench    benchmarks against peers, ratios on stdout"
	@echo "make calibrate  false alarms and power of the audits, measured (half an hour)"
	@echo "make errata   docs/paper/errata.md again, every figure from the tools"
	@echo "make figures  the pictures that the documentation describes, in figures/"
	@echo "make install  ergodica with its extras lda and plot, and ergodica-paper, in $(VENV)"
	@echo "make clean    delete caches and outputs, keep $(VENV)"

install: $(VENV)/.package

# Two workers on two cores, one thread each. XLA sizes its thread pool by NPROC: on JAX 0.10.2 a large matrix product used
# 1.8 cores without it and 1.0 with it, while --xla_cpu_multi_thread_eigen=false left it at 1.9.
TESTS := test test-all test-float32
$(TESTS): export JAX_PLATFORMS := cpu
$(TESTS): export NPROC := $(THREADS)
$(TESTS): export OMP_NUM_THREADS := $(THREADS)
$(TESTS): export NUMBA_NUM_THREADS := $(THREADS)
$(TESTS): export OPENBLAS_NUM_THREADS := $(THREADS)
$(TESTS): export MPLBACKEND := Agg
$(TESTS): export ERGODICA_COMPILED := $(CURDIR)/$(VENV)/compiled
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not long' $(ARGS)

# `long` is a marker of tests that take tens of seconds and look at what a short one of their kind has looked at already.
test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

test-float32: export ERGODICA_FLOAT32 := 1
test-float32: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not long' tests $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

bench: export JAX_PLATFORMS := cpu
bench: $(VENV)/.bench
	@set -e; for script in $(filter-out benchmarks/attacks.py benchmarks/calibrate.py benchmarks/gaussian_twin.py benchmarks/logistic.py,$(wildcard benchmarks/[!_]*.py)); do \
	    test -e "$$script" || { echo "make bench: no scripts in benchmarks/" >&2; exit 1; }; \
	    echo "== $$script"; $(BIN)/python "$$script"; \
	done

attacks: $(VENV)/.dev
	$(BIN)/python benchmarks/attacks.py $(ARGS)

calibrate: export JAX_PLATFORMS := cpu
calibrate: $(VENV)/.dev
	$(BIN)/python benchmarks/calibrate.py $(ARGS)

errata: export JAX_PLATFORMS := cpu
errata: $(VENV)/.dev
	$(BIN)/python -m ergodica_paper.errata.document $(ARGS)

figures: export JAX_PLATFORMS := cpu
figures: export MPLBACKEND := Agg
figures: $(VENV)/.package
	@mkdir -p figures
	cd examples && ../$(BIN)/ergodica rebuild-curl hmc_sde:sde --plot ../figures/rebuilt_curl_hmc.png
	cd examples && ../$(BIN)/ergodica rebuild-curl hmc_sde:sghmc --plot ../figures/rebuilt_curl_sghmc.png
	$(BIN)/python examples/exact_law.py figures/bias_against_step.png

run: $(VENV)/.package
	$(BIN)/ergodica reproduce --quick --out report

clean:
	rm -rf $(VENV)/compiled report figures build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src paper tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Stamps, newer than the pyproject.toml they were installed from. ergodica-paper brings `ergodica reproduce`.
$(VENV)/.package: pyproject.toml paper/pyproject.toml | $(VENV)/.pip
	@echo "Installing ergodica in $(VENV) (JAX is large: a minute or two the first time) ..."
	@$(PIP) -e '.[lda,plot]' -e ./paper
	@touch $@

$(VENV)/.dev: pyproject.toml paper/pyproject.toml | $(VENV)/.pip
	@echo "Installing ergodica and its development tools in $(VENV) (a minute or two the first time) ..."
	@$(PIP) -e '.[lda,plot,parquet]' -e ./paper --group dev
	@touch $@

$(VENV)/.bench: pyproject.toml paper/pyproject.toml | $(VENV)/.pip
	@echo "Installing ergodica and the peers it is measured against in $(VENV) ..."
	@$(PIP) -e '.[lda,plot]' -e ./paper --group bench
	@touch $@

# Dependency groups need pip 25.1; the one that Python brings may be older.
$(VENV)/.pip: | $(BIN)/pip
	@$(PIP) 'pip>=25.1'
	@touch $@

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "make: $(PYTHON) is not Python 3.11 or newer; name one: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
