# Builds of tests, and all that runs them: tests/run counts and prints.

TEST_SRCS := $(foreach u,$(UNITS),$(wildcard $(u)/*_test.c))
FUZZ_SRCS := $(foreach u,$(UNITS),$(wildcard $(u)/*_fuzz.c))
TESTS     := $(patsubst %.c,$(BUILD)/test/%,$(TEST_SRCS))
FUZZERS   := $(patsubst %.c,$(BUILD)/fuzz/%,$(FUZZ_SRCS))
# More builds, each in a folder of its own, by clang, whose warnings are errors, too: memory errors, undefined behaviour
# and, for the fuzzers, what an input reaches; races, in the folders that start threads.  (The library of gcc 12 takes
# twice the time.)  Looking for new inputs goes by comparisons, too, which takes half as much time again.
SAN  := CC=clang SANITIZER=address,undefined CFLAGS=-fsanitize-coverage=inline-8bit-counters,pc-table OPT="-O1 -g1" \
        BUILD=$(BUILD)/san
FUZZ := CC=clang SANITIZER=fuzzer-no-link,address,undefined OPT="-O1 -g1" BUILD=$(BUILD)/fuzzing
TSAN := CC=clang SANITIZER=thread OPT="-O1 -g1" BUILD=$(BUILD)/tsan
THREADED = $(patsubst %/,%,$(sort $(dir $(shell \
    grep -lE 'pthread_create|rt_coll_start' $(addsuffix /*.c,$(UNITS)) 2>/dev/null))))
# But for disk_test, hundreds of processes on a file system that fails, whose threads the others have, too; and
# plan_test, which has one thread, and minutes of arithmetic.
THREADED_TESTS = $(filter-out %/disk_test %/resnet50/plan_test,\
    $(patsubst %.c,$(1)/test/%,$(foreach u,$(THREADED),$(wildcard $(u)/*_test.c))))

tests: $(TESTS)
fuzzers: $(FUZZERS)
threaded: $(call THREADED_TESTS,$(BUILD))
##@ Test
## sanitized races: build with ASan and UBSan, with TSan; WHAT=build/san/test/common/yaml/yaml_test: not all of it
sanitized:
	@+$(SUBMAKE) $(SAN) $(or $(WHAT),all tests fuzzers)
races:
	@+$(SUBMAKE) $(TSAN) $(or $(WHAT),threaded)
# Compiled, for its warnings, and not linked.
objects: $(foreach u,$(UNITS),$(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard $(u)/*.c)) $(call objs,$(u)))
warnings:
	@+$(SUBMAKE) $(SAN) objects
# Names of all of them, for tools/check.
archives: $(foreach u,$(UNITS),$(call archive,$(u)))
	@echo $^
builds: all tests sanitized races
programs:
	@tests/run programs

## quick: a minute: build, unit tests, gates; analysers on what the last commit and the working tree changed
quick: all tests
	@CHECK_COMMITS=1 tests/run targets "unit check"
## test: what CI runs: everything that is tested, once, for TEST_MINUTES (80) at most; last line "N passed, N failed"
# A word is a target here, a group of words a lane: its targets run one after another, lanes side by side.  First all
# that is built, as far as it goes for a fresh machine's processors: then the tests have them.  After so many minutes
# what still runs is ended, and says where it was.  The lanes take about as long, and at any time one of them waits more
# than it computes.
TEST_MINUTES ?= 80
# Packages first: what they bring is looked for when make starts.
test:
	@tools/packages all
	@TEST_MINUTES=$(TEST_MINUTES) tests/run targets "builds" "programs" then \
	    "unit san tsan replay integration" "check e2e paddle-named gpu-test" then "memory"
## nightly: the long forms: all below, faults, soak, fuzzing, bugs put back, analysers on all files
nightly:
	@tools/packages all
	@$(SUBMAKE) -j$$(nproc) builds
	@UNIT_SECONDS=3600 DISK_ALL=1 tests/run unit $(addprefix $(BUILD)/test/runtime/, \
	    train/ps/client/disk_test tools/inspect/disk_test)
	@COLL_HUGE=1 RETURN_ALL=1 KILLS_ALL=1 SIM_ALL=1 tests/run unit $(addprefix $(BUILD)/test/runtime/train/, \
	    coll/calls_test ps/client/return_test ps/client/checkpoint_kill_test) $(BUILD)/san/test/operator/plan/sim_test
	@CASES_ALL=1 tests/run targets "unit check-all san tsan integration integration-plain e2e paddle-test paddle-pods \
	    python-test python-pods tensorboard-test nccl-test gpu-test qemu-test aarch64-test \
	    fuzz hunt chaos soak soak-ps mutants"

## unit: cmocka programs beside the code, as shipped
unit: tests
	@tests/run unit $(TESTS)
## san tsan: the same with ASan and UBSan; tests of folders that start threads, with TSan
san: sanitized
	@tests/run san $(patsubst %.c,$(BUILD)/san/test/%,$(TEST_SRCS))
tsan: races
	@tests/run san $(call THREADED_TESTS,$(BUILD)/tsan)
## hunt: 8 copies of every unit program side by side, in all builds, HUNT_ROUNDS (2) times; HUNT: a part of their paths
HUNTED = $(TESTS) $(patsubst $(BUILD)/%,$(BUILD)/san/%,$(TESTS)) $(call THREADED_TESTS,$(BUILD)/tsan)
hunt: tests sanitized races
	@tests/run hunt $(foreach p,$(HUNTED),$(if $(findstring $(HUNT),$(p)),$(p)))
## replay: fuzz targets on tests/corpus and what a fixed seed makes of it
replay: sanitized
	@tests/run replay $(patsubst %.c,$(BUILD)/san/fuzz/%,$(FUZZ_SRCS))
## fuzz: each fuzz target looks for new inputs for FUZZ_SECONDS (30)
FUZZ_SECONDS ?= 30
fuzz:
	@+$(SUBMAKE) $(FUZZ) fuzzers
	@tests/run fuzz $(FUZZ_SECONDS) $(patsubst %.c,$(BUILD)/fuzzing/fuzz/%,$(FUZZ_SRCS))
## check check-all: gates: layers, doors, prefixes, banned calls, format, drift, analysers on changed files; on all
check: all
	@BUILD=$(BUILD) tests/run check
check-all: all
	@BUILD=$(BUILD) tests/run check --all
## mutants: bugs put back one at a time: tests must see each; BUG: one of `tests/mutants --list`
mutants:
	@tests/run venv && tests/mutants $(if $(BUG),"$(BUG)")

## integration: programs with sanitizers on a real API server
## integration-plain: the same, as shipped
integration: all sanitized
	@tests/run integration $(abspath $(BUILD)/san/bin)
integration-plain: all
	@tests/run integration
## memory: integration tests that measure memory, as shipped
memory: all
	@tests/run memory
## e2e: real one-machine clusters with the shipped images (root)
e2e: all
	@tests/run e2e
## compat: the operator on API servers of Kubernetes 1.28, 1.31 and 1.35 (built once, minutes each)
compat: all
	@tests/run compat
## chaos: faults by moments; SECONDS: begin nothing after so many; SEED: the same again; CELL: one, as fault/moment
chaos: all
	@tests/run venv && build/venv/bin/python tests/chaos/chaos.py $(if $(SECONDS),--seconds $(SECONDS)) \
	    $(if $(SEED),--seed $(SEED)) $(CELL)
## soak: jobs come and go for MINUTES (30): memory and store stay as they are
soak: all
	@tests/run venv && build/venv/bin/python tests/chaos/soak.py $(if $(MINUTES),--minutes $(MINUTES))
## soak-ps: servers and trainers are killed for MINUTES (15): jobs finish with the model of an undisturbed one
soak-ps: all
	@tests/run venv && build/venv/bin/python tests/chaos/soak_ps.py $(if $(MINUTES),--minutes $(MINUTES)) \
	    $(if $(SEED),--seed $(SEED))

##@ Test against others' programs
## paddle-test: real Paddle (two wheels from PyPI, once) under the launcher; PADDLE_PYTHON=A:B: those interpreters
## paddle-named: the same, only where PADDLE_PYTHON is set
## paddle-pods: real Paddle in pods of the local cluster, as docs/train.md has it (root)
paddle-test paddle-named paddle-pods: paddle-%: all
	@tests/run $(@:-test=)
## python-test: paddlert with PyTorch, Paddle, Jupyter (from PyPI, once; TORCH_PYTHON, PADDLE_PYTHON, NOTEBOOK_PYTHON)
python-test: all
	@tests/run python
## python-pods: the same in pods of the local cluster: docs/python.md's job, examples/python (root)
python-pods: all
	@tests/run python-pods
## tensorboard-test: event files of a training, as TensorBoard's own reader reads them (its wheels from PyPI, once)
tensorboard-test: $(BUILD)/bin/wide_and_deep
	@tests/run tensorboard
## gpu-test: collective communication on the GPUs of this machine, where it has any
gpu-test: $(GPU_TESTS)
	@tests/run gpu $^
## qemu-test: loops on emulated processors, without AVX-512 and without all that x86-64 need not have
# Loops, and what files and frames are made of: programs that start no other one and know no clock.
QEMU_TESTS := $(patsubst %.c,$(BUILD)/test/%,$(wildcard \
    common/crc_test.c common/utf8_test.c common/parse_test.c runtime/train/optim/*_test.c \
    runtime/train/ckpt/ckpt_test.c runtime/train/ckpt/sizes_test.c runtime/train/table/narrow_test.c \
    runtime/train/table/store_test.c runtime/train/coll/reduce_test.c runtime/train/dp/golden_test.c \
    examples/nn/*_test.c examples/wide_and_deep/model_test.c examples/word2vec/ngram_test.c \
    examples/recommendation/net_test.c examples/resnet50/lanes_test.c examples/resnet50/image_test.c \
    examples/resnet50/loss_test.c))
qemu-test: $(QEMU_TESTS)
	@bash -c '. deploy/local/lib.sh && need_commands qemu-x86_64=qemu-user'
	@tests/run qemu $^
## aarch64-test: all programs built for aarch64, and the same tests emulated
AARCH64 := $(BUILD)/aarch64
AARCH64_TESTS := $(QEMU_TESTS:$(BUILD)/%=$(AARCH64)/%)
AARCH64_ROOT := $(abspath $(AARCH64))/root
aarch64-test:
	@bash -c '. deploy/local/lib.sh && need_commands qemu-aarch64=qemu-user aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu'
	@tools/sysroot arm64 $(AARCH64_ROOT)
	@+PKG_CONFIG_SYSROOT_DIR=$(AARCH64_ROOT) PKG_CONFIG_LIBDIR=$(AARCH64_ROOT)/usr/lib/aarch64-linux-gnu/pkgconfig \
	    $(SUBMAKE) BUILD=$(AARCH64) CC="aarch64-linux-gnu-gcc --sysroot=$(AARCH64_ROOT)" AR=aarch64-linux-gnu-ar FAST_LD= \
	    $(addprefix $(AARCH64)/bin/,$(PROGRAMS)) $(AARCH64_TESTS)
	@QEMU_LD_PREFIX=$(AARCH64_ROOT) tests/run aarch64 $(AARCH64_TESTS)
## nccl-test: real NCCLs (two wheels from PyPI, 560 MB, once), as far as one goes without a GPU
nccl-test: $(BUILD)/test/runtime/train/coll/gpu_test
	@tests/run nccl $^

.PHONY: tests fuzzers threaded sanitized races objects warnings archives builds programs quick test nightly unit san \
    tsan hunt replay fuzz check check-all mutants integration integration-plain memory e2e compat chaos soak soak-ps \
    paddle-test paddle-named paddle-pods python-test python-pods tensorboard-test gpu-test qemu-test aarch64-test \
    nccl-test
