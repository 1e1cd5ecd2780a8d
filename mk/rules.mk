# How objects, archives, programs, tests and fuzz targets are made.

comma := ,
archive = $(BUILD)/lib/$(subst /,-,$(1)).a
srcs    = $(filter-out %_test.c %_fuzz.c %_testing.c $(foreach p,$(PROGRAMS) paddle-gate,$(main_$(p))),\
    $(wildcard $(1)/*.c))
protos  = $(wildcard $(1)/*.proto)
gen     = $(patsubst %.proto,$(BUILD)/gen/%.pb-c.c,$(call protos,$(1)))
objs    = $(patsubst %.c,$(BUILD)/obj/%.o,$(call srcs,$(1))) \
          $(patsubst %.proto,$(BUILD)/obj/%.pb-c.o,$(call protos,$(1)))
# Asked once a package: a hundred times would be seconds before every make.
pc      = $(if $(PC_$(1)),,$(eval PC_$(1) := $$(shell $(PKG_CONFIG) --libs $(1))))$(PC_$(1))
libs    = $(foreach p,$(sort $(foreach u,$(1),$(pkgs_$(u)))),$(if $(filter -l%,$(p)),$(p),$(call pc,$(p)))) -lm
# Tests are linked by the hundred: mold takes a tenth of the time.  What is shipped is linked by binutils' ld.
# Its RELRO may begin outside of all segments, where .tbss is the end of a page: code has pages of its own.
FAST_LD := $(if $(shell command -v ld.mold),-fuse-ld=mold -Wl$(comma)-z$(comma)separate-code)
group   = -Wl,--start-group $(foreach u,$(1),$(call archive,$(u))) -Wl,--end-group
all_of  = $(1) $(uses_$(1))
built   = $(foreach u,$(call all_of,$(1)),$(call archive,$(u)))
# What tests share, of a folder and of those below it.
support = $(patsubst %.c,$(BUILD)/obj/%.o,$(foreach u,$(call all_of,$(1)),$(wildcard $(u)/*_testing.c)))

# ---- objects ----

compile = $(CC) $(CFLAGS_ALL) $(cflags_$(patsubst %/,%,$(dir $(1)))) $(version_$(subst /,_,$(1)))
# Generated code is held to no warning of ours.
compile_generated = $(CC) $(filter-out -W%,$(CFLAGS_ALL))
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(call compile,$<) -MMD -MP -c -o $@ $<
$(BUILD)/obj/%.pb-c.o: $(BUILD)/gen/%.pb-c.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(compile_generated) -MMD -MP -c -o $@ $<
$(BUILD)/gen/%.pb-c.c: %.proto
	@mkdir -p $(@D)
	@echo "  PROTO $<"
	@protoc-c --c_out=$(BUILD)/gen $<

# Without paths: a release is the same bytes wherever it is built.
BUILT_WITH := $(subst ",,$(filter-out -W% -I% -f%-prefix-map%,$(CFLAGS_ALL)))
version_common_version.c := -DCO_VERSION='"$(VERSION)"' -DCO_BUILD_FLAGS='"$(BUILT_WITH)"'
# Written when make starts, and only when the version or the flags are others.
ifneq ($(shell cat $(BUILD)/gen/version 2>/dev/null),$(VERSION) $(BUILT_WITH))
$(shell mkdir -p $(BUILD)/gen && echo '$(VERSION) $(BUILT_WITH)' >$(BUILD)/gen/version)
endif
$(BUILD)/obj/common/version.o: $(BUILD)/gen/version

# ---- archives, tests and fuzz targets of a folder ----

define unit_rules
# Generated headers come before the folder that includes them.
$$(patsubst %.c,$$(BUILD)/obj/%.o,$$(wildcard $(1)/*.c)): | $(foreach u,$(call all_of,$(1)),$(call gen,$(u)))
$(call archive,$(1)): $(call objs,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	@$(AR) rcs $$@ $$^
$$(BUILD)/test/$(1)/%_test: $$(BUILD)/obj/$(1)/%_test.o $(call support,$(1)) $(call built,$(1))
	@mkdir -p $$(@D)
	@echo "  LD    $$@"
	@$$(CC) -o $$@ $$< $(call support,$(1)) $(call group,$(call all_of,$(1))) $$(LDFLAGS_ALL) $$(FAST_LD) \
	    $(call libs,$(call all_of,$(1))) -Wl,--wrap=_cmocka_run_group_tests -lcmocka
$$(BUILD)/fuzz/$(1)/%_fuzz: $$(BUILD)/obj/$(1)/%_fuzz.o $(call built,$(1))
	@mkdir -p $$(@D)
	@echo "  LD    $$@"
	@clang -o $$@ $$< $(call group,$(call all_of,$(1))) $$(LDFLAGS_ALL) $$(FAST_LD) -fsanitize=fuzzer \
	    $(call libs,$(call all_of,$(1)))
endef
$(foreach u,$(UNITS),$(eval $(call unit_rules,$(u))))

# ---- programs ----

define program_rules
$(BUILD)/bin/$(1): $(patsubst %.c,$(BUILD)/obj/%.o,$(main_$(1))) $(call built,$(2))
	@mkdir -p $$(@D)
	@echo "  LD    $$@"
	@$$(CC) -o $$@ $$< $(call group,$(call all_of,$(2))) $$(LDFLAGS_ALL) $(if $(SANITIZER),$(FAST_LD)) \
	    $(call libs,$(call all_of,$(2)))
endef
unit_of = $(patsubst %/,%,$(dir $(main_$(1))))
$(foreach p,$(PROGRAMS),$(eval $(call program_rules,$(p),$(call unit_of,$(p)))))

$(BUILD)/bin/paddle-gate: $(main_paddle-gate)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(filter-out -fsanitize%,$(CFLAGS_ALL)) -Os -static -s -Wl,--dependency-file=$(BUILD)/gen/$(@F).d -o $@ $<

# What a program links, for tools/check. The gate is static: libc alone.
links-paddle-gate: ;
links-paddlerun-static: links-paddlerun ;
links-%:
	@echo $(sort $(foreach u,$(call all_of,$(call unit_of,$*)),$(pkgs_$(u))))

# ---- stand-ins that tests load ----

# Libraries of GPUs, on which the tests run: the driver; NCCL with all functions and without some.
STANDIN  := $(BUILD)/test/standin
STANDINS := $(addprefix $(STANDIN)/,libcuda.so.1 lacking/libcuda.so.1 \
    libnccl.so.2 plain/libnccl.so.2 lacking/libnccl.so.2)
standin = @mkdir -p $(@D) && echo "  LD    $@" && $(CC) $(filter-out -Wmissing-prototypes,$(CFLAGS_ALL)) \
    -fPIC -shared -fvisibility=hidden $(LDFLAGS_ALL)
$(STANDIN)/libcuda.so.1: tests/nccl/cuda.c tests/nccl/standin.h runtime/train/nccl/cuda_abi.h
	$(standin) -Wl,-soname,libcuda.so.1 -o $@ $<
$(STANDIN)/lacking/libcuda.so.1:
	$(standin) -Wl,-soname,libcuda.so.1 -o $@ -x c /dev/null
$(STANDIN)/plain/libnccl.so.2: standin_flags := -DWITHOUT_ALL_TO_ALL
$(STANDIN)/lacking/libnccl.so.2: standin_flags := -DWITHOUT_ABORT
$(filter %/libnccl.so.2,$(STANDINS)): tests/nccl/nccl.c tests/nccl/standin.h runtime/train/nccl/nccl_abi.h \
    $(STANDIN)/libcuda.so.1
	$(standin) -Wl,-soname,libnccl.so.2 $(standin_flags) -o $@ $< -L$(STANDIN) -l:libcuda.so.1 -lm
# A file system that fails, for LD_PRELOAD.  Without the sanitizers, whose libraries want to be the first.
DISK_LAYER := $(BUILD)/test/disk/layer.so
$(DISK_LAYER): $(wildcard tests/disk/*.[ch]) runtime/train/ckpt/disk_layer_testing.h
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(filter-out -fsanitize% -Wmissing-prototypes,$(CFLAGS_ALL)) -fPIC -shared -fvisibility=hidden -o $@ \
	    $(filter %.c,$^)
$(BUILD)/test/runtime/train/ps/client/disk_test $(BUILD)/test/runtime/tools/inspect/disk_test: $(DISK_LAYER)

# Who runs on real GPUs, too; on the stand-ins alone.
GPU_TESTS := $(addprefix $(BUILD)/test/runtime/train/,coll/gpu_calls_test coll/gpu_fault_test dp/gpu_reducer_test)
$(GPU_TESTS) $(BUILD)/test/runtime/train/coll/gpu_test: $(STANDINS)

# ---- compile_commands.json ----

SOURCES = $(foreach u,$(UNITS),$(wildcard $(u)/*.c))
separator = $(if $(filter $(firstword $(SOURCES)),$(1)),,$(comma))
escaped = $(subst ",\",$(subst \,\\,$(1)))
database_row = {"directory": "$(CURDIR)", "file": "$(1)", "command": "$(call escaped,$(call compile,$(1))) -c $(1)"}
DATABASE ?= compile_commands.json
database:
	$(file >$(DATABASE),[)
	$(foreach f,$(SOURCES),$(file >>$(DATABASE),$(call separator,$(f))$(call database_row,$(f))))
	$(file >>$(DATABASE),])
	@:
