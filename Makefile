# Each target makes .venv, installs what it needs under constraints.txt and does its job; a second call reuses it.
PYTHON ?= python3
CHROMIUM ?= chromium
export CHROMIUM
export OMP_NUM_THREADS := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1

BIN := .venv/bin
BUILT := _build/html _build/.doctrees _build/jupyter_execute # a course below _build stays, with its grades
PYTEST := $(BIN)/python -m pytest -n 2

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help book test test-quick test-long mutants notebooks coursework bench clean chromium

help:
	@echo "make book        build the book into _build/html"
	@echo "make test        check everything once: style, types, imports, package, notebooks, book, browser"
	@echo "make test-quick  the unit tests alone"
	@echo "make test-long   the repetitions: kills by the dozen, every experiment, many more of every random case"
	@echo "make mutants     try whether the quick tests notice small faults; hours, and goes on where it was stopped"
	@echo "make notebooks   run every chapter again, in place"
	@echo "make coursework  lay out the assignments for nbgrader, release them and make the slides"
	@echo "                 [VARIANT=0] [MASTERS=coursework/source] [COURSE=_build/coursework]"
	@echo "make bench       print the benchmark table"
	@echo "make clean       remove what was built (.venv and courses stay)"

book: .venv/book
	rm -rf $(BUILT)
	$(BIN)/jupyter-book build . -n -W --keep-going

test: chromium .venv/test book
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) --dist loadscope --no-loadscope-reorder -m "not long" --nbval --nbval-current-env tests notebooks

test-quick: .venv/test
	$(PYTEST) --dist loadscope -p no:nbval -m "not slow and not long" tests

test-long: .venv/test
	TIMES_AS_MANY_CASES=10 $(PYTEST) --dist worksteal -m "long or hypothesis" tests

mutants: .venv/mutants
	$(BIN)/python -m benchmarks.mutants

notebooks: .venv/book
	$(BIN)/python notebooks/execute.py

VARIANT ?= 0
MASTERS ?= coursework/source
COURSE ?= _build/coursework
coursework: .venv/course
	PYTHONPATH=coursework $(BIN)/python -m grading.course --variant "$(VARIANT)" --masters "$(MASTERS)" --course "$(COURSE)"
	$(BIN)/python book/slides/build.py "$(COURSE)/slides"

bench: .venv/book
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.rerun
	$(BIN)/python -m benchmarks.sweeps

clean:
	rm -rf $(BUILT) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

chromium:
	@command -v $(CHROMIUM) >/dev/null || { \
	echo "make test needs Chromium for the browser tests: apt-get install chromium,"; \
	echo "or name an installed one: make test CHROMIUM=google-chrome"; exit 1; }

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/book .venv/course .venv/test .venv/mutants: .venv/%: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$*]'
	touch .venv/book $@ # the other extras hold the book's
