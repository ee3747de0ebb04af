# Every target sets up its own .venv; a fresh clone needs only make and Python 3.11 or newer.
#   PYTHON=python3.13 make test     use another Python (for a new .venv)
#   make check ARGS="-n auto -x"    hand arguments to pytest

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo check test examples conformance bench lint golden soak

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 13

demo: $(VENV)/.stamp-run ## Watch a few agents share a board
	@$(BIN)/agentmesh demo

check: lint ## Before each commit: format, lint, types, contracts, fast tests
	$(BIN)/python -m pytest -m "not slow and not multiproc and not kill" $(ARGS)

test: lint ## What CI runs: the linters and every test, on all processors
	$(BIN)/python -m pytest -n auto $(ARGS)

examples: $(VENV)/.stamp-dev ## The tests of each project in examples/, in its own environment; needs the network
	$(BIN)/python -m pytest -v tests/examples $(ARGS)

conformance: $(VENV)/.stamp-dev ## The public MCP conformance suite and Inspector, on both fronts; needs npx and the network
	$(BIN)/python -m tests.conformance.run

bench: $(VENV)/.stamp-bench ## Measure, beside other queues
	$(BIN)/python -m benchmarks $(ARGS)

soak: $(VENV)/.stamp-dev ## Strike a board with kills, raised signals, failing system calls and clock jumps, some 15 minutes
	$(BIN)/python -m tests.swarm.soak $(ARGS)

golden: $(VENV)/.stamp-dev ## Write anew what the tests compare with: lists of the MCP server, docs/tools.md, messages of the bench
	$(BIN)/python -m tests.mcp_server.golden
	$(BIN)/python -m tests.plugin.golden

lint: $(VENV)/.stamp-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

$(VENV)/.stamp-run: EXTRAS :=
$(VENV)/.stamp-dev: EXTRAS := [dev]
$(VENV)/.stamp-bench: EXTRAS := [bench]
$(VENV)/.stamp-%: pyproject.toml $(VENV)/pyvenv.cfg
	@echo "Installing AgentMesh$(EXTRAS) into $(VENV) ..."
	@$(INSTALL) --editable '.$(EXTRAS)'
	@touch $@ $(VENV)/.stamp-run

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	{ echo "AgentMesh needs Python 3.11 or newer; name one: make PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	{ echo "$(PYTHON) cannot make a .venv; on Debian: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
