# The house. `make` alone lists what there is.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$name; break; }; done)
TORCH := torch==2.13.0
BIN := .venv/bin
NATIVE := setup.py $(shell find native -name '*.cpp' -o -name '*.h' -o -name '*.hpp' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup demo docs test mindspore integrations quick check sanitize web page chromium fuzz bench clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: .venv/.installed  ## make .venv with torch, Sonde (editable, with its native parts) and the tools

# The stamps make a second `make setup` a matter of milliseconds. torch first and alone: a large
# download whose version decides everything else.
.venv/.torch:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or later is needed; set PYTHON=" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo 'installing $(TORCH), once; this is a large download'
	$(BIN)/python -m pip install --quiet '$(TORCH)'
	@touch $@

.venv/.installed: .venv/.torch pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs]'
	@touch $@

demo: setup  ## train a small network in which one op goes wrong, and let Sonde find it
	$(BIN)/python examples/demo.py

# The variable silences a line of mkdocs-material about its successor.
docs: setup  ## build the site in build/site: tutorials, how-to, reference, messages, rules
	$(BIN)/python -m tests.docs.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo 'the site is build/site/index.html'

# Three tests at a time, since many wait for a process or a page; those of a file one after the
# other, in one process. If such a process dies, the run ends: with another in its place, it would
# wait for ever.
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations 20 \
	--max-worker-restart 0

test: setup chromium  ## run the tests (ARGS='tests/cli -k run' for some of them)
	$(PYTEST) $(ARGS)

# MindSpore has an environment of its own: it needs other versions of common packages.
MINDSPORE := mindspore==2.10.0
.venv-mindspore/.installed:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or later is needed; set PYTHON=" >&2; exit 2; }
	test -x .venv-mindspore/bin/python || $(PYTHON) -m venv .venv-mindspore
	@echo 'installing $(MINDSPORE), once; this is a large download'
	.venv-mindspore/bin/python -m pip install --quiet '$(MINDSPORE)'
	@touch $@

mindspore: setup .venv-mindspore/.installed  ## make .venv-mindspore and run the tests that train with MindSpore
	SONDE_MINDSPORE=$(CURDIR)/.venv-mindspore $(BIN)/python -m pytest -m mindspore \
		$(or $(ARGS),$$(grep -rl --include='test_*.py' mark.mindspore tests))

# The frameworks and trackers have an environment of their own: trackers need other versions of common packages.
INTEGRATIONS := accelerate==1.15.0 aiohttp ipykernel jinja2 keras==3.15.1 lightning==2.6.6 mcp==2.3.0 mlflow==3.17.2 \
	nbclient==0.11.0 peft==0.21.2 pytorch-ignite==0.5.5 tabulate==0.10.0 tensorboard==2.21.0 trackio==0.43.0 transformers==5.23.0 \
	trl==1.16.0 wandb==0.31.0
.venv-integrations/.installed: pyproject.toml Makefile
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or later is needed; set PYTHON=" >&2; exit 2; }
	test -x .venv-integrations/bin/python || $(PYTHON) -m venv .venv-integrations
	@echo 'installing $(TORCH), frameworks and trackers, once; this is a large download'
	.venv-integrations/bin/python -m pip install --quiet '$(TORCH)' $(INTEGRATIONS) hypothesis jsonschema pytest pytest-timeout
	.venv-integrations/bin/python -m pip install --quiet --editable '.[debugger,query]'
	@touch $@

integrations: .venv-integrations/.installed  ## make .venv-integrations and run the tests with real frameworks and trackers
	.venv-integrations/bin/python -m pytest $(or $(ARGS),tests/integrations)

quick: setup  ## run the tests of what changed since main, but for the slow ones
	$(PYTEST) -m 'not slow' $$($(BIN)/python -m tests.changed)

# The debugger's page is tested in a real browser. Where there is none and none can be installed,
# those tests are skipped.
chromium:
	@for name in chromium chromium-browser google-chrome; do \
		command -v $$name >/dev/null && exit 0; done; \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	|| echo 'make: there is no Chromium; the tests of the page are skipped' >&2

check: setup sanitize page  ## lint, format, types, layers, the page, and the native code under sanitizers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

sanitize: setup
	@if [ -x native/tests/sanitize.sh ]; then native/tests/sanitize.sh $(BIN)/python; fi

web: web/node_modules/.installed  ## build the debugger's page and the reports' script into the package (needs Node 20)
	cd web && npm run --silent build && npx vite build --config vite.report.config.ts

# Without Node the page is only told stale, by tests/web.
page:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web/.checked; \
	else echo 'make: there is no Node; the sources of the page are not checked' >&2; fi

.PHONY: web/.checked
web/.checked: web/node_modules/.installed
	cd web && npm run --silent types && npm run --silent lint && npm run --silent test
	cd web && npm run --silent build -- --logLevel error --outDir ../build/page
	diff -r build/page src/sonde/server/static
	cd web && npx vite build --config vite.report.config.ts --logLevel error --outDir ../build/report
	diff -r build/report src/sonde/report/static

web/node_modules/.installed: web/package-lock.json
	cd web && npm install --no-audit --no-fund --silent
	@touch $@

fuzz: setup  ## read 10,000 damaged files and messages (ARGS='--count 1000 --seed 7')
	$(BIN)/python -W ignore -m tests.fuzz.run $(ARGS)

# The other scripts in benchmarks/ have topics of their own, and documents that name them.
bench: setup  ## measure overhead and throughput, one table a topic, at most 15 minutes (ARGS='--only guard')
	$(BIN)/python benchmarks/bench.py $(ARGS)

clean:  ## remove what was built, measured and cached, but not .venv
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	rm -rf .hypothesis demo_out
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
	find src -name '*.so' -delete
	rm -f .venv/.installed
