# Everything a contributor or CI runs, one word each. `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
AUDIT := $(VENV)-audit
DOCS := $(VENV)-docs
PYTEST ?= -m pytest
# One more than there are cores: a quarter of the time goes into waiting for files and processes.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() or 1, 7) + 1)')

# The PostgreSQL of `make test-postgres`: 16 or 18 of the wheel, or a version that this machine has.
POSTGRES ?= 16

# Proofs of any store that PostgreSQL must pass too. Those that start it themselves run with the others.
PROVE_POSTGRES := $(addprefix tests/prove/,test_postgres_kills.py test_takeover_time.py test_node_kills.py)

.DEFAULT_GOAL := help
.PHONY: help setup run test test-postgres acceptance check audit docs bench generate prove lock

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with everything in it (PYTHON=… chooses the interpreter, VENV=… another place)

$(STAMP): pyproject.toml requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Holdfast needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up $(VENV) (once; about half a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: -r requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

run: setup ## one prompt through the whole runtime, offline: the model reads a file and answers from it
	@$(BIN)/holdfast run --model demo/echo "What does LICENSE say in its first line?"

# Compiled tests are kept whatever the environment says: compiling them takes each worker 15 seconds.
test: setup ## the test suite, in parallel (no network, under eight minutes on two cores)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python $(PYTEST) -m "not prove and not acceptance" -n $(WORKERS) --dist worksteal

test-postgres: setup ## the same suite with its Sessions in PostgreSQL, which a wheel brings (POSTGRES=18 chooses another)
	@HOLDFAST_TEST_STORE=postgres HOLDFAST_TEST_POSTGRES=$(POSTGRES) PYTHONDONTWRITEBYTECODE= $(BIN)/python $(PYTEST) -m "not prove and not acceptance" -n $(WORKERS) --dist worksteal

acceptance: setup test-postgres ## the suite on PostgreSQL, and what needs node, Chromium, bubblewrap, tmux, PgBouncer or nginx
	@sh tests/acceptance/install-bubblewrap.sh
	@sh tests/acceptance/install-chromium.sh
	@sh tests/acceptance/install-tmux.sh
	@sh tests/acceptance/install-pgbouncer.sh
	@sh tests/acceptance/install-nginx.sh
	@$(BIN)/python tests/acceptance/install_postgres.py
	@$(BIN)/python $(PYTEST) -m "acceptance and not prove" -rs

check: setup ## format, lint, types, layers, drift of generated code
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@PYTHONPATH=src $(BIN)/lint-imports --no-logo
	@$(BIN)/python -m holdfast.client.generate --check
	@$(BIN)/python .ci/tool_schemas.py --check
	@$(BIN)/python .ci/reference.py --check
	@$(BIN)/python .ci/rules.py --check

audit: setup ## known vulnerabilities of the locked dependencies, and a bill of materials in dist/
	@mkdir -p dist
	@$(BIN)/python .ci/sbom.py > dist/holdfast-runtime.cdx.json
	@test -x $(AUDIT)/bin/pip-audit || { $(PYTHON) -m venv $(AUDIT) && $(AUDIT)/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: -r requirements/audit.txt; } || echo "audit: pip-audit could not be installed" >&2
	@$(BIN)/python .ci/audit.py $(AUDIT)/bin/pip-audit

docs: setup $(DOCS)/.ready ## the documentation as a site in build/site; warnings are errors
	@$(BIN)/python .ci/site.py build
	@$(DOCS)/bin/zensical build --strict --clean --config-file build/zensical.toml

$(DOCS)/.ready: requirements/docs.txt
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: -r requirements/docs.txt
	@touch $@

bench: setup ## ratios of one run: the event log against bare SQLite, streams against bare reads
	@$(BIN)/python benchmarks/event_log.py
	@$(BIN)/python benchmarks/stored_sessions.py 2000
	@$(BIN)/python benchmarks/llm.py
	@$(BIN)/python benchmarks/context.py
	@$(BIN)/python benchmarks/tools.py
	@$(BIN)/python benchmarks/search.py
	@$(BIN)/python benchmarks/config.py
	@$(BIN)/python benchmarks/catalog.py
	@$(BIN)/python benchmarks/server.py
	@$(BIN)/python benchmarks/settlement.py
	@$(BIN)/python benchmarks/mentions.py
	@$(BIN)/python benchmarks/children.py
	@$(BIN)/python benchmarks/sandbox.py
	@$(BIN)/python benchmarks/mcp.py
	@$(BIN)/python benchmarks/mcp_client.py
	@$(BIN)/python benchmarks/terminal_start.py
	@$(BIN)/python benchmarks/terminal_typing.py
	@$(BIN)/python benchmarks/terminal.py
	@$(BIN)/python benchmarks/postgres.py

generate: setup ## write the generated clients, the reference pages and the index of the rules anew
	@$(BIN)/python -m holdfast.client.generate
	@$(BIN)/python .ci/tool_schemas.py
	@$(BIN)/python .ci/reference.py
	@$(BIN)/python .ci/rules.py

prove: setup ## slow proofs: kill -9 at random points, nodes that are cut off, long runs (an hour and a half)
	@$(BIN)/python -m pytest -m prove
	@HOLDFAST_TEST_STORE=postgres $(BIN)/python -m pytest -m prove $(PROVE_POSTGRES)

lock: ## write requirements/*.txt anew (needs uv on the PATH)
	uv pip compile pyproject.toml --generate-hashes --no-emit-index-url --universal --python-version 3.11 --no-annotate --no-header -q -o requirements/runtime.txt
	uv pip compile pyproject.toml --group dev --generate-hashes --no-emit-index-url --universal --python-version 3.11 --no-annotate --no-header -q -o requirements/dev.txt
	uv pip compile --group audit --generate-hashes --no-emit-index-url --universal --python-version 3.11 --no-annotate --no-header -q -o requirements/audit.txt
	uv pip compile --group docs --generate-hashes --no-emit-index-url --universal --python-version 3.11 --no-annotate --no-header -q -o requirements/docs.txt
