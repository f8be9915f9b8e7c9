# Two commands do everything: `make demo` and `make test`. Both make the virtual environment .venv when it is missing.
#
#   PYTHON     Python 3.11 or newer for the virtual environment (default: the first suitable one on the PATH)
#   VENV       where the virtual environment is made (default: .venv)
#   PIP_FLAGS  more options for pip install
#   UV_FLAGS   more options for uv pip install in `make lowest`, such as --torch-backend=cpu
#   ARGS       more options for the command that the target runs, such as ARGS="--seed 3"
#   LEVELS     for which x86-64 processors `make dist` compiles kernels, such as "x86-64-v3 x86-64-v4" (default: for this one)
#   WORKERS    how many processes run tests in `make test` (default: 2, each takes up to 2 GB)

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
PIP_FLAGS ?=
ARGS ?=
LEVELS ?=
WORKERS ?= 2
BIN := $(VENV)/bin
BUILD := out/build-env
TOOLS := out/tools-env
HEADERS := $(shell find warp_kernels -name "*.h")
# Folders of tests that launch kernels.
REHEARSED := $(addprefix tests/,actuators collision contact distances dynamics envs physics rays render simulation torch)
# Tests of the C++ headers, and of most kernels of a step.
SANITIZED := tests/kernels/test_sanitizer.py tests/kernels/test_lane_arithmetic.py tests/kernels/test_teams.py \
	tests/dynamics/test_lane_groups.py tests/contact/newton/test_islands.py tests/contact/mujoco/test_against_mujoco.py \
	tests/collision/test_manifolds.py
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_FLAGS)

.DEFAULT_GOAL := help
# Without bytecode every run of the tests would spend another 5 s on their assertions.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test quick lowest rehearse sanitize gpu kernels lint docs links dist package try-package release-check bench bench-robot registers golden pictures clean

help:
	@echo "make demo   install, optimise a throw, write its curve, animation and USD stage under out/throw"
	@echo "make test   install, then linters, type checker and all tests"
	@echo "make quick  part of the linters and of the tests, below a minute; for every commit"
	@echo "make rehearse  part of the tests on the CPU in the way of a GPU: its launch shapes, threads in another order"
	@echo "make sanitize  part of the tests with CPU kernels compiled by clang with its sanitizers; needs clang 17 or newer"
	@echo "make gpu    the tests on a GPU, then benchmarks; in pieces, nine minutes a call"
	@echo "make lint   linters and type checker alone"
	@echo "make docs   the site, with its tutorials run, under out/docs; warnings and broken links are errors"
	@echo "make lowest  part of the tests with the oldest versions of all packages that pyproject.toml allows; needs a network"
	@echo "make links  links of the site to other hosts; needs a network"
	@echo "make package  wheels and sdist under out/dist, with compiled kernels, tried in a bare environment; a bill of materials"
	@echo "make release-check  all that a release does but to publish it, from the last commit, under out/release"
	@echo "make bench  time per step of forward and backward, beside MuJoCo and Pinocchio; JSON under out/bench"
	@echo "make bench-robot  kinematics and dynamics in PyTorch beside Pinocchio, ADAM, BARD, DRM, pytorch_kinematics"
	@echo "make registers  registers and spills of every kernel on a GPU of compute capability 9.0, beside their bounds"
	@echo "make golden  results of the working tree and of the last commit, compared bit for bit; ARGS for another revision"
	@echo "make pictures  the small animations of README and docs; runs all examples"
	@echo "make clean  remove .venv, out and caches"

demo: $(VENV)/.installed-demo
	$(BIN)/python -m examples.throw --out out/throw $(ARGS)

# Each process computes with one thread: more would wait for each other's cores.
test: lint kernels
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(ARGS)

quick: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest --quick $(ARGS)

# What pip installs for a user who has old packages, in an environment of its own. pip takes only the newest; uv can take the oldest.
# Old packages warn that they are deprecated by newer ones beneath them.
lowest:
	$(MAKE) VENV=$(VENV)-lowest $(VENV)-lowest/bin/python
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)-lowest/bin/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct $(UV_FLAGS) \
		-e ".[plot,video,mjcf,decompose,cma,rl,learn,completion,view,rosbag,test,peers]"
	$(VENV)-lowest/bin/python -m pytest --quick -W ignore::DeprecationWarning $(ARGS)

# On the CPU, but launched as on a GPU: see tests/rehearsal.py.
rehearse: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quick --rehearse --numprocesses $(WORKERS) --dist worksteal $(REHEARSED) $(ARGS)

