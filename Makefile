# Each target sets up what it needs, once, and then does it. ARGS goes to the command:
#   make test ARGS="-k cache"      make demo ARGS="--format markdown"

MAKEFLAGS += --no-print-directory
SHELL := bash
PYTHON3 := .venv/bin/python
ARGS ?=

.PHONY: help setup demo test lint format bench doctor clean
.DEFAULT_GOAL := help

help: ## List the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## Install PHP and bubblewrap if missing, make .venv, fetch WordPress
	@scripts/bootstrap system python sandbox wordpress

demo: setup ## Compare two commits of a small demo suite
	@.venv/bin/refcompare demo $(ARGS)

test: setup ## Run the tests
	@$(PYTHON3) -m pytest $(ARGS)

lint: ## Check Python and PHP: style, types, syntax
	@scripts/bootstrap system python lint
	$(PYTHON3) -m ruff check .
	$(PYTHON3) -m ruff format --check .
	$(PYTHON3) -m mypy
	find php -name '*.php' -print0 | xargs -0 -r -n 1 php -d display_errors=stderr -l >/dev/null
	phpcs

format: ## Rewrite Python and PHP in the house style
	@scripts/bootstrap system python lint
	$(PYTHON3) -m ruff check --fix .
	$(PYTHON3) -m ruff format .
	phpcbf

bench: setup ## Measure: milliseconds per test, seconds per comparison, memory
	@$(PYTHON3) -m benchmarks $(ARGS)

doctor: ## Say what is installed, what is missing, and what mends it
	@scripts/bootstrap python
	@.venv/bin/refcompare doctor $(ARGS)

clean: ## Delete what the targets made in this directory (the WordPress cache stays)
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis refcompare-output
