PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
# Every thread pool of one process stays on one core; the suite and the runs use the cores by running side by side.
export OMP_NUM_THREADS ?= 1

.PHONY: install native quick test oldest lint soak mutation demo docs wheel clean

install: $(VENV)/.installed

# Two steps. The first installs the extra `suite`, which is enough for the demo; the second adds what only the tests and
# the linters need (Ray, OR-tools, ONNX, Triton, Playwright, the site) and is twice as large. torch comes first and
# alone: with it in place, no other package's looser range pulls a newer build.
INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt
$(VENV)/.suite: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) hatchling editables
	$(INSTALL) --no-build-isolation --editable '.[suite]'
	touch $@

$(VENV)/.installed: $(VENV)/.suite
	$(INSTALL) --no-build-isolation --editable '.[scale,links,meshes,dev]'
	touch $@

# The C++ operators, if there is a compiler; without them tests of them are skipped and everything is slower.
native: $(VENV)/.native
$(VENV)/.native: $(VENV)/.installed $(wildcard native/csrc/* native/mooring_native/* native/*.py native/*.toml)
	command -v c++ > /dev/null || { echo 'no C++ compiler: mooring-native is left out'; exit 0; }; \
		$(BIN)/pip install --quiet --no-build-isolation --force-reinstall --no-deps ./native
	rm -rf native/build native/*.egg-info
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The heart of it, while you work: fewer generated examples, and nothing that compiles, exports, starts a process or has
# a million nodes.
SLOW := tests/nn/test_compile.py tests/nn/test_export.py tests/nn/test_distributed.py tests/ops/test_distributed.py tests/ops/triton_backend
quick: native
	MOORING_EXAMPLES=10 $(BIN)/pytest --numprocesses 2 --dist worksteal --quiet tests/ops tests/nn $(SLOW:%=--ignore=%) \
		-k 'not (million or killed or without_mooring)'

test: lint native
	MOORING_PRESET=tiny $(BIN)/pytest --nbmake --numprocesses 2 --dist worksteal

# The core on the lower bounds of pyproject.toml: `make oldest PYTHON=python3.10` takes the oldest Python as well.
CORE := tests/ops tests/nn tests/models tests/zoo tests/audit tests/theory tests/test_core.py
oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/pytest --numprocesses 2 --dist worksteal $(CORE)

$(OLDEST)/.installed: pyproject.toml requirements-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --requirement requirements-oldest.txt
	$(OLDEST)/bin/pip install --quiet --constraint requirements-oldest.txt --no-build-isolation --editable '.[suite]'
	touch $@

# What takes longer than the tests may. It goes on where it stopped; `make soak SOAK='--inputs 2000 --kills 5'` is short.
soak: native
	$(BIN)/python tests/soak/soak.py $(SOAK)

# How many of 300 small faults the tests notice; about an hour on one core.
mutation: install
	nice $(BIN)/python tests/mutation/mutate.py

demo: $(VENV)/.suite
	$(BIN)/mooring run two-radius --preset quick
	$(BIN)/mooring report runs

docs: $(VENV)/.suite
	$(INSTALL) --no-build-isolation --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# A source distribution and a wheel in dist/.
wheel: $(VENV)/.suite
	rm -rf dist
	$(BIN)/hatchling build

clean:
	rm -rf $(VENV) $(OLDEST) .cache dist runs site report.html look.html
