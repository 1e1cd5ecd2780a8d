# The training library, and the launcher with all that it needs inside.

# For images of others, whatever C library they have, and for the wheel.
LAUNCHER = $(call all_of,runtime/launch/cmd)
static_libs = $(patsubst -luv,-l:libuv_a.a,$(filter-out -lp11-kit,$(sort $(shell \
    $(PKG_CONFIG) --static --libs $(filter-out -l%,$(foreach u,$(1),$(pkgs_$(u)))))))) -lm
STATIC := $(BUILD)/bin/paddlerun-static
# What it was linked from: whose licences the wheel has.
STATIC_D := $(BUILD)/gen/paddlerun-static.d
$(STATIC) $(STATIC_D) &: $(BUILD)/obj/runtime/launch/cmd/main.o $(wildcard tools/static/*.c) \
    $(call built,runtime/launch/cmd)
	@mkdir -p $(BUILD)/bin $(BUILD)/gen
	@echo "  LD    $(STATIC)"
	@$(CC) $(CFLAGS_ALL) -static -s -o $(STATIC) $(filter %.o %.c,$^) $(LDFLAGS_ALL) \
	    -Wl,--no-warnings,--dependency-file=$(STATIC_D) \
	    -Wl,--start-group $(filter %.a,$^) $(call static_libs,$(LAUNCHER)) -Wl,--end-group

# The training library beside its one header, runtime/rt.h: to be linked, and to be loaded.  Both export the names of
# runtime/exports and nothing else.  The latter finds libraries that lie beside it (python/wheel puts them there).
RT_UNITS := $(sort $(foreach u,$(may_runtime/rt.h),$(call all_of,$(u))))
# One object: names that its files share would meet those of the program that links it.
$(BUILD)/obj/libpaddlert.o: $(foreach u,$(RT_UNITS),$(call objs,$(u))) runtime/exports
	@$(CC) -r -nostdlib -o $@ $(filter %.o,$^)
	@$$($(CC) -print-prog-name=objcopy) --keep-global-symbols=runtime/exports $@
$(BUILD)/lib/libpaddlert.a: $(BUILD)/obj/libpaddlert.o
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) qcs $@ $^
pic = $(patsubst $(BUILD)/obj/%,$(BUILD)/pic/%,$(foreach u,$(1),$(call objs,$(u))))
RT_PIC := $(call pic,$(filter-out common common/%,$(RT_UNITS)))
$(BUILD)/lib/libpaddlert-common.a: $(call pic,$(filter common common/%,$(RT_UNITS)))
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) rcs $@ $^
$(BUILD)/gen/paddlert.map: runtime/exports
	@mkdir -p $(@D)
	@{ echo "PADDLERT_1 { global:"; sed 's/$$/;/' $<; echo "local: *; };"; } >$@
$(BUILD)/lib/libpaddlert.so.1: $(RT_PIC) $(BUILD)/lib/libpaddlert-common.a $(BUILD)/gen/paddlert.map
	@echo "  LD    $@"
	@$(CC) -shared -o $@ $(RT_PIC) $(BUILD)/lib/libpaddlert-common.a $(LDFLAGS_ALL) \
	    -Wl,-soname,libpaddlert.so.1 -Wl,-z,defs -Wl,--version-script,$(BUILD)/gen/paddlert.map \
	    -Wl,--disable-new-dtags,-rpath,'$$ORIGIN' $(call libs,$(RT_UNITS))
	@ln -sf libpaddlert.so.1 $(BUILD)/lib/libpaddlert.so
$(call pic,$(RT_UNITS)): | $(foreach u,$(RT_UNITS),$(call gen,$(u)))
$(BUILD)/pic/%.o: %.c
	@mkdir -p $(@D)
	@$(call compile,$<) -fPIC -MMD -MP -c -o $@ $<
$(BUILD)/pic/%.pb-c.o: $(BUILD)/gen/%.pb-c.c
	@mkdir -p $(@D)
	@$(compile_generated) -fPIC -MMD -MP -c -o $@ $<
