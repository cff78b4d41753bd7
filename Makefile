PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Every thread pool of one process stays on one core; the suite and the runs use the cores by running side by side.
export OMP_NUM_THREADS ?= 1

.PHONY: install quick test lint soak mutation demo docs clean

install: $(VENV)/.installed

# torch comes first and alone: with it in place, no other package's looser range pulls a newer build.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt hatchling editables
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[scale,links,dev]'
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The heart of it, while you work: fewer generated examples, and nothing that compiles, exports, starts a process or has
# a million nodes.
SLOW := tests/nn/test_compile.py tests/nn/test_export.py tests/nn/test_distributed.py tests/ops/test_distributed.py tests/ops/triton_backend
quick: install
	MOORING_EXAMPLES=10 $(BIN)/pytest --numprocesses 2 --dist worksteal --quiet tests/ops tests/nn $(SLOW:%=--ignore=%) \
		-k 'not (million or killed or without_mooring)'

test: lint
	MOORING_PRESET=tiny $(BIN)/pytest --nbmake --numprocesses 2 --dist worksteal

# What takes longer than the tests may. It goes on where it stopped; `make soak SOAK='--inputs 2000 --kills 5'` is short.
soak: install
	$(BIN)/python tests/soak/soak.py $(SOAK)

# How many of 300 small faults the tests notice; about an hour on one core.
mutation: install
	nice $(BIN)/python tests/mutation/mutate.py

demo: install
	$(BIN)/mooring run two-radius --preset quick
	$(BIN)/mooring report runs

docs: install
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) .cache runs site report.html look.html
