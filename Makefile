PYTHON ?= python3
# A torch index of your choice, e.g. TORCH_INDEX=https://download.pytorch.org/whl/cpu to leave the CUDA packages out.
TORCH_INDEX ?=
BIN := .venv/bin
STAMP := .venv/.installed
EXTRAS := cpu,offline,coreference,ontology,track,spacy,bench,test,dev

# One thread a process: the workers of a run share the machine's cores.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false
# Hundreds of processes import the same modules, which one of them compiles for all.
unexport PYTHONDONTWRITEBYTECODE

# Several processes share the tests: many of them wait.
SHARED := --dist loadscope --no-loadscope-reorder

.PHONY: install quickstart test test-faults check format clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --no-compile -c constraints.txt torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@# An older pip builds seqeval in the virtual environment itself, beside a setuptools too old for that.
	$(BIN)/python -m pip install --no-compile --use-pep517 -c constraints.txt -e ".[$(EXTRAS)]"
	@# On all cores: pip compiles on one. What fails is for other versions of Python.
	$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(BIN)/../lib platform || true
	touch $@

quickstart: $(STAMP)
	$(BIN)/rayner quickstart

test: $(STAMP)
	$(BIN)/python -m pytest -m "not faults" -n 3 $(SHARED) --durations=15

test-faults: $(STAMP)
	$(BIN)/python -m pytest -m faults -n 2 $(SHARED) --durations=15

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