# Kernels of CPUs with clang's sanitizers: see tests/sanitizer.py. Warp's LLVM and Python never free some memory. With
# malloc for small objects of Python, too, their ends are watched.
sanitize: $(VENV)/.installed-test
	LD_PRELOAD=$$($(BIN)/python -m tests.sanitizer) OMP_NUM_THREADS=1 PYTHONMALLOC=malloc UBSAN_OPTIONS=print_stacktrace=1 \
		ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:alloc_dealloc_mismatch=0:new_delete_type_mismatch=0:allow_addr2line=1:external_symbolizer_path=$$(command -v addr2line) \
		$(BIN)/python -m pytest --quick --sanitize --capture=sys -p no:cacheprovider $(or $(ARGS),$(SANITIZED))

# Goes on where the last call stopped.
gpu: $(VENV)/.installed-test
	$(BIN)/python -m bench.gpu $(ARGS)

# The tests need all kernels in both precisions; compiled by two processes first, none is compiled twice.
kernels: $(VENV)/.installed-test
	$(BIN)/backswing warmup --dtype float32 & $(BIN)/backswing warmup --dtype float64 && wait $$!

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(HEADERS)
	$(BIN)/mypy

# Tutorials that haven't changed since the last build aren't run again: their output is kept under out/docs-cache.
# With all kernels compiled first, no output has a line about compilation.
docs: $(VENV)/.installed-docs kernels
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -E -j 2 -d out/docs-cache/doctrees $(ARGS) docs out/docs
	$(BIN)/python -m tests.docs.check_site out/docs

# Links of the site to other hosts: needs a network, and says what other people's servers do, so that CI's verdict doesn't depend on it.
links: $(VENV)/.installed-docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b linkcheck -q -j 2 -d out/docs-cache/doctrees $(ARGS) docs out/links

# Only packages whose hashes are known take part in building. Kernels that are in Warp's cache aren't compiled again.
dist: $(BUILD)/.installed
	rm -rf out/dist
	$(BUILD)/bin/python -m build --no-isolation --quiet --outdir out/dist .
	$(BUILD)/bin/python docs/compiled_wheel.py out/dist $(LEVELS)

package: dist
	$(MAKE) try-package

try-package: $(TOOLS)/.installed
	$(TOOLS)/bin/twine check --strict out/dist/*.whl out/dist/*.tar.gz
	PIP_FLAGS="$(PIP_FLAGS)" $(TOOLS)/bin/python -m tests.docs.bare_environment out/dist

# release.py changes README and pyproject.toml: in a copy.
release-check:
	rm -rf out/release
	mkdir -p out/release
	git archive HEAD | tar -x -C out/release
	cd out/release && $(PYTHON) docs/release.py https://github.com/OWNER/backswing \
		v$$(sed -n 's/^__version__ = "\(.*\)".*/\1/p' sim/version.py) out/notes.md
	$(MAKE) -C out/release package

bench: $(VENV)/.installed-test
	$(BIN)/python -m bench.step --json out/bench/step.json $(ARGS)

bench-robot: $(VENV)/.installed-bench
	$(BIN)/python -m bench.robot --json out/bench/robot.json $(ARGS)

registers: $(VENV)/.installed-test
	$(BIN)/python -m tests.kernels.registers $(ARGS)

# The packages sim and warp_kernels as they are, compared with those of a revision: ARGS="compare --with main".
golden: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.golden $(or $(ARGS),compare --with HEAD)

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Backswing needs Python 3.11 or newer; none was found. Name one: make demo PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than Python 3.11, which Backswing needs"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What builds the packages, and what checks them.
$(BUILD)/.installed: .github/build-requirements.txt
	$(PYTHON) -m venv --clear $(BUILD)
	$(BUILD)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(TOOLS)/.installed: constraints.txt
	$(PYTHON) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check -c $< cyclonedx-bom twine uv
	@touch $@

$(VENV)/.installed-demo: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing Backswing into $(VENV) (some minutes the first time)"
	$(INSTALL) -e ".[plot]"
	@touch $@

$(VENV)/.installed-test: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing Backswing with its test tools and peers into $(VENV) (some minutes the first time)"
	$(INSTALL) -e ".[plot,video,learn,completion,view,rosbag,test,peers]"
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-docs: $(VENV)/.installed-test
	@echo "Installing what the site is made with into $(VENV)"
	$(INSTALL) -e ".[plot,video,view,test,peers,docs]"
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-test
	@echo "Installing the libraries of PyTorch to compare with into $(VENV)"
	$(INSTALL) -e ".[plot,test,peers,bench]"
	@touch $@

pictures: $(VENV)/.installed-test
	$(BIN)/python -m bench.pictures $(ARGS)

clean:
	rm -rf $(VENV) $(VENV)-lowest out build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
