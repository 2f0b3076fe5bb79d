# Slackwater. Start with `make demo` and `make test`; each sets up what it needs, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KAFKA := 4.3.1
OLD_KAFKA := 3.9.2
WORKERS ?= 3
RUNS ?= 5000
SEED ?= 1000000
SEQUENCES ?= 30
FAULTS ?= 60
MINUTES ?= 10
COVERED := tests/group tests/conformance

# The tests start hundreds of Python processes; without bytecode each of them would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup jars gobin tools demo test check lint format docs bench soak chaos peers interop transcripts lock package clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

setup: $(VENV)/.ready jars gobin tools ## Create .venv with the locked packages, fetch Kafka's jars, build the Go client

$(VENV)/.ready: pyproject.toml requirements.lock
	@echo "== setting up $(VENV) (Python packages at the versions of requirements.lock)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "slackwater: $$($(PYTHON) --version 2>&1) is too old; 3.11 or newer is needed. Use: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@PIP_CONSTRAINT=requirements.lock $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

jars: ## Fetch the jars of Apache Kafka and of Spark's Kafka source, for the comparison tests
	@sh scripts/jars.sh "Apache Kafka $(KAFKA)" kafka-$(KAFKA) interop/pom.xml
	@sh scripts/jars.sh "Apache Kafka $(OLD_KAFKA)" kafka-$(OLD_KAFKA) interop/kafka-3.9/pom.xml
	@sh scripts/jars.sh "Spark's own Kafka source" spark-kafka interop/spark-kafka/pom.xml

gobin: ## Build the program of the Go client franz-go, for the tests with stock clients
	@sh scripts/gobin.sh

tools: ## Under CI=true, install Chromium and promtool for the tests that use them
	@sh scripts/tools.sh

demo: $(VENV)/.ready ## Spark applications share a topic, scale out, deploy, crash; a rebalance storm and its fix (two minutes)
	@$(BIN)/slackwater demo

test: setup lint ## Run every check, and the tests that fit into nine minutes
	@echo "== tests of group/, with its branch coverage; coverage takes two thirds more time, so the other tests run without"
	@rm -f .cache/proven.json; mkdir -p .cache
	@SLACKWATER_PROVEN=.cache/proven.json $(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report= $(COVERED)
	@$(BIN)/coverage report --include='*/slackwater/group/*' --fail-under=95
	@echo "== all other tests"
	@SLACKWATER_PROVEN=.cache/proven.json $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --durations=10 $(COVERED:%=--ignore=%) tests
	@echo "== facts of the behaviour catalogue"
	@$(BIN)/python scripts/conformance.py --from .cache/proven.json

check: lint ## Lint, types, import rules, generated docs, and facts of the catalogue without a passing test
	@echo "== facts of the behaviour catalogue"
	@$(BIN)/python scripts/conformance.py

lint: $(VENV)/.ready ## Style, types, import rules, generated docs
	@echo "== ruff"
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .
	@echo "== mypy --strict"
	@$(BIN)/mypy
	@echo "== import rules"
	@$(BIN)/lint-imports --no-cache | tail -n 2
	@echo "== generated documentation"
	@$(BIN)/python scripts/docs.py --check

format: $(VENV)/.ready ## Format the code
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet .

docs: $(VENV)/.ready ## Write the generated pages of docs/
	@$(BIN)/python scripts/docs.py

bench: setup ## Measure next to the peers and write docs/benchmarks.md (25 minutes; make bench FULL=1 for everything)
	@$(BIN)/python -m benchmarks.run $(if $(FULL),--full)

soak: $(VENV)/.ready ## Long random tests: make soak RUNS=100000 SEQUENCES=50 FAULTS=200 SEED=7
	@$(BIN)/slackwater soak --runs $(RUNS) --seed $(SEED)
	@echo "== transactions in the simulator"
	@SLACKWATER_SIM_RUNS=$$((20 * $(RUNS))) $(BIN)/python -m pytest -q -n $(WORKERS) tests/sim/test_transactions.py
	@echo "== random actions on running groups while a producer writes"
	@$(BIN)/python -m tests.sequence --runs $(SEQUENCES) --seed $(SEED)
	@echo "== Spark applications that write exactly once, while they are killed and restarted"
	@EXACTLY_ONCE_FAULTS=$(FAULTS) EXACTLY_ONCE_RECORDS=$$((2000 * $(FAULTS))) EXACTLY_ONCE_SEED=$(SEED) \
	  $(BIN)/python -m pytest -q -k slackwater tests/interop_heavy/test_spark_exactly_once.py

chaos: $(VENV)/.ready ## Random faults and hostile requests against a broker: make chaos MINUTES=60 SEED=7
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) --seed $(SEED)

peers: ## Install the clients of interop: Kerberos, kcat, Sarama, KafkaJS, Kafka Streams and Connect
	@KAFKA=$(KAFKA) sh scripts/peers.sh

interop: setup peers ## Tests with Apache Kafka and more clients that take too long for every run
	@echo "== comparison with Kafka's own classes and tools, and the checks of make test with more clients and versions"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "java or repetition" \
	  --ignore=tests/interop_heavy --ignore=tests/system tests
	@echo "== kcat, Sarama, KafkaJS, Kafka Streams and Connect, Spark groups, the demo with Spark"
	@$(BIN)/python -m pytest -rs tests/interop_heavy
	@echo "== simulator: several times as many random runs as in make test"
	@SLACKWATER_SIM_RUNS=2400 SLACKWATER_SPARK_SCHEDULES=2100 $(BIN)/python -m pytest -n $(WORKERS) \
	  tests/sim/test_soak.py tests/sim/test_spark_schedules.py
	@echo "== Kafka's system tests of consumer groups"
	@$(BIN)/python -m pytest -rs tests/system

transcripts: setup ## Record the conformance transcripts from a running Apache Kafka (two minutes, an idle machine)
	@$(BIN)/python scripts/record_transcripts.py
	@$(BIN)/python scripts/record_acl_transcripts.py

lock: $(VENV)/.ready ## Resolve versions and write requirements.lock
	@sh scripts/lock.sh $(BIN)

package: $(VENV)/.ready ## Build wheel and sdist, install each in an empty environment and use it
	@sh scripts/package.sh $(BIN)

clean: ## Remove everything that setup created
	@rm -rf $(VENV) .jars .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist src/*.egg-info
