# Everything a contributor or CI runs. Each target sets itself up first (`.venv`, once; then it takes a moment).
#
#   make demo                a claim's whole life against a simulated Proxmox VE        KEEP=1 leaves it running
#   make test                unit, simulation and contract tests                        ARGS="-k name" for some of them
#   make PYTHON=python3.12   another interpreter (3.11 to 3.13)                         VENV=.venv-3.12 in a folder of its own
#
# `make` alone lists the targets.

VENV ?= .venv
PY := $(VENV)/bin/python
ARGS ?=
FOCUS ?=
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help setup test lint verify demo demo-stop kube test-host test-chart test-guest test-image test-kube test-e2e \
        simulate bench docs generate requirements format clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | awk -F '\t' '{ printf "  make %-14s %s\n", $$1, $$2 }'

setup: ## make .venv with the pinned packages (every other target does it too)
	@python=$$(sh tools/find-python.sh) && exec "$$python" tools/bootstrap.py $(VENV)

test: setup ## unit, simulation and contract tests; needs no root and no network
	@$(PY) -m pytest -n 2 --dist worksteal $(ARGS)

lint: setup ## ruff, mypy --strict, import contracts, secrets
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-logo
	@$(PY) -m tools.check_secrets

verify: setup ## generated files, pins, news fragments and the wheel are what they should be
	@$(PY) -m tools.verify
	@$(PY) -m pytest tests/packaging $(ARGS)

demo: setup ## the whole slice on this machine, shown step by step (as root: with real disks)
	@$(PY) -m tests.demo

demo-stop: setup ## end a demo that was left running with KEEP=1
	@$(PY) -m tests.demo --stop

# A suite whose folder has no tests yet says so and succeeds.
define suite
@if [ -n "$$(find tests/$(1) -name 'test_*.py' 2>/dev/null | head -n 1)" ]; then $(PY) -m pytest tests/$(1) $(ARGS); \
else echo "make $@: there are no tests in tests/$(1) yet; nothing to do."; fi
endef

test-host: setup ## real mkfs, mount and grow on loop devices (root)
	$(call suite,host)

test-chart: setup ## the charts: rendering, schema, snapshots, RBAC
	$(call suite,chart)

test-guest: setup ## hot-plug inside a real Linux guest (qemu)
	$(call suite,guest)

test-image: setup ## the images, built and run
	$(call suite,image)

kube: setup ## a real control plane, kubelet and sidecars with our services, until Ctrl-C (root, Go)
	@$(PY) -m tests.kube

test-kube: setup ## our services under that control plane, and csi-sanity (root, Go)
	@$(PY) -m tests.kube.prepare $@ csi-sanity && $(PY) -m pytest tests/kube $(ARGS)

test-e2e: setup ## Kubernetes' External Storage suite there       FOCUS="volume-expand" for some of it
	@$(PY) -m tests.kube.prepare $@ e2e.test && FOCUS='$(FOCUS)' $(PY) -m pytest tests/e2e $(ARGS)

simulate: setup ## the long simulation: SEED=1 OPS=20000
	@if [ -f tests/sim/harness/__main__.py ]; then \
	  $(PY) -m tests.sim.harness --seed $(or $(SEED),1) --ops $(or $(OPS),20000); \
	else echo "make simulate: there is no harness in tests/sim/harness yet; nothing to do."; fi

bench: setup ## request counts and latencies; figures in build/bench.json
	@$(PY) -m pytest tests/bench -rP $(ARGS)

docs: setup ## the generated reference pages
	@if [ -f tools/gen_reference.py ]; then $(PY) -m tools.gen_reference; \
	else echo "make docs: there are no generated pages yet; nothing to do."; fi

generate: setup ## renew everything generated
	@$(PY) -m tools.gen_proto

format: setup ## ruff format and the safe fixes of ruff check
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

requirements: setup ## compile requirements/*.txt anew from pyproject.toml (needs the network)
	@$(PY) -m tools.compile_requirements $(ARGS)

clean: ## remove .venv, caches and build results
	rm -rf $(VENV) $(VENV).lock build dist .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
