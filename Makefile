# Everything a person does with a checkout. Needs python3 >= 3.11 and make, nothing else.

PYTHON ?= python3
ARGS ?=

venv := .venv
bin := $(venv)/bin
comma := ,

.PHONY: help demo run test lint bench messages requirements

help:
	@echo "make demo          a real engine, one measured run, and the dashboard (ARGS=--once: end after the run)"
	@echo "make run           the dashboard"
	@echo "make test          all tests (ARGS are pytest's)"
	@echo "make lint          ruff, mypy and import-linter"
	@echo "make bench         the benchmarks, each beside its yardstick"
	@echo "make messages      the catalogues of other languages, after a text has changed"
	@echo "make requirements  pin all dependencies anew in requirements.txt"

demo: $(venv)/with-demo
	@$(bin)/roofmark demo $(ARGS)

run: $(venv)/with-postgres
	@$(bin)/roofmark serve $(ARGS)

# all of them on every core; a few of them faster without
test: $(venv)/with-demo+test
	@$(bin)/python -m pytest $(if $(ARGS),$(ARGS),--numprocesses auto)

lint: $(venv)/with-lint+test
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/lint-imports

bench: $(venv)/with-demo+test
	@$(bin)/python -m tests.bench $(ARGS)

messages: $(venv)/with-demo+test
	@$(bin)/python -m tests.messages

# ARGS=--upgrade takes the newest version of everything
requirements: $(bin)/python
	$(bin)/python -m pip install --quiet uv
	$(bin)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --no-emit-index-url --quiet --output-file requirements.txt $(ARGS)

# One stamp for each set of extras: `with-demo+test` stands for `.[demo,test]`.
$(venv)/with-%: pyproject.toml $(venv)/pins.txt
	@echo "Installing Roofmark with $(subst +, and ,$*) into $(venv) ..."
	@$(bin)/python -m pip install --quiet --disable-pip-version-check \
		--constraint $(venv)/pins.txt --editable '.[$(subst +,$(comma),$*)]'
	@touch $@

# pip checks hashes only when no local project is installed with them, so here the versions alone count
$(venv)/pins.txt: requirements.txt | $(bin)/python
	@sed -n 's/ *\\$$//; /^[a-z0-9]/p' requirements.txt > $@

$(bin)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Roofmark needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "This Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(venv) || { rm -rf $(venv); exit 1; }
