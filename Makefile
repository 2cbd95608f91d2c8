# Two commands for a user: make demo, make test. The rest is for whoever works on it.
# ARGS goes to the command: make demo ARGS="--seconds 120", make bench ARGS=--full

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := .[spark,grafana,dev]
# Installs packages in a third of the time of pip, which serves where there is none for the platform. It keeps no cache:
# PySpark has no wheel, and each install from an index that forbids caching would leave 2 GB more of it.
UV := uv>=0.9,<0.14

# A test says it of the run "unit", which has the same expression.
STARTS_NOTHING := not (alone or browser or cluster or demo or docker or helm or spark or \
  console or containers or incidents or kubernetes or logins or losses or releases)

# Some containers set it; then each process compiles the package anew, and each run of pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all play plan unit lint bench soak versions docs manifests site dist clean

help: ## What there is to make
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "kafka-twin needs Python 3.11 or later as $(PYTHON): install it, or name it: make PYTHON=python3.12" >&2; exit 1; }
	@command -v java >/dev/null || \
	  { echo "kafka-twin needs Java 17 or later: install a JDK, e.g. openjdk-17-jdk-headless" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python cannot make a virtual environment: install its venv module, e.g. python3-venv" >&2; exit 1; }
	@echo "installing Python packages into $(VENV) (Spark is 450 MB, once)"
	@if $(BIN)/pip install -q --disable-pip-version-check '$(UV)' 2>/dev/null; \
	  then $(BIN)/uv pip install -q --no-cache --python $(BIN)/python -e '$(EXTRAS)'; \
	  else $(BIN)/pip install -q --disable-pip-version-check -e '$(EXTRAS)'; fi
	@touch $@

demo: $(READY) ## A local tiered Kafka cluster and its live twin, in one command
	@$(BIN)/kafka-twin demo $(ARGS)

test: $(READY) ## Linters, unit tests, Kafka's own classes, real brokers, Spark, the console
	@$(if $(ARGS),$(BIN)/pytest $(ARGS),$(BIN)/python -m tests.runner)

test-all: $(READY) ## The same, containers, the chart and every group of long tests
	@$(BIN)/python -m tests.runner --all

play: $(READY) ## Runs or groups of tests by name (ARGS="losses chart"; ARGS=--help lists them)
	@$(BIN)/python -m tests.runner $(ARGS)

plan: $(READY) ## What CI would play for this commit, and why (ARGS="--changed FILE ...": for other changes)
	@$(BIN)/python -m tests.runner --plan $(ARGS)

unit: $(READY) ## The tests that start nothing, in minutes
	$(BIN)/pytest -n auto --dist loadfile -m "$(STARTS_NOTHING)" $(ARGS)

lint: $(READY) ## Style, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) ## Figures, one JSON line each (ARGS=--full: 2.8 million replicas; --sizes: what is needed)
	@$(BIN)/python -m tests.bench $(ARGS)

soak: $(READY) ## Faults on five brokers, every prediction judged (ARGS="--minutes 30 --seed 1 --brokers 3"; --fleet: beside other clusters; --life: no faults)
	@$(BIN)/python -m tests.soak $(ARGS)

versions: $(READY) ## Real clusters of other Kafka releases (ARGS="3.5 upgrade"), and docs/compatibility.md
	@$(BIN)/python -m tests.versions $(ARGS)

docs: $(READY) ## Generate pages of docs/, dashboards and alert rules from the code
	$(BIN)/python -m docs.generate
	$(BIN)/python -m grafana
	$(BIN)/python -m deploy.generate

manifests: $(READY) ## deploy/kubernetes as Helm renders it from the chart (ARGS=HELM if it is not on the PATH)
	@$(BIN)/python -m deploy.manifests $(ARGS)

site: $(READY) ## docs/ as a site, in build/site
	@$(BIN)/python -m docs.site $(ARGS)

dist: $(READY) ## Wheel, sdist, chart, bill of materials and checksums, in dist/ (ARGS=--images: images too)
	@$(BIN)/python -m deploy.dist $(ARGS)

clean: ## Remove what was installed and what the demo left
	rm -rf $(VENV) build dist .kafka-twin .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
