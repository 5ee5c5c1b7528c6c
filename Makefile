# Mailroom. `make help` lists what there is.
VENV := .venv
PYTHON := $(VENV)/bin/python
MANAGE := $(PYTHON) manage.py
# One more than two processors: tests of worker processes wait most of the time.
PYTEST := $(PYTHON) -m pytest -n 3 --dist worksteal
# What is never imported need not be compiled.
PIP_INSTALL := $(VENV)/bin/pip install -q --disable-pip-version-check --no-compile --require-hashes

# The tests start a hundred processes of ours, which need not compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo run test test-long test-all bench chaos check suites suite-sqlite suite-postgresql soak matrix rehearsal requirements-table lock

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime ## Sync, ingest, classify and label sample mail (MAIL=path for your own, ADDRESS=you@… whose it is)
	@$(MANAGE) migrate -v 0
	@$(MANAGE) demo $(if $(MAIL),--mail "$(MAIL)") $(if $(ADDRESS),--address "$(ADDRESS)")

run: $(VENV)/.runtime ## Serve the admin at http://127.0.0.1:8000 with a worker beside it
	@$(MANAGE) migrate -v 0
	@$(MANAGE) runworker & worker=$$!; trap 'kill $$worker' EXIT; \
		$(MANAGE) runserver --noreload 127.0.0.1:8000

test: $(VENV)/.dev ## Lint, types, contracts and the suite on both databases, without its long tests
	@$(MAKE) --no-print-directory --jobs 2 check suites SELECT=--short

test-long: $(VENV)/.dev ## The long tests on both databases: processes, browsers, thousands of cases (three quarters of an hour)
	@$(MAKE) --no-print-directory suites SELECT=--long

test-all: $(VENV)/.dev ## Both at once, as continuous integration does: each suite starts once, not twice
	@$(MAKE) --no-print-directory --jobs 2 check suites

check: $(VENV)/.dev ## Lint, types and contracts
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(MANAGE) makemigrations --check --dry-run
	$(MANAGE) check

suites:
	@$(MAKE) --no-print-directory suite-sqlite
	@$(MAKE) --no-print-directory suite-postgresql

suite-sqlite: $(VENV)/.dev ## The whole suite on SQLite
	DATABASE_URL= $(PYTEST) -q $(SELECT)

suite-postgresql: $(VENV)/.dev ## The whole suite on PostgreSQL: DATABASE_URL's, or one of its own
	$(PYTHON) -m tests.postgres $(PYTEST) -q --database-only $(SELECT)

bench: $(VENV)/.dev ## Measure the queue beside bare SQL, the operators' pages, search, the cost of a mail and a sick mailbox (three quarters of an hour)
	DATABASE_URL= LOG_LEVEL=ERROR $(PYTHON) -m tests.benchmarks.pages
	LOG_LEVEL=ERROR $(PYTHON) -m tests.postgres --durable $(PYTHON) -m tests.benchmarks.pages
	DATABASE_URL= LOG_LEVEL=ERROR $(PYTHON) -m tests.benchmarks.mail
	LOG_LEVEL=ERROR $(PYTHON) -m tests.postgres --durable $(PYTHON) -m tests.benchmarks.mail
	LOG_LEVEL=ERROR $(PYTHON) -m tests.postgres --durable $(PYTHON) -m tests.benchmarks.sick_mailbox
	DATABASE_URL= LOG_LEVEL=ERROR $(PYTHON) -m tests.benchmarks.search
	LOG_LEVEL=ERROR $(PYTHON) -m tests.postgres --durable $(PYTHON) -m tests.benchmarks.search
	DATABASE_URL= $(PYTHON) -m tests.benchmarks.queue
	$(PYTHON) -m tests.postgres --durable $(PYTHON) -m tests.benchmarks.queue
	LOG_LEVEL=ERROR $(PYTHON) -m tests.postgres --durable $(PYTHON) -m tests.benchmarks.transactions

chaos: $(VENV)/.dev ## The tests that have a long form, at length, on both databases
	DATABASE_URL= $(PYTHON) -m pytest --chaos --timeout 3600 -q
	$(PYTHON) -m tests.postgres $(PYTHON) -m pytest --chaos --timeout 3600 -q

soak: $(VENV)/.dev ## Fuzz the API, 20,000 requests as each role (REQUESTS=n); mirror mailboxes, 20,000 operations (OPERATIONS=n); load the queue for 30 minutes (MINUTES=n)
	$(PYTHON) -m tests.postgres $(PYTHON) -m tests.soak.api $(if $(REQUESTS),--requests $(REQUESTS))
	$(PYTHON) -m tests.postgres $(PYTHON) -m tests.soak.mail $(if $(OPERATIONS),--operations $(OPERATIONS))
	$(PYTHON) -m tests.postgres --durable $(PYTHON) -m tests.soak.queue $(if $(MINUTES),--minutes $(MINUTES))

matrix: $(VENV)/.dev ## The queue's tests on Django 5.2, 6.0 and 6.1 with Python 3.12 and 3.13, where they are installed
	$(PYTHON) -m tests.matrix

rehearsal: $(VENV)/.dev ## Workers of another release (RELEASE=tag or commit) beside this tree's, on both databases
	DATABASE_URL= $(PYTHON) -m tests.rehearsal $(RELEASE)
	$(PYTHON) -m tests.postgres $(PYTHON) -m tests.rehearsal $(RELEASE)

requirements-table: $(VENV)/.dev ## Write docs/requirements.md from the tests' markers
	$(PYTHON) -m tests.requirements

lock: $(VENV)/.dev ## Pin requirements with hashes
	$(VENV)/bin/pip-compile -q --upgrade --generate-hashes --no-emit-index-url \
		--no-emit-trusted-host --no-emit-find-links --no-header --strip-extras --allow-unsafe \
		-o requirements/runtime.txt requirements/runtime.in
	$(VENV)/bin/pip-compile -q --upgrade --generate-hashes --no-emit-index-url \
		--no-emit-trusted-host --no-emit-find-links --no-header --strip-extras --allow-unsafe \
		-o requirements/dev.txt requirements/dev.in
	$(PYTHON) -m tests.matrix --lock

$(VENV)/bin/python:
	python3 -m venv $(VENV)

$(VENV)/.runtime: requirements/runtime.txt | $(VENV)/bin/python
	@echo "Installing Mailroom (once) …"
	@$(PIP_INSTALL) -r requirements/runtime.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt | $(VENV)/bin/python
	@echo "Installing what the tests need (once) …"
	@$(PIP_INSTALL) -r requirements/dev.txt
	@touch $@ $(VENV)/.runtime
