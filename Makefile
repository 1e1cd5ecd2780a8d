# The build.  `make help` lists the targets; the parts are in mk/.
#
# The folders of code, and which of them each may include, are the rows of "Layers" in ARCHITECTURE.md.  Every x.c of
# a folder goes into its archive, except x_test.c (a cmocka program), x_fuzz.c (a fuzz target), x_testing.c (what tests
# share) and the files named in main_X of a program (mk/layers.mk).

##@ Build
## all: the default: build/bin/paddle-operator, build/bin/paddlerun and the rest
all:

BUILD     ?= build
# Before `make packages` there may be none: nothing to link then, and nothing to complain about.
PKG_CONFIG := $(or $(shell command -v pkg-config),true)
CC        := gcc
PREFIX    ?= /usr/local
VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Functions and lines, for stacks; the rest is a third of a build.  For a debugger: make OPT="-Og -g".
OPT       ?= -O2 -g1
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
SUBMAKE := $(MAKE) --no-print-directory

PARTS := $(addprefix mk/,layers.mk rules.mk library.mk test.mk bench.mk install.mk)
include $(PARTS)

all: $(addprefix $(BUILD)/bin/,$(PROGRAMS) paddle-gate) $(BUILD)/lib/libpaddlert.a \
    $(if $(SANITIZER),,$(BUILD)/lib/libpaddlert.so.1 $(BUILD)/bin/paddlerun-static $(BUILD)/gen/paddlerun-static.d)

.PHONY: all help packages manifests docs compile_commands.json database hooks version clean
.SECONDARY:
.SUFFIXES:

## help: this list
help:
	@awk -F ': ' '/^##@ / {print "\n" substr($$0, 5)} \
	    /^##  / {sub(/^##  +/, ""); printf "%26s%s\n", "", $$0} \
	    /^## [^ ]/ {name = substr($$1, 4); sub(/^[^:]*: /, ""); printf "  %-23s %s\n", name, $$0}' Makefile $(PARTS)

## packages: install the Debian packages that all this needs (root or sudo)
packages:
	@tools/packages

## manifests docs: print files from tables in the code: deploy/*/crd.yaml, RBAC, docs; `make check` compares
manifests docs: all
	@tools/generate

## compile_commands.json: how each file is compiled, for clangd and other tools
compile_commands.json: database

## hooks: let git run tools/hooks/pre-commit before each commit: the format, and gates that take seconds
hooks:
	git config core.hooksPath tools/hooks

## version: print what this checkout is
version:
	@echo "$(VERSION)"

## clean: remove build
clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj $(BUILD)/pic -name '*.d' 2>/dev/null)
