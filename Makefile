# Every target works on a fresh machine with Python 3.11, Go 1.26 and make. Paths are relative, because the path of the
# checkout may have spaces.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help rehearse bench test test-unit lint format docs lock tools clean

PYTHON = build/venv/bin/python
READY = build/venv/.ready
# For every platform and Python 3.11 or newer.
LOCK = $(PYTHON) -m uv pip compile --quiet --universal --python-version=3.11 --generate-hashes
# Keep temporary files of pip and other tools in the checkout.
export TMPDIR = $(CURDIR)/build/tmp

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22
	@echo && echo 'Commands for stacks and rehearsal clouds: ./ackgpu --help'

rehearse: ## run and check the whole stack on a rehearsal cloud, then remove everything
	@./ackgpu rehearse

bench: $(READY) ## compare the program with a flat one and write docs/bench.md (half an hour)
	@$(PYTHON) -m bench

test: $(READY) ## run all tests
	@$(PYTHON) -m pytest tests/unit -n auto
	@$(PYTHON) -m rehearsal.toolchain.build
	@$(PYTHON) -m pytest tests/engine -n 2 --dist loadfile

test-unit: $(READY) ## run the tests that need neither Go nor a cloud
	@$(PYTHON) -m pytest tests/unit -n auto

lint: $(READY) ## check format, style, types, the rehearsal settings and the CI files
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m mypy
	@./ackgpu check --stack rehearsal
	@$(PYTHON) -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(PYTHON) -m check_jsonschema --builtin-schema vendor.renovate .github/renovate.json

format: $(READY) ## format the code
	@$(PYTHON) -m ruff format .
	@$(PYTHON) -m ruff check --fix .

docs: $(READY) ## write the tables in docs/, the keys of Pulumi.yaml and the schema from the models
	@$(PYTHON) -m commands.docs.reference

lock: $(READY) ## lock all Python packages, including indirect ones (UPGRADE=1 upgrades them)
	@$(LOCK) $(if $(UPGRADE),--upgrade) --output-file=requirements.txt requirements.in
	@$(LOCK) $(if $(UPGRADE),--upgrade) --output-file=requirements-dev.txt requirements-dev.in

tools: $(READY) ## make the engine's tools ready, once: released ones, or built from source
	@$(PYTHON) -m rehearsal.toolchain.build

clean: ## remove everything that this checkout created (built tools stay in the cache folder)
	@if test -e $(READY); then ./ackgpu down; fi
	@rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Former names of ./ackgpu commands.
.PHONY: rehearse-up rehearse-down check adopt verify refresh destroy check-exporter
rehearse-up:
	@./ackgpu up
rehearse-down:
	@./ackgpu down
check adopt verify refresh destroy:
	@./ackgpu $@ $(if $(STACK),--stack "$(STACK)") $(if $(WRITE),--write) $(if $(LOAD),--load) $(if $(YES),--yes)
check-exporter:
	@./ackgpu check-exporter $(if $(LABELS),--labels "$(LABELS)") $(if $(DUMP),"$(DUMP)")

build/tmp:
	@mkdir -p build/tmp

$(READY): requirements.txt requirements-dev.txt | build/tmp
	@found=; for candidate in python3.11 python3 python3.12 python3.13 python3.14; do \
	  if command -v "$$candidate" >/dev/null && "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    found="$$candidate"; break; \
	  fi; \
	done; \
	test -n "$$found" || { echo "Python 3.11 or newer is not on PATH. Install it as python3.11 or python3." >&2; exit 1; }; \
	echo "python: creating build/venv with $$found"; \
	"$$found" -m venv --clear build/venv && \
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-cache-dir --require-hashes -r requirements-dev.txt || { \
	  echo "Could not install the Python packages into build/venv. Fix the error above and run the command again." >&2; exit 1; }
	@touch $(READY)
